"""Starts a supervisor as a daemon, for the CLI and for `revive`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from mizzen.supervisor import systemd_notify
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.listeners import VARIABLE
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import Boot

UP = b"up"
"""What a daemon writes to its starter when it has become the supervisor."""

REVIVAL = 5.0
"""Seconds a killed supervisor may take to be brought back."""

_TIMEOUT = 30.0


class Reason(StrEnum):
    """Why a supervisor did not start, as far as somebody can do something about it."""

    PORT_TAKEN = "port-taken"
    OTHER = "other"


class StartFailed(Exception):
    """The supervisor did not come up; the message says why."""

    def __init__(self, message: str, reason: Reason = Reason.OTHER) -> None:
        super().__init__(message)
        self.reason = reason


def launch(home: Home, *, python: str, listeners: Mapping[str, int] | None = None, tethered: bool = False) -> bool:
    """Returns when a supervisor is up. True: it was started here; False: there was one already. Raises StartFailed.

    What it runs stands in `home.boot`. With `listeners` it is a revival: the new one takes these sockets over, and does
    not start at all if everything was stopped on purpose meanwhile. `tethered`: it ends by itself unless somebody ties
    a tether soon.
    """
    home.prepare()
    home.failure.unlink(missing_ok=True)
    descriptors = tuple((listeners or {}).values())
    environment = _environment(home)
    if listeners is not None:
        environment[VARIABLE] = json.dumps(dict(listeners))
    command = [python, "-P", "-m", "mizzen.supervisor", str(home.data_dir / "run"), "--daemon"]
    log = os.open(home.supervisor_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        starter = subprocess.Popen(
            [*command, "--tethered"] if tethered else command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=descriptors,
        )
    finally:
        os.close(log)
    with starter:
        assert starter.stdout is not None
        said, _, _ = select.select([starter.stdout], [], [], _TIMEOUT)  # readable when closed, too: it has ended
        here = bool(said) and os.read(starter.stdout.fileno(), len(UP)) == UP
    if here or alive(home) is not None:
        return here
    failure = read_json(home.failure) or {"message": f"the supervisor did not start; see {home.supervisor_log}"}
    raise StartFailed(failure["message"], Reason(failure.get("reason", Reason.OTHER)))


def alive(home: Home) -> dict[str, Any] | None:
    """What `supervisor.json` says, if the supervisor it speaks of lives; None when none is up. Raises UnusableHome."""
    home.check()
    info: dict[str, Any] = read_json(home.info) or {}
    start = info.get("start")
    return info if start and procfs.start_of(info.get("pid", 0)) == start else None


def alive_or_revived(home: Home) -> dict[str, Any] | None:
    """As `alive`; a supervisor that was killed is waited for while somebody is left who can bring it back."""
    end = time.monotonic() + REVIVAL
    while True:
        info = alive(home)
        if info is not None:
            return info
        if not home.info.exists() or not survivors.holders(home) or time.monotonic() > end:
            return None
        time.sleep(0.05)


def settled(home: Home) -> dict[str, Any] | None:
    """As `alive_or_revived`; one that awaits a tether is waited for, too: it gets it, or it ends."""
    while (info := alive_or_revived(home)) is not None and info.get("tether") == "awaited":
        time.sleep(0.05)
    return info


def _environment(home: Home) -> dict[str, str]:
    """This process's environment without what a supervisor added to it, in case it is a child of one.

    Nor is anything else of ours passed on: a starter's token is not for the code that models are made of, and only a
    service itself speaks to systemd.
    """
    key = os.environ.get("MIZZEN_PROCESS_KEY")
    processes = Boot.read(home.boot).processes if key else ()
    added = {name for process in processes if process.key == key for name in process.env}
    dropped = added | systemd_notify.OURS_ALONE
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_") and name not in dropped}
    return kept | {"MIZZEN_DATA_DIR": str(home.data_dir)}

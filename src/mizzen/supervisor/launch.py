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
"""The daemon writes this to its starter once it is the supervisor."""

REVIVAL = 5.0
"""Seconds allowed for reviving a killed supervisor."""

_TIMEOUT = 30.0
_SETTLING = 30.0
"""Seconds within which a supervisor without a tether has got one, or exits."""


class Reason(StrEnum):
    """Why a supervisor did not start, for causes that the user can fix."""

    PORT_TAKEN = "port-taken"
    OTHER = "other"


class StartFailed(Exception):
    """The supervisor did not come up; the message says why."""

    def __init__(self, message: str, reason: Reason = Reason.OTHER) -> None:
        super().__init__(message)
        self.reason = reason


def launch(home: Home, *, python: str, listeners: Mapping[str, int] | None = None, tethered: bool = False) -> bool:
    """Returns when a supervisor is up. True: this call started it; False: one was already up. Raises StartFailed.

    `home.boot` lists what it runs. With `listeners` this is a revival: the new supervisor takes over these sockets, and
    does not start if everything was stopped on purpose meanwhile. If `tethered`, it stops unless a client opens a
    tether soon.
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
        readable, _, _ = select.select([starter.stdout], [], [], _TIMEOUT)  # also when closed, after an exit
        started = bool(readable) and os.read(starter.stdout.fileno(), len(UP)) == UP
    if started or alive(home) is not None:
        return started
    failure = read_json(home.failure) or {"message": f"the supervisor did not start; see {home.supervisor_log}"}
    raise StartFailed(failure["message"], Reason(failure.get("reason", Reason.OTHER)))


def alive(home: Home) -> dict[str, Any] | None:
    """Returns the content of `supervisor.json` if that supervisor is alive, else None. Raises UnusableHome."""
    home.check()
    info: dict[str, Any] = read_json(home.info) or {}
    start = info.get("start")
    return info if start and procfs.start_of(info.get("pid", 0)) == start else None


def alive_or_revived(home: Home) -> dict[str, Any] | None:
    """Like `alive`, but waits for a killed supervisor while a process that can revive it is alive."""
    end = time.monotonic() + REVIVAL
    while True:
        info = alive(home)
        if info is not None:
            return info
        if not home.info.exists() or not survivors.holders(home) or time.monotonic() > end:
            return None
        time.sleep(0.05)


def wait_until_settled(home: Home) -> dict[str, Any] | None:
    """Like `alive_or_revived`, but also waits while the supervisor awaits a tether: it gets one, or it exits."""
    end = time.monotonic() + _SETTLING
    while (info := alive_or_revived(home)) is not None and info.get("tether") == "awaited":
        if time.monotonic() > end:  # it is stopped, or it hangs
            break
        time.sleep(0.05)
    return info


def _environment(home: Home) -> dict[str, str]:
    """Returns this process's environment without the variables that a supervisor added, in case it is a child of one.

    Other Mizzen variables are also removed: model code must not see the starter's token, and only the service itself
    may notify systemd.
    """
    key = os.environ.get("MIZZEN_PROCESS_KEY")
    processes = Boot.read(home.boot).processes if key else ()
    added = {name for process in processes if process.key == key for name in process.env}
    dropped = added | systemd_notify.OURS_ALONE
    rest = {name: value for name, value in os.environ.items() if not name.startswith("MIZZEN_") and name not in dropped}
    return rest | {"MIZZEN_DATA_DIR": str(home.data_dir)}

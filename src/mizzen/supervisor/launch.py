"""Starts a supervisor as a daemon, for the CLI and for `revive`."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Mapping
from typing import Any

from mizzen.supervisor import procfs
from mizzen.supervisor.home import Home, read_json
from mizzen.supervisor.listeners import VARIABLE
from mizzen.supervisor.protocol import Boot

_PER_PROCESS = ("MIZZEN_PROCESS_KEY", "MIZZEN_PROCESS_RUN", "MIZZEN_RUN_DIR", VARIABLE)
_TIMEOUT = 30.0


class StartFailed(Exception):
    """The supervisor did not come up; the message says why."""


def launch(home: Home, *, python: str, listeners: Mapping[str, int] | None = None) -> None:
    """Returns when a supervisor is up: the one started here or, if there was one already, that. Raises StartFailed.

    What it runs stands in `home.boot`. With `listeners` it is a revival: the new one takes these sockets over, and does
    not start at all if everything was stopped on purpose meanwhile.
    """
    home.prepare()
    home.failure.unlink(missing_ok=True)
    descriptors = tuple((listeners or {}).values())
    environment = _environment(home)
    if listeners is not None:
        environment[VARIABLE] = json.dumps(dict(listeners))
    log = os.open(home.supervisor_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        starter = subprocess.Popen(
            [python, "-P", "-m", "mizzen.supervisor", str(home.data_dir / "run"), "--daemon"],
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
        select.select([starter.stdout], [], [], _TIMEOUT)  # readable when closed: up, or ended
    if alive(home) is not None:
        return
    message = (read_json(home.failure) or {}).get("message")
    raise StartFailed(message or f"the supervisor did not start; see {home.supervisor_log}")


def alive(home: Home) -> dict[str, Any] | None:
    """What `supervisor.json` says, if the supervisor it speaks of lives; None when none is up."""
    info: dict[str, Any] | None = read_json(home.info)
    if info is None or procfs.start_of(info["pid"]) != info["start"]:
        return None
    return info


def _environment(home: Home) -> dict[str, str]:
    """This process's environment without what a supervisor added to it, in case it is a child of one."""
    added = set(_PER_PROCESS)
    key = os.environ.get("MIZZEN_PROCESS_KEY")
    for process in Boot.read(home.boot).processes if key else ():
        if process.key == key:
            added |= process.env.keys()
    kept = {name: value for name, value in os.environ.items() if name not in added}
    return kept | {"MIZZEN_DATA_DIR": str(home.data_dir)}

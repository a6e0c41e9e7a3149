"""Stopping a plane on this machine: through its supervisor, or, if that is dead, by ending the processes it left
behind."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from typing import Final

from mizzen import errors
from mizzen.supervisor import client
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs, survivors

PARTS: Final = re.compile(r"plane|supervisor|gateway-\d+")
"""The processes that every plane has. All others serve or train models, and their keys contain uids."""

_PATIENCE: Final = 5.0


def stop(home: Home, *, graceful: bool = True, keep_training: bool = False) -> list[str]:
    """Stop the plane and return descriptions of what ended; empty if nothing ran. With `keep_training`, training
    processes keep running without a plane, and the next plane started there takes them over."""
    if not home.run.exists():
        return []
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            supervisor, running, lasting = client.ask(home, "info"), members(home), trains(home)
            left = client.ask(home, "stop", graceful=graceful, leave=keep_training).get("left", ())
        except client.SupervisorGone:
            pass
        else:
            # The supervisor replies last, and exits after that: a caller that sees `ended` should find no process.
            procfs.wait_for_end(supervisor["pid"], supervisor["start"], _PATIENCE)
            return describe_processes([*(key for key in running if key not in left), "supervisor"], lasting)
        try:
            return survivors.end_survivors(home, leave=keep_training)
        except survivors.SupervisorAlive as error:
            # It is starting, ending, or was restarted by its children in between: ask the new one.
            if time.monotonic() > end:
                raise errors.Unavailable(
                    "the supervisor is running but does not answer", hint=f"see {home.supervisor_log}"
                ) from error
            time.sleep(0.05)


def members(home: Home) -> list[str]:
    """Return the keys of the running processes. Raises SupervisorGone."""
    processes = client.ask(home, "list")["processes"]
    return [process["key"] for process in processes if process["pid"] is not None]


def trains(home: Home) -> list[str]:
    """Return the keys of the training processes, with or without a supervisor."""
    return [survivor.key for survivor in survivors.lasting(home)] if home.run.exists() else []


def describe_processes(keys: Collection[str], training: Collection[str] = ()) -> list[str]:
    """Describe processes for people: the plane's parts by name, serving and training processes by count."""
    parts = [key for key in keys if PARTS.fullmatch(key)]
    trains = sum(key in training for key in keys)
    return [*parts, *_format_count(len(keys) - len(parts) - trains, "model"), *_format_count(trains, "training")]


def _format_count(number: int, what: str) -> list[str]:
    return [f"{number} {what} process{'es' if number > 1 else ''}"] if number else []

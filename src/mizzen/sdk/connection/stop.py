"""Ending a plane on this machine: by asking its supervisor, or, when that is dead, by ending what it left behind."""

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
"""The processes of every plane; all others serve models or train them, and their keys are made of uids."""

_PATIENCE: Final = 5.0


def stop(home: Home, *, graceful: bool = True, keep_training: bool = False) -> list[str]:
    """What was ended, in words. Empty when nothing ran. With `keep_training`, what trains goes on without a plane; the
    next one that is started there takes it over."""
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
            # It answers as the last of all, and ends after that: whoever is told `ended` should find no process.
            procfs.wait_for_end(supervisor["pid"], supervisor["start"], _PATIENCE)
            return named([*(key for key in running if key not in left), "supervisor"], lasting)
        try:
            return survivors.end_survivors(home, leave=keep_training)
        except survivors.SupervisorAlive as error:
            # It is starting, ending, or was brought back by its children in between: ask that one.
            if time.monotonic() > end:
                raise errors.Unavailable(
                    "the supervisor lives but does not answer", hint=f"see {home.supervisor_log}"
                ) from error
            time.sleep(0.05)


def members(home: Home) -> list[str]:
    """The keys of the processes that run now. SupervisorGone."""
    processes = client.ask(home, "list")["processes"]
    return [process["key"] for process in processes if process["pid"] is not None]


def trains(home: Home) -> list[str]:
    """The keys of the processes that train, with a supervisor or without."""
    return [survivor.key for survivor in survivors.lasting(home)] if home.run.exists() else []


def named(keys: Collection[str], training: Collection[str] = ()) -> list[str]:
    """For people: the parts by name, the processes that serve models and those that train by their number."""
    parts = [key for key in keys if PARTS.fullmatch(key)]
    trains = sum(key in training for key in keys)
    return [*parts, *_counted(len(keys) - len(parts) - trains, "model"), *_counted(trains, "training")]


def _counted(number: int, what: str) -> list[str]:
    return [f"{number} {what} process{'es' if number > 1 else ''}"] if number else []

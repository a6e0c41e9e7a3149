"""Stopping a plane on this machine: through its supervisor, or, if that is dead, by ending the processes it left
behind."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from mizzen import errors
from mizzen.supervisor import client, launch
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs, survivors
from mizzen.supervisor.protocol import Boot

PARTS: Final = re.compile(r"plane|supervisor|gateway-\d+")
"""The processes that every plane has. All others serve or train models, and their keys contain uids."""

_PATIENCE: Final = 5.0
ANSWER_SECONDS: Final = 5.0
"""How long a supervisor may take to answer a question."""
_BEYOND_GRACE: Final = 15.0
"""How long a stop may take beyond the stop timeout, which is also the time of a last kill."""


def stop(home: Home, *, graceful: bool = True, keep_training: bool = False) -> list[str]:
    """Stop the plane and return descriptions of what ended; empty if nothing ran. With `keep_training`, training
    processes keep running without a plane, and the next plane started there takes them over."""
    if not home.run.exists():
        return []
    end = time.monotonic() + _PATIENCE
    known, grace = None, _grace(home)
    while True:
        known = launch.alive(home) or known  # a stop that hangs has already removed this
        _continue_supervisor(known)
        try:
            supervisor, running, lasting = ask(home, "info"), members(home), trains(home)
            patience = grace + _BEYOND_GRACE
            left = client.ask(home, "stop", timeout=patience, graceful=graceful, leave=keep_training).get("left", ())
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
            if time.monotonic() > end and not _end_supervisor(home, known):
                raise errors.Unavailable(
                    "the supervisor is running but does not answer", hint=f"see {home.supervisor_log}"
                ) from error
            time.sleep(0.05)


def ask(home: Home, question: str) -> dict[str, Any]:
    """Ask the supervisor a question that it answers at once. Raises SupervisorGone if it does not within seconds."""
    return client.ask(home, question, timeout=ANSWER_SECONDS)


def explain_silence(home: Home) -> errors.Unavailable:
    """Return the error for a supervisor that did not answer."""
    info = launch.alive(home)
    if info is None:
        return errors.Unavailable(f"the supervisor of {home.data_dir} does not answer", hint="try again")
    pid = info["pid"]
    if procfs.is_stopped(pid):
        hint = f"continue it with 'kill -CONT {pid}', or end everything with 'mizzen down'"
        return errors.Unavailable(f"the supervisor (pid {pid}) is stopped", hint=hint)
    hint = f"see {home.supervisor_log}; 'mizzen down' ends everything"
    return errors.Unavailable(f"the supervisor (pid {pid}) does not answer", hint=hint)


def members(home: Home) -> list[str]:
    """Return the keys of the running processes. Raises SupervisorGone."""
    processes = ask(home, "list")["processes"]
    return [process["key"] for process in processes if process["pid"] is not None]


def trains(home: Home) -> list[str]:
    """Return the keys of the training processes, with or without a supervisor."""
    return [survivor.key for survivor in survivors.lasting(home)] if home.run.exists() else []


def _continue_supervisor(info: Mapping[str, Any] | None) -> None:
    """A stopped supervisor cannot stop anything."""
    if info is not None and procfs.is_stopped(info["pid"]):
        procfs.send(info["pid"], info["start"], signal.SIGCONT)


def _end_supervisor(home: Home, info: Mapping[str, Any] | None) -> bool:
    """Kill a supervisor that does not answer. False: it is not known, or cannot be killed."""
    if info is None:
        return False
    home.info.unlink(missing_ok=True)  # first: without it, no process starts another supervisor
    procfs.send(info["pid"], info["start"], signal.SIGKILL)
    return procfs.wait_for_end(info["pid"], info["start"], _PATIENCE)


def _grace(home: Home) -> float:
    try:
        return Boot.read(home.boot).stop_timeout
    except ValueError:
        return Boot().stop_timeout


def describe_processes(keys: Collection[str], training: Collection[str] = ()) -> list[str]:
    """Describe processes for people: the plane's parts by name, serving and training processes by count."""
    parts = [key for key in keys if PARTS.fullmatch(key)]
    trains = sum(key in training for key in keys)
    return [*parts, *_format_count(len(keys) - len(parts) - trains, "model"), *_format_count(trains, "training")]


def _format_count(number: int, what: str) -> list[str]:
    return [f"{number} {what} process{'es' if number > 1 else ''}"] if number else []

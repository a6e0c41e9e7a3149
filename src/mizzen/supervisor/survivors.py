"""Processes that outlived their supervisor: who they are, and ending them when no supervisor can.

Everything a supervisor starts carries the data dir, its key and the word of its start in its environment, and so do its
own children. A survivor is known by its record (pid and start) or, if it was never recorded, by those three.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mizzen.supervisor import procfs
from mizzen.supervisor.home import Home
from mizzen.supervisor.process import Record
from mizzen.supervisor.protocol import Boot

_KILL_WAIT = 2.0
"""Seconds in which the kernel ends what got KILL; beyond it a process hangs in the kernel and we leave it."""


class SupervisorAlive(Exception):
    """There is a supervisor: ask that one."""


@dataclass(frozen=True, slots=True)
class Survivor:
    pid: int
    start: str
    key: str
    run: str
    leader: bool
    """Leads a session: it was started by a supervisor, not by such a process (unless that was made a daemon)."""


def find(home: Home, key: str | None = None) -> list[Survivor]:
    """Every living process of this data dir (or of one key in it), oldest first, never this one."""
    found = []
    for pid in procfs.own_pids():
        values = procfs.environ(pid)
        if values.get("MIZZEN_DATA_DIR") != str(home.data_dir) or "MIZZEN_PROCESS_KEY" not in values:
            continue
        start = procfs.start_of(pid)
        if start is not None and pid != os.getpid() and key in (None, values["MIZZEN_PROCESS_KEY"]):
            run = values.get("MIZZEN_PROCESS_RUN", "")
            found.append(Survivor(pid, start, values["MIZZEN_PROCESS_KEY"], run, procfs.is_leader(pid)))
    return sorted(found, key=lambda survivor: (len(survivor.start), survivor.start))


def records(home: Home) -> list[Record]:
    read = (Record.read(path) for path in sorted(home.processes.glob("*.json")))
    return [record for record in read if record is not None]


def recorded(record: Record, found: Iterable[Survivor]) -> tuple[int, str] | None:
    """Pid and start of the living process a record speaks of. One without a pid was written just before the spawn."""
    view = record.view
    if view.pid is not None:
        return (view.pid, view.start) if view.start and procfs.start_of(view.pid) == view.start else None
    for survivor in found:
        if survivor.leader and record.run and (survivor.key, survivor.run) == (record.spec.key, record.run):
            return survivor.pid, survivor.start
    return None


def end_survivors(home: Home) -> list[str]:
    """Ends everything of a data dir whose supervisor is dead; says what. Raises SupervisorAlive.

    It holds the supervisor's lock meanwhile, and the info file goes first: without it nobody revives a supervisor.
    """
    home.prepare()
    with lock(home) as held:
        if not held:
            raise SupervisorAlive(f"a supervisor of {home.data_dir} is running")
        home.info.unlink(missing_ok=True)
        found = _all_of(home)
        for survivor in found:
            if survivor.leader:
                procfs.send(survivor.pid, survivor.start, signal.SIGTERM)
        _wait(found, Boot.read(home.boot).stop_timeout)
        end_at_once(home, found)
        clear(home)
    return [f"{survivor.key} (pid {survivor.pid})" for survivor in found if survivor.leader]


def end_at_once(home: Home, known: Iterable[Survivor] = (), key: str | None = None) -> None:
    """KILL for the known ones and whatever else is found, until nothing is left."""
    deadline = time.monotonic() + _KILL_WAIT
    left = _living(known) + find(home, key)
    while left and time.monotonic() < deadline:
        for survivor in left:
            procfs.send(survivor.pid, survivor.start, signal.SIGKILL)
        _wait(left, 0.2)
        left = _living(left) + find(home, key)


def clear(home: Home) -> None:
    """Removes the files that speak of running processes."""
    for path in (home.info, home.socket, home.failure, *home.processes.iterdir(), *home.sockets.iterdir()):
        path.unlink(missing_ok=True)


@contextmanager
def lock(home: Home) -> Iterator[bool]:
    """Whether this process got the supervisor's lock; held until the end of the block, or of the process."""
    with open(home.lock, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _all_of(home: Home) -> list[Survivor]:
    """Those found by their environment and, where that cannot be read, those that records speak of."""
    found = find(home)
    pids = {survivor.pid for survivor in found}
    for record in records(home):
        alive = recorded(record, found)
        if alive is not None and alive[0] not in pids:
            found.append(Survivor(alive[0], alive[1], record.spec.key, record.run, leader=True))
    return found


def _living(known: Iterable[Survivor]) -> list[Survivor]:
    return [survivor for survivor in known if procfs.start_of(survivor.pid) == survivor.start]


def _wait(known: list[Survivor], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _living(known) and time.monotonic() < deadline:
        time.sleep(0.02)

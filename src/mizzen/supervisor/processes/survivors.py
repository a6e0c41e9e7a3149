"""Processes that outlived their supervisor: who they are, and ending them when no supervisor can.

Everything a supervisor starts carries the data dir, its key and the word of its start in its environment, and so do its
own children. A survivor is known by its record (pid and start) or, if it was never recorded, by those three.

*Holders* have the listening sockets: plane, gateways, and a supervisor that one of them is starting. Only they can
bring a supervisor back, and one that was not given those sockets cannot bind the ports before they have ended.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.listeners import VARIABLE
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.processes.process import Record
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

    def wanted(values: Mapping[str, str]) -> bool:
        name = values.get("MIZZEN_PROCESS_KEY")
        return name is not None and key in (None, name)

    return _scan(home, wanted)


def holders(home: Home) -> list[Survivor]:
    """Every living process that has the listening sockets, oldest first. Without a key: a supervisor being started."""
    return _with_recorded(home, _scan(home, lambda values: VARIABLE in values), lambda record: record.spec.listeners)


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


def lasting(home: Home) -> list[Survivor]:
    """The lasting processes that live, by their records."""
    return _with_recorded(home, [], lambda record: record.spec.lasting)


def end_survivors(home: Home, *, leave: bool = False) -> list[str]:
    """Ends everything of a data dir whose supervisor is dead; says what. With `leave`, all but the lasting processes.
    Raises SupervisorAlive.

    It holds the supervisor's lock meanwhile, and the info file goes first: without it nobody revives a supervisor.
    """
    home.prepare()
    with lock(home) as held:
        if not held:
            raise SupervisorAlive(f"a supervisor of {home.data_dir} is running")
        home.info.unlink(missing_ok=True)
        try:
            grace = Boot.read(home.boot).stop_timeout
        except ValueError:  # the end must be possible in any case
            grace = Boot().stop_timeout
        left = {(survivor.key, survivor.run) for survivor in lasting(home)} if leave else set()
        found = end(lambda: [each for each in _all_of(home) if (each.key, each.run) not in left], grace)
        clear(home, {key for key, _ in left})
    return [f"{survivor.key} (pid {survivor.pid})" for survivor in found if survivor.leader]


def end_holders(home: Home, grace: float) -> None:
    """Frees the ports. Call it with the lock; the info file goes first, so that no holder starts another supervisor."""
    if holders(home):
        home.info.unlink(missing_ok=True)
        end(lambda: holders(home), grace)


def end_at_once(home: Home, spared: Container[tuple[str, str]] = ()) -> None:
    """KILL for everything of a data dir, until nothing is left but those `spared` by key and start."""
    _kill((), lambda: [survivor for survivor in find(home) if (survivor.key, survivor.run) not in spared])


def end(look: Callable[[], list[Survivor]], grace: float) -> list[Survivor]:
    """TERM for what `look` finds, after `grace` seconds KILL, until it finds nothing. Says what it found. Blocks."""
    found = look()
    led = {(survivor.key, survivor.run) for survivor in found if survivor.leader}
    for survivor in found:
        # The children of a living leader are that one's to end.
        if survivor.leader or (survivor.key, survivor.run) not in led:
            procfs.send(survivor.pid, survivor.start, signal.SIGTERM)
    _wait(found, grace)
    _kill(found, look)
    return found


def clear(home: Home, spared: Container[str] = ()) -> None:
    """Removes the files that speak of running processes, but for the records of those `spared`."""
    ended = (path for path in home.processes.iterdir() if path.stem not in spared)
    for path in (home.info, home.socket, home.failure, home.leaving, *ended, *home.sockets.iterdir()):
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
    return _with_recorded(home, find(home), lambda _: True)


def _with_recorded(home: Home, found: list[Survivor], wanted: Callable[[Record], bool]) -> list[Survivor]:
    """Those found by their environment and, where that cannot be read, those that records speak of."""
    pids = {os.getpid(), *(survivor.pid for survivor in found)}
    for record in filter(wanted, records(home)):
        alive = recorded(record, found)
        if alive is not None and alive[0] not in pids:
            found.append(Survivor(alive[0], alive[1], record.spec.key, record.run, leader=True))
    return found


def _scan(home: Home, wanted: Callable[[Mapping[str, str]], bool]) -> list[Survivor]:
    """Every living process of this data dir whose environment is wanted, oldest first, never this one."""
    found = []
    for pid in procfs.own_pids():
        values = procfs.environ(pid)
        if values.get("MIZZEN_DATA_DIR") != str(home.data_dir) or not wanted(values):
            continue
        start = procfs.start_of(pid)
        if start is not None and pid != os.getpid():
            key, run = values.get("MIZZEN_PROCESS_KEY", ""), values.get("MIZZEN_PROCESS_RUN", "")
            found.append(Survivor(pid, start, key, run, procfs.is_leader(pid)))
    return sorted(found, key=lambda survivor: (len(survivor.start), survivor.start))


def _kill(known: Iterable[Survivor], look: Callable[[], list[Survivor]]) -> None:
    deadline = time.monotonic() + _KILL_WAIT
    left = _living(known) + look()
    while left and time.monotonic() < deadline:
        for survivor in left:
            procfs.send(survivor.pid, survivor.start, signal.SIGKILL)
        _wait(left, 0.2)
        left = _living(left) + look()


def _living(known: Iterable[Survivor]) -> list[Survivor]:
    return [survivor for survivor in known if procfs.start_of(survivor.pid) == survivor.start]


def _wait(known: list[Survivor], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _living(known) and time.monotonic() < deadline:
        time.sleep(0.02)

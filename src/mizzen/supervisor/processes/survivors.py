"""Processes that outlived their supervisor: finding them, and ending them when no supervisor can.

A process that a supervisor starts is identified by its record (pid and start) or, if never recorded, by its group
(`confinement.cgroups`): the group's name has its data dir, its key and the id of its start, and no descendant can leave
it. Where there are no groups, those three are also in the environment, and the watcher of a PID namespace has the id in
its name.

*Holders* have the listening sockets: the plane, gateways, and a supervisor that one of them is starting. Only holders
can revive a supervisor. A supervisor that did not inherit those sockets cannot bind the ports until all holders exit.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mizzen.confinement import pid_namespace
from mizzen.confinement.cgroups import search
from mizzen.confinement.cgroups.groups import Cgroup
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.listeners import VARIABLE
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.processes.log_pipe import SALVAGED, salvage_held
from mizzen.supervisor.processes.process import ProcessRecord
from mizzen.supervisor.protocol import Boot

_KILL_WAIT = 2.0
"""Seconds that a killed process may take to end; after that it hangs in the kernel and we give up on it."""


class SupervisorAlive(Exception):
    """A supervisor is alive; send it the request instead."""


@dataclass(frozen=True, slots=True)
class Survivor:
    pid: int
    start: str
    key: str
    run: str
    leader: bool
    """Leads a session: a supervisor started it, not a supervised process (unless it daemonized)."""


def find(home: Home, key: str | None = None) -> list[Survivor]:
    """Returns every live process of this data dir (or of one key in it), oldest first, except this one."""

    def is_ours(values: Mapping[str, str]) -> bool:
        name = values.get("MIZZEN_PROCESS_KEY")
        return name is not None and key in (None, name)

    members = [survivor for survivor in _members(home) if key in (None, survivor.key)]
    known = {survivor.pid for survivor in members}
    return _sort([*members, *(each for each in _scan(home, is_ours) if each.pid not in known)])


def holders(home: Home) -> list[Survivor]:
    """Returns live processes with the listening sockets, oldest first. One without a key is a starting supervisor."""
    return _with_recorded(home, _scan(home, lambda values: VARIABLE in values), lambda record: record.spec.listeners)


def records(home: Home) -> list[ProcessRecord]:
    read = (ProcessRecord.read(path) for path in sorted(home.processes.glob("*.json")))
    return [record for record in read if record is not None]


def match_record(record: ProcessRecord, found: Iterable[Survivor]) -> tuple[int, str] | None:
    """Returns pid and start of a record's live process. A record without a pid was written just before the spawn."""
    view = record.view
    if view.pid is not None:
        return (view.pid, view.start) if view.start and procfs.start_of(view.pid) == view.start else None
    for survivor in found:
        if survivor.leader and record.run and (survivor.key, survivor.run) == (record.spec.key, record.run):
            return survivor.pid, survivor.start
    watcher = procfs.find_named(pid_namespace.mark_of(record.run)) if record.run else None
    start = procfs.start_of(watcher) if watcher is not None else None
    return (watcher, start) if watcher is not None and start is not None else None


def lasting(home: Home) -> list[Survivor]:
    """Returns the live lasting processes, by their records."""
    return _with_recorded(home, [], lambda record: record.spec.lasting)


def end_survivors(home: Home, *, leave: bool = False) -> list[str]:
    """Ends all processes of a data dir whose supervisor is dead, and returns their names. Raises SupervisorAlive.

    With `leave`, lasting processes are left running. Holds the supervisor's lock meanwhile, and removes the info file
    first: without it no process revives a supervisor.
    """
    home.prepare()
    with lock(home) as locked:
        if not locked:
            raise SupervisorAlive(f"a supervisor of {home.data_dir} is running")
        home.info.unlink(missing_ok=True)
        try:
            grace = Boot.read(home.boot).stop_timeout
        except ValueError:  # a stop must always be possible
            grace = Boot().stop_timeout
        left = {(survivor.key, survivor.run) for survivor in lasting(home)} if leave else set()

        def living() -> list[Survivor]:
            members = _with_recorded(home, find(home), lambda _: True)
            return [each for each in members if (each.key, each.run) not in left]

        for record in records(home):
            if record.spec.lasting and record.spec.key not in {key for key, _ in left}:
                salvage_held(home.pipes, record.spec.key)
        found = end(living, grace, home, left)
        clear(home, {key for key, _ in left})
    return [f"{survivor.key} (pid {survivor.pid})" for survivor in found if survivor.leader]


def end_holders(home: Home, grace: float) -> None:
    """Frees the ports. The caller holds the lock. Removes the info file first: then no holder starts a supervisor."""
    if holders(home):
        home.info.unlink(missing_ok=True)
        end(lambda: holders(home), grace)


def end_at_once(home: Home, spared: Collection[tuple[str, str]] = ()) -> None:
    """Kills all processes of a data dir until only those in `spared` (key and start) are left."""

    def look() -> list[Survivor]:
        return [survivor for survivor in find(home) if (survivor.key, survivor.run) not in spared]

    _kill((), look, _groups(home, spared))


def end(
    look: Callable[[], list[Survivor]], grace: float, home: Home | None = None, spared: Collection[tuple[str, str]] = ()
) -> list[Survivor]:
    """Sends TERM to the processes that `look` finds, then KILL after `grace` seconds until it finds none. Returns the
    processes found first. Blocks. With `home`, also ends the groups of this data dir that are not `spared`."""
    found = look()
    groups = _groups(home, spared) if home is not None else []
    led = {(survivor.key, survivor.run) for survivor in found if survivor.leader}
    for survivor in found:
        # A live leader ends its own children.
        if survivor.leader or (survivor.key, survivor.run) not in led:
            procfs.send(survivor.pid, survivor.start, signal.SIGTERM)
    _wait(found, grace)
    _kill(found, look, groups)
    return found


def clear(home: Home, spared: Container[str] = ()) -> None:
    """Removes the files about running processes, except the records of `spared` ones."""
    ended = (path for path in home.processes.iterdir() if path.stem not in spared)
    for path in (home.info, home.socket, home.failure, home.leaving, *ended):
        path.unlink(missing_ok=True)
    for path in home.pipes.iterdir():
        if path.name not in spared and not path.name.endswith(SALVAGED):
            path.unlink(missing_ok=True)
    for path in home.sockets.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def lock(home: Home) -> Iterator[bool]:
    """Yields whether this process got the supervisor's lock; held until the block, or the process, ends."""
    with open(home.lock, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _with_recorded(home: Home, found: list[Survivor], wanted: Callable[[ProcessRecord], bool]) -> list[Survivor]:
    """Returns survivors found by environment and, where that is unreadable, by their records."""
    pids = {os.getpid(), *(survivor.pid for survivor in found)}
    for record in filter(wanted, records(home)):
        alive = match_record(record, found)
        if alive is not None and alive[0] not in pids:
            found.append(Survivor(alive[0], alive[1], record.spec.key, record.run, leader=True))
    return found


def _scan(home: Home, wanted: Callable[[Mapping[str, str]], bool]) -> list[Survivor]:
    """Returns live processes of this data dir whose environment is `wanted`, oldest first, except this one."""
    found = []
    for pid in procfs.own_pids():
        values = procfs.environ(pid)
        if values.get("MIZZEN_DATA_DIR") != str(home.data_dir) or not wanted(values):
            continue
        start = procfs.start_of(pid)
        if start is not None and pid != os.getpid():
            key, run = values.get("MIZZEN_PROCESS_KEY", ""), values.get("MIZZEN_PROCESS_RUN", "")
            found.append(Survivor(pid, start, key, run, procfs.is_leader(pid)))
    return _sort(found)


def _members(home: Home) -> list[Survivor]:
    """Returns the live members of all groups of this data dir."""
    found = []
    prefix = search.prefix_of(str(home.data_dir))
    for group in search.groups_anywhere(prefix):
        key, run = search.parse_name(prefix, group.name)
        for pid in group.members():
            start = procfs.start_of(pid)
            if start is not None and pid != os.getpid():
                found.append(Survivor(pid, start, key, run, procfs.is_leader(pid)))
    return found


def _groups(home: Home, spared: Collection[tuple[str, str]]) -> list[Cgroup]:
    prefix = search.prefix_of(str(home.data_dir))
    return [each for each in search.groups_anywhere(prefix) if search.parse_name(prefix, each.name) not in spared]


def _sort(found: list[Survivor]) -> list[Survivor]:
    return sorted(found, key=lambda survivor: (len(survivor.start), survivor.start))


def _kill(known: Iterable[Survivor], look: Callable[[], list[Survivor]], groups: Iterable[Cgroup] = ()) -> None:
    deadline = time.monotonic() + _KILL_WAIT
    for group in groups:  # processes that fork cannot be ended one by one
        group.end(max(deadline - time.monotonic(), 0))
    left = _select_living(known) + look()
    while left and time.monotonic() < deadline:
        for survivor in left:
            procfs.send(survivor.pid, survivor.start, signal.SIGKILL)
        _wait(left, 0.2)
        left = _select_living(left) + look()


def _select_living(known: Iterable[Survivor]) -> list[Survivor]:
    return [survivor for survivor in known if procfs.start_of(survivor.pid) == survivor.start]


def _wait(known: list[Survivor], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _select_living(known) and time.monotonic() < deadline:
        time.sleep(0.02)

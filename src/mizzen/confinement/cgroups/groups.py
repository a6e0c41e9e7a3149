"""One group: the same name in each hierarchy. A folder says by its files what it can do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from mizzen.confinement.cgroups.hierarchies import Hierarchies

_PERIOD = 100_000
"""Microseconds over which the kernel enforces a CPU limit; its own default."""
_LEAST_QUOTA = 1000
_PASSES = 50
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Limits:
    """What all processes of a group may use together. None: no limit."""

    memory: int | None = None
    pids: int | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class Cgroup:
    name: str
    folders: tuple[str, ...]

    @classmethod
    def find(cls, hierarchies: Hierarchies, name: str) -> Self:
        """The group of this name, as far as it exists."""
        bases = dict.fromkeys(filter(None, (hierarchies.kill, *hierarchies.limits.values())))
        return cls(name, tuple(path for base in bases if os.path.isdir(path := os.path.join(base, name))))

    @classmethod
    def create(cls, hierarchies: Hierarchies, name: str, limits: Limits | None = None) -> Self:
        """`limits`: None for a group that only serves to find its processes. Raises OSError."""
        bases = [hierarchies.kill]
        if limits is not None:
            # A CPU group changes how the scheduler shares cores, so only a process with a limit gets one.
            bases += [base for name_, base in hierarchies.limits.items() if name_ != "cpu" or limits.cpu is not None]
        group = cls(name, tuple(os.path.join(base, name) for base in dict.fromkeys(filter(None, bases))))
        try:
            for folder in group.folders:
                os.makedirs(folder, exist_ok=True)
            if limits is not None:
                group.limit(limits)
        except OSError:
            group.remove()
            raise
        return group

    def limit(self, limits: Limits) -> None:
        """Applies at once, also to running processes. Raises OSError."""
        memory = str(limits.memory) if limits.memory is not None else None
        self._set("memory.max", memory or "max")
        self._set("memory.limit_in_bytes", memory or "-1")
        if memory is not None:
            for name, value in (("swap.max", "0"), ("memsw.limit_in_bytes", memory), ("oom.group", "1")):
                with suppress(OSError):  # not on every kernel
                    self._set(f"memory.{name}", value)
        self._set("pids.max", str(limits.pids) if limits.pids else "max")
        quota = max(round(limits.cpu * _PERIOD), _LEAST_QUOTA) if limits.cpu is not None else None
        self._set("cpu.max", f"{quota if quota is not None else 'max'} {_PERIOD}")
        self._set("cpu.cfs_quota_us", str(quota if quota is not None else -1))

    def open_doors(self) -> list[int]:
        """Returns descriptors; a child that writes `0` to each of them is in the group. Raises OSError."""
        doors: list[int] = []
        try:
            for folder in self.folders:
                door = os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
                doors.append(door)
        except OSError:
            for door in doors:
                os.close(door)
            raise
        return doors

    def members(self) -> set[int]:
        """Their pids. The first folder has all of them."""
        return _pids(self.folders[0]) if self.folders else set()

    def kill(self) -> None:
        """Sends KILL to every process in it, also to those that are being forked. They end soon after that."""
        for folder in self.folders:
            try:
                with open(os.path.join(folder, "cgroup.kill"), "w") as file:
                    file.write("1")
            except OSError:
                if os.path.exists(os.path.join(folder, "freezer.state")):
                    _freeze_and_kill(folder)

    def end(self, seconds: float) -> bool:
        """Kills it, waits until it is empty, and removes it. Returns whether that worked. Blocks."""
        deadline = time.monotonic() + seconds
        while self.members():
            self.kill()
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return self.remove()

    def remove(self) -> bool:
        """Removes the group unless processes are left in it. Returns whether it is gone."""
        left = False
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                left = True
        return not left

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                for line in _lines(os.path.join(folder, name)):
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        return 0

    def _set(self, name: str, value: str) -> None:
        """In the folders that have such a file."""
        for folder in self.folders:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                with open(path, "w") as file:
                    file.write(value)


def join(doors: Iterable[int]) -> None:
    """Moves this process into the group behind these descriptors. Raises OSError."""
    for door in doors:
        os.write(door, b"0")


def _freeze_and_kill(folder: str) -> None:
    """A frozen process cannot fork, and dies of its signal when it is thawed."""
    state = os.path.join(folder, "freezer.state")
    for _ in range(_PASSES):
        with suppress(OSError), open(state, "w") as file:
            file.write("FROZEN")
        for pid in _pids(folder):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(OSError), open(state, "w") as file:
            file.write("THAWED")
        if not _pids(folder):
            return


def _pids(folder: str) -> set[int]:
    return {int(line) for line in _lines(os.path.join(folder, "cgroup.procs")) if line.isdigit() and line != "0"}


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []

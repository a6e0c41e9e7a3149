"""What holds a process and its descendants together: a cgroup, else a PID namespace, else its session and its children.

The plane and the gateways are Mizzen's own and stay outside: they may start another supervisor, which must not end with
them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from mizzen.confinement import pid_namespace, process_tree
from mizzen.confinement.cgroups import groups, hierarchies, search
from mizzen.confinement.cgroups.groups import Cgroup, Limits
from mizzen.confinement.cgroups.hierarchies import Hierarchies
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.processes import procfs
from mizzen.supervisor.protocol import ProcessSpec

_RETRY = 0.05
_RETRIES = 200

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """For the start of one process: what its child has to enter between fork and exec."""

    doors: tuple[int, ...] = ()
    namespace: pid_namespace.Access = "none"
    run: str = ""

    @property
    def needs_setup(self) -> bool:
        return bool(self.doors) or self.namespace != "none"

    def enter(self) -> None:
        groups.join(self.doors)
        if self.namespace != "none":
            pid_namespace.enter(own=self.namespace == "own", run=self.run)

    def close(self) -> None:
        for door in self.doors:
            os.close(door)


@dataclass(frozen=True, slots=True)
class Containment:
    hierarchies: Hierarchies
    namespace: pid_namespace.Access
    prefix: str
    """Of the names of all groups of this data dir."""

    @classmethod
    def detect(cls, home: Home) -> Containment:
        found = hierarchies.prepare()
        prefix = search.prefix_of(str(home.data_dir))
        return cls(found, "none" if found.kill else pid_namespace.detect(), prefix)

    def enclose(self, spec: ProcessSpec, run: str) -> Enclosure:
        """Creates the group of a process that is about to start. Raises OSError."""
        if spec.listeners:
            return Enclosure()
        if self.hierarchies.kill:
            limits = None if spec.lasting else _limits_of(spec)
            group = Cgroup.create(self.hierarchies, self._name(spec.key, run), limits)
            return Enclosure(tuple(group.open_doors()))
        return Enclosure((), self.namespace if spec.confinement is not None else "none", run)

    def limit(self, spec: ProcessSpec, run: str) -> None:
        """Applies changed limits to a running process, as far as its group has them."""
        if not spec.lasting and self.hierarchies.kill:
            with suppress(OSError):
                Cgroup.find(self.hierarchies, self._name(spec.key, run)).limit(_limits_of(spec))

    def kill(self, pid: int, key: str, run: str) -> None:
        """Sends KILL to the process and all its descendants."""
        found = self._groups(key, run)
        for group in found:
            group.kill()
        if not found:
            below = process_tree.find_descendants(pid)
            procfs.kill_session(pid)
            process_tree.kill_until_gone(lambda: [each for each in below if procfs.start_of(each)], 0)

    def finish(self, pid: int, key: str, run: str, loop: asyncio.AbstractEventLoop) -> int:
        """After the end of the process (0: its start failed): ends its descendants and removes its group.

        Returns how many of its processes the kernel has killed for memory."""
        found = self._groups(key, run)
        kills = sum(group.oom_kills() for group in found)
        if found:
            self._remove(found, loop, _RETRIES)
        elif pid:
            procfs.kill_session(pid)
        return kills

    def clean_up(self, spared: Collection[tuple[str, str]], now: float) -> None:
        """Removes empty groups of earlier processes, except those of `spared` ones."""
        for group in search.groups_anywhere(self.prefix):
            if search.parse_name(self.prefix, group.name) not in spared:
                group.remove()
        search.remove_abandoned(self.hierarchies, now)

    def _remove(self, found: Collection[Cgroup], loop: asyncio.AbstractEventLoop, retries: int) -> None:
        left = [group for group in found if not group.remove()]
        for group in left:
            group.kill()
        if left and retries:
            loop.call_later(_RETRY, self._remove, left, loop, retries - 1)
        elif left:
            log.error("processes of %s cannot be ended", ", ".join(group.name for group in left))

    def _groups(self, key: str, run: str) -> list[Cgroup]:
        if not self.hierarchies.kill:
            return []
        name = self._name(key, run)
        found = (Cgroup.find(self.hierarchies, each) for each in (name, name + search.COMMAND))
        return [group for group in found if group.folders]

    def _name(self, key: str, run: str) -> str:
        return search.name_of(self.prefix, key, run)


def _limits_of(spec: ProcessSpec) -> Limits:
    return Limits(memory=spec.memory, pids=spec.pids, cpu=spec.cpu)

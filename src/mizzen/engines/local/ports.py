"""The loopback port of each HTTP replica: chosen once, and kept as long as the replica is wanted.

A new engine finds the port in the record of a running process, or in the reported address. Ports are chosen outside the
range that the kernel uses for outgoing connections. Within it, an outgoing connection could take the port between two
processes of the replica, even a connection to the port itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mizzen.engines.local import http_env
from mizzen.engines.local.process_specs import WorkloadPaths
from mizzen.errors import Unavailable
from mizzen.kinds.workload import ReplicaStatus
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import ProcessView, State
from mizzen.web import free_ports

PORT_RANGE = range(20_000, 30_000)
"""Below the range of Kubernetes node ports."""

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:([1-9][0-9]{3,4})")
_ENDED = frozenset({State.WAITING, State.FAILED})


class ReplicaPorts:
    """The ports of all HTTP replicas, by workload and index."""

    def __init__(self, home: Home, choice: Iterable[int] | None = None) -> None:
        self._home = home
        self._choice = tuple(list_ports() if choice is None else choice)
        self._assigned: dict[str, dict[int, int]] = {}

    def assign(self, paths: WorkloadPaths, replicas: int, reported: Mapping[int, ReplicaStatus]) -> Mapping[int, int]:
        """The ports of wanted and of reported replicas, by index. The mapping is live: it shows later changes.

        Raises Unavailable when no port is free.
        """
        assigned = self._assigned.setdefault(paths.uid, {})
        for index in sorted({*range(replicas), *reported} - assigned.keys()):
            found = self._read_recorded(paths.key(index)) or self._read_reported(reported.get(index))
            if found is not None:
                assigned[index] = found
            elif index < replicas:
                assigned[index] = self._choose(paths, index)
        return assigned

    def find_lost(self, paths: WorkloadPaths, replicas: int, views: Iterable[ProcessView]) -> list[int]:
        """Wanted replicas without a process whose port another program has taken."""
        assigned, states = self._assigned[paths.uid], {view.key: view.state for view in views}
        ended = (index for index in range(replicas) if states.get(paths.key(index), State.WAITING) in _ENDED)
        return [index for index in ended if not free_ports.is_free(assigned[index])]

    def reassign(self, paths: WorkloadPaths, indices: Iterable[int]) -> None:
        """Assign another port to each of these. Raises Unavailable when no port is free."""
        for index in indices:
            self._assigned[paths.uid][index] = self._choose(paths, index)

    def keep_only(self, paths: WorkloadPaths, indices: Collection[int]) -> None:
        """Keep the ports of these replicas and release the others."""
        assigned = self._assigned.get(paths.uid, {})
        for index in assigned.keys() - set(indices):
            del assigned[index]

    def release(self, paths: WorkloadPaths) -> None:
        self._assigned.pop(paths.uid, None)

    def _choose(self, paths: WorkloadPaths, index: int) -> int:
        """Starts at a port derived from the replica's name, so that two planes rarely try the same port at once."""
        taken = {port for ports in self._assigned.values() for port in ports.values()}
        taken |= {_port_in(read_json(path)) or 0 for path in self._home.processes.glob("*.json")}
        name = f"{paths.home.data_dir}\0{paths.key(index)}"
        first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(self._choice)
        for port in (*self._choice[first:], *self._choice[:first]):
            if port not in taken and free_ports.is_free(port):
                return port
        raise Unavailable(f"none of the ports {self._choice[0]} to {self._choice[-1]} is free")

    def _read_recorded(self, key: str) -> int | None:
        """The port that the last process of this key was started with."""
        return _port_in(read_json(self._home.processes / f"{key}.json"))

    def _read_reported(self, reported: ReplicaStatus | None) -> int | None:
        found = _ADDRESS.fullmatch(reported.address) if reported is not None else None
        if found is None or not 1024 <= int(found[1]) < 65_536:
            return None
        assigned = {port for ports in self._assigned.values() for port in ports.values()}
        return int(found[1]) if int(found[1]) not in assigned else None


def list_ports() -> list[int]:
    """The ports to choose from: outside the kernel's range for outgoing connections, if possible."""
    try:
        first, last = map(int, _OUTGOING.read_text().split())
    except (OSError, ValueError):
        return list(PORT_RANGE)
    return [port for port in PORT_RANGE if not first <= port <= last] or list(PORT_RANGE)


def _port_in(record: Any) -> int | None:
    """The port in the record of a process."""
    try:
        return int(record["spec"]["env"][http_env.PORT])
    except (KeyError, TypeError, ValueError):
        return None

"""The loopback port of each replica that answers HTTP: chosen once, and kept as long as the replica is wanted.

What runs has its port in the record of its process, and what was reported has it in its address: a new engine finds it
there. Ports are chosen outside the range that the kernel takes for outgoing connections. Within it, such a connection
could have the port whenever the replica is between two processes; one to the port itself, even.
"""

from __future__ import annotations

import errno
import hashlib
import re
import socket
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mizzen.engines.local import http_env
from mizzen.engines.local.process_specs import Place
from mizzen.errors import Unavailable
from mizzen.kinds.workload import ReplicaStatus
from mizzen.supervisor.data_dir import Home, read_json
from mizzen.supervisor.protocol import ProcessView, State

CHOICE = range(20_000, 30_000)
"""Below what Kubernetes gives to services on every node."""

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ADDRESS = re.compile(r"http://127\.0\.0\.1:([1-9][0-9]{3,4})")
_ENDED = frozenset({State.WAITING, State.FAILED})


class Ports:
    """Of all replicas that answer, by workload and index."""

    def __init__(self, home: Home, choice: Iterable[int] | None = None) -> None:
        self._home = home
        self._choice = tuple(lasting_ports() if choice is None else choice)
        self._given: dict[str, dict[int, int]] = {}

    def of(self, place: Place, replicas: int, told: Mapping[int, ReplicaStatus]) -> Mapping[int, int]:
        """By index: of those that are wanted, and of those that were reported. It shows later changes, too.

        Unavailable when all are taken.
        """
        given = self._given.setdefault(place.uid, {})
        for index in sorted({*range(replicas), *told} - given.keys()):
            found = self._recorded(place.key(index)) or self._reported(told.get(index))
            if found is not None:
                given[index] = found
            elif index < replicas:
                given[index] = self._chosen(place, index)
        return given

    def lost(self, place: Place, replicas: int, views: Iterable[ProcessView]) -> list[int]:
        """Those that are wanted and have no process, while somebody has their port."""
        given, states = self._given[place.uid], {view.key: view.state for view in views}
        ended = (index for index in range(replicas) if states.get(place.key(index), State.WAITING) in _ENDED)
        return [index for index in ended if not is_free(given[index])]

    def change(self, place: Place, indices: Iterable[int]) -> None:
        """Another port for each of these. Unavailable when all are taken."""
        for index in indices:
            self._given[place.uid][index] = self._chosen(place, index)

    def keep(self, place: Place, indices: Collection[int]) -> None:
        """Of these; the others are free for anybody."""
        given = self._given.get(place.uid, {})
        for index in given.keys() - set(indices):
            del given[index]

    def forget(self, place: Place) -> None:
        self._given.pop(place.uid, None)

    def _chosen(self, place: Place, index: int) -> int:
        """Begins somewhere of the replica's own, so that two planes hardly ever want the same one at once."""
        taken = {port for ports in self._given.values() for port in ports.values()}
        taken |= {_port(read_json(path)) or 0 for path in self._home.processes.glob("*.json")}
        name = f"{place.home.data_dir}\0{place.key(index)}"
        first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(self._choice)
        for port in (*self._choice[first:], *self._choice[:first]):
            if port not in taken and is_free(port):
                return port
        raise Unavailable(f"none of the ports {self._choice[0]} to {self._choice[-1]} is free")

    def _recorded(self, key: str) -> int | None:
        """As the last process of this key was told."""
        return _port(read_json(self._home.processes / f"{key}.json"))

    def _reported(self, told: ReplicaStatus | None) -> int | None:
        found = _ADDRESS.fullmatch(told.address) if told is not None else None
        if found is None or not 1024 <= int(found[1]) < 65_536:
            return None
        given = {port for ports in self._given.values() for port in ports.values()}
        return int(found[1]) if int(found[1]) not in given else None


def lasting_ports() -> list[int]:
    """All to choose from: none that an outgoing connection may have, where there are such."""
    try:
        first, last = map(int, _OUTGOING.read_text().split())
    except (OSError, ValueError):
        return list(CHOICE)
    return [port for port in CHOICE if not first <= port <= last] or list(CHOICE)


def is_free(port: int) -> bool:
    """Could a program listen there, on the loopback or on all addresses?"""
    return all(_can_bind(family, port) for family in (socket.AF_INET, socket.AF_INET6))


def _port(record: Any) -> int | None:
    """That a process was told, by its record."""
    try:
        return int(record["spec"]["env"][http_env.PORT])
    except (KeyError, TypeError, ValueError):
        return None


def _can_bind(family: socket.AddressFamily, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As most programs do: what is left of connections that have ended does not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno not in (errno.EADDRINUSE, errno.EACCES)  # else this machine has no such addresses
    return True

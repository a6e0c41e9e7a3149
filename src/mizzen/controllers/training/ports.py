"""Where replicas of a set listen: ports of the loopback, chosen once for the life of a job."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Iterable, Mapping

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Ref

CHOICE = range(20_000, 30_000)
"""Below what kernels take for outgoing connections, and what Kubernetes gives to services."""


class Ports:
    """Knows who has which, so that no two jobs are given the same before either listens there."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 - where to begin, no secret
        self._given: dict[Ref, frozenset[int]] = {}

    def note(self, job: Ref, ports: Iterable[int]) -> None:
        self._given[job] = self._given.get(job, frozenset()) | frozenset(ports)

    def forget(self, job: Ref) -> None:
        self._given.pop(job, None)

    def chosen(self, job: Ref, names: Collection[str]) -> Mapping[str, int]:
        """One for each of these replicas. Unavailable when too few are free."""
        taken = {port for ports in self._given.values() for port in ports}
        start = self._rng.randrange(len(CHOICE))
        free = (port for port in (*CHOICE[start:], *CHOICE[:start]) if port not in taken and is_free(port))
        found = dict(zip(names, free, strict=False))
        if len(found) < len(names):
            raise Unavailable(f"of the ports {CHOICE[0]} to {CHOICE[-1]} fewer than {len(names)} are free")
        self.note(job, found.values())
        return found


def is_free(port: int) -> bool:
    """Could a program listen there, on the loopback and on all addresses?"""
    return all(_can_bind(host, port) for host in ("127.0.0.1", "0.0.0.0"))  # noqa: S104 - bound and closed again


def _can_bind(host: str, port: int) -> bool:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError:
        return False
    return True

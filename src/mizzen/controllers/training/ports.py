"""The ports that replicas of a job listen on: on loopback, chosen once for the life of a job."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Ref
from mizzen.web import free_ports

PORT_RANGE = range(20_000, 30_000)
"""Below the ranges of kernels for outgoing connections and of Kubernetes for services."""


class JobPorts:
    """Reservations of ports, so that no two jobs get the same one before either listens there."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 - where to begin, no secret
        self._reserved: dict[Ref, frozenset[int]] = {}

    def reserve(self, job: Ref, ports: Iterable[int]) -> None:
        self._reserved[job] = self._reserved.get(job, frozenset()) | frozenset(ports)

    def release(self, job: Ref) -> None:
        self._reserved.pop(job, None)

    def choose(self, job: Ref, names: Collection[str]) -> Mapping[str, int]:
        """One port for each of these replicas. Raises Unavailable when too few are free."""
        taken = {port for ports in self._reserved.values() for port in ports}
        start = self._rng.randrange(len(PORT_RANGE))
        ports = (port for port in (*PORT_RANGE[start:], *PORT_RANGE[:start]) if port not in taken)
        found = dict(zip(names, filter(free_ports.is_free, ports), strict=False))
        if len(found) < len(names):
            raise Unavailable(f"fewer than {len(names)} of the ports {PORT_RANGE[0]} to {PORT_RANGE[-1]} are free")
        self.reserve(job, found.values())
        return found

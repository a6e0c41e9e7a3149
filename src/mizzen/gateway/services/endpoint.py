"""One address of a service: the connections to it, and whether it is worth asking just now."""

from __future__ import annotations

from mizzen.gateway.services.address import Host
from mizzen.gateway.services.http_connection import Connection

FIRST_REST, LAST_REST = 0.1, 5.0
"""Seconds that an address is passed over after a failure, where there are others. Doubled each time it fails again."""


class Peer:
    __slots__ = (
        "_fails", "address", "busy", "heard", "host", "idle", "opening", "resting_until", "retired", "unreached",
        "used", "why",
    )  # fmt: skip

    def __init__(self, address: str, host: Host) -> None:
        self.address = address
        self.host = host
        self.idle: list[Connection] = []
        """Last in, first out: those that are not needed are left to grow old."""
        self.busy = 0
        """Connections that are waited for an answer by."""
        self.opening = 0
        self.retired = False
        self.used = 0
        """When it was last asked, by the pool's count."""
        self.heard = 0.0
        """When it last answered, by the clock."""
        self.resting_until = 0.0
        self.unreached = -1
        """When it was last found unreachable, by the pool's count."""
        self.why = ""
        """It failed."""
        self._fails = 0

    @property
    def load(self) -> int:
        return self.busy + self.opening

    def take(self) -> Connection | None:
        """One that is open, and idle no more."""
        while self.idle:
            connection = self.idle.pop()
            if connection.open:
                return connection
        return None

    def failed(self, now: float, why: str) -> bool:
        """Whether that is news."""
        self.why = why
        self.resting_until = now + min(FIRST_REST * 2.0**self._fails, LAST_REST)
        self._fails = min(self._fails + 1, 16)
        return self._fails == 1

    def answered(self, now: float) -> None:
        self.heard = now
        self.resting_until = 0.0
        self._fails = 0

    def close_idle(self, before: float | None = None) -> None:
        """Those that have been idle since before then; without a time, all."""
        kept = []
        for connection in self.idle:
            if before is None or connection.idle_since < before:
                connection.close()
            else:
                kept.append(connection)
        self.idle = kept

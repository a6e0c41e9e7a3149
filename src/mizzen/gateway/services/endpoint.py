"""One address of a service: its connections, and its backoff after failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from mizzen.gateway.services.address import ServiceHost
from mizzen.gateway.services.http_connection import HttpConnection

MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0
"""Seconds of backoff after a failure, while other addresses are available. Doubled with each further failure."""


@dataclass(slots=True, eq=False)
class ServiceEndpoint:
    address: str
    host: ServiceHost
    idle: list[HttpConnection] = field(default_factory=list)
    """Last in, first out, so that unneeded connections become idle for long and are closed."""
    busy: int = 0
    """Connections with a request in flight."""
    opening: int = 0
    retired: bool = False
    last_used: int = 0
    """When it last got a request, by the pool's event counter."""
    last_response: float = 0.0
    """When it last answered, by the clock."""
    backoff_until: float = 0.0
    unreachable_at: int = -1
    """When a connection last failed, by the pool's event counter."""
    failure: str = ""
    """Why it failed last."""
    _failures: int = 0

    @property
    def load(self) -> int:
        return self.busy + self.opening

    def take(self) -> HttpConnection | None:
        """Removes and returns an open idle connection."""
        while self.idle:
            connection = self.idle.pop()
            if connection.open:
                return connection
        return None

    def mark_failed(self, now: float, why: str) -> bool:
        """Starts the backoff; returns True if this is the first failure in a row."""
        self.failure = why
        self.backoff_until = now + min(MIN_BACKOFF * 2.0**self._failures, MAX_BACKOFF)
        self._failures = min(self._failures + 1, 16)
        return self._failures == 1

    def mark_alive(self, now: float) -> None:
        self.last_response = now
        self.backoff_until = 0.0
        self._failures = 0

    def close_idle(self, before: float | None = None) -> None:
        """Closes connections that became idle before that time; without a time, all."""
        remaining = []
        for connection in self.idle:
            if before is None or connection.idle_since < before:
                connection.close()
            else:
                remaining.append(connection)
        self.idle = remaining

"""One address of a service: its connections, and its backoff after failures."""

from __future__ import annotations

from mizzen.gateway.services.address import ServiceHost
from mizzen.gateway.services.http_connection import HttpConnection

MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0
"""Seconds of backoff after a failure, while other addresses are available. Doubled with each further failure."""


class ServiceEndpoint:
    __slots__ = (
        "_failures",
        "address",
        "backoff_until",
        "busy",
        "failure",
        "host",
        "idle",
        "last_response",
        "last_used",
        "opening",
        "retired",
        "unreachable_at",
    )  # fmt: skip

    def __init__(self, address: str, host: ServiceHost) -> None:
        self.address = address
        self.host = host
        self.idle: list[HttpConnection] = []
        """Last in, first out, so that unneeded connections become idle for long and are closed."""
        self.busy = 0
        """Connections with a request in flight."""
        self.opening = 0
        self.retired = False
        self.last_used = 0
        """When it last got a request, by the pool's event counter."""
        self.last_response = 0.0
        """When it last answered, by the clock."""
        self.backoff_until = 0.0
        self.unreachable_at = -1
        """When a connection last failed, by the pool's event counter."""
        self.failure = ""
        """Why it failed last."""
        self._failures = 0

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

"""Scale from zero: requests to a server without replicas are held, within limits, until the plane starts one.

This code runs only while no replica is ready, so requests to a ready server pay nothing for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FIRST_START_SECONDS = 5.0
"""The expected start time before a start was measured."""
MAX_RETRY_SECONDS = 60
RETRY_WINDOW_SECONDS = 2.0 * MAX_RETRY_SECONDS
"""A rejected caller counts as waiting for this long: callers retry, and not before the Retry-After they got."""


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """Limits for the calls that are held for one served version."""

    calls: int
    bytes: int


UNLIMITED = HoldLimits(1 << 30, 1 << 60)


class Activator:
    """Requests the first replica for one queue, and estimates when it will be ready."""

    __slots__ = ("_expected", "_last_request", "_limits", "_since", "_wake")

    def __init__(self, limits: HoldLimits, wake: Callable[[], None]) -> None:
        """`wake` is called for the first request after a quiet time: the plane has to learn of it at once."""
        self._limits = limits
        self._wake = wake
        self._expected = FIRST_START_SECONDS
        self._since = self._last_request = -math.inf

    def on_request(self, now: float) -> None:
        if not self.is_awaited(now):
            self._since = self._last_request = now
            self._wake()
        self._last_request = now

    def is_awaited(self, now: float) -> bool:
        """Whether a caller waits for the first replica, or was rejected recently and may retry."""
        return now - self._last_request < RETRY_WINDOW_SECONDS

    def on_ready(self, now: float) -> None:
        """A replica is ready."""
        if self.is_awaited(now):
            self._expected = now - self._since
        self._since = self._last_request = -math.inf

    def is_full(self, calls: int, size: int) -> bool:
        """Whether so many calls and bytes, the next call included, exceed the limits."""
        return calls > self._limits.calls or (calls > 1 and size > self._limits.bytes)

    def retry_after(self, now: float) -> int:
        """Whole seconds until a replica is ready, if it takes as long as last time."""
        passed = now - self._since if self.is_awaited(now) else 0.0
        return max(1, min(math.ceil(self._expected - passed), MAX_RETRY_SECONDS))

"""A server without replicas for want of requests: who asks is held, within bounds, and the plane is told to start one.

Looked at only while no replica is ready: whoever is answered pays nothing for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

FIRST_GUESS = 5.0
"""Seconds that a start takes, before one was seen."""
MOST_RETRY = 60
REMEMBERED = 2.0 * MOST_RETRY
"""Seconds that somebody counts as waiting who was sent away: they may come again, and not before they were told to."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the calls that are held for one served version that is starting."""

    calls: int
    bytes: int


UNBOUNDED = Bounds(1 << 30, 1 << 60)


class Nap:
    """Of one queue."""

    __slots__ = ("_asked", "_bounds", "_expected", "_since", "_wake")

    def __init__(self, bounds: Bounds, wake: Callable[[], None]) -> None:
        """`wake` is called when somebody asks and nobody has for a while: the plane is to be told at once."""
        self._bounds = bounds
        self._wake = wake
        self._expected = FIRST_GUESS
        self._since = self._asked = -math.inf

    def asked(self, now: float) -> None:
        if not self.awaited(now):
            self._since = self._asked = now
            self._wake()
        self._asked = now

    def awaited(self, now: float) -> bool:
        """Does somebody wait for the first replica, or will come again?"""
        return now - self._asked < REMEMBERED

    def over(self, now: float) -> None:
        """A replica is ready."""
        if self.awaited(now):
            self._expected = now - self._since
        self._since = self._asked = -math.inf

    def is_full(self, calls: int, size: int) -> bool:
        """Of so many calls and bytes, with the next one."""
        return calls > self._bounds.calls or (calls > 1 and size > self._bounds.bytes)

    def retry_after(self, now: float) -> int:
        """Whole seconds until it is there, if it takes as long as last time."""
        passed = now - self._since if self.awaited(now) else 0.0
        return max(1, min(math.ceil(self._expected - passed), MOST_RETRY))

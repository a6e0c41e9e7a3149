"""One timer for the deadlines of all queues: a timer per request would cost more than the rest of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SWEEP_SECONDS = 0.01


class ExpiringQueue(Protocol):
    @property
    def busy(self) -> int:
        """The number of calls that may expire."""

    def sweep(self, now: float) -> None:
        """End the calls whose deadline has passed."""


class DeadlineTimer:
    """Expires calls in all queues with one timer, which runs only while a call waits or is in flight."""

    def __init__(self, clock: Callable[[], float], call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self.queues: set[ExpiringQueue] = set()
        self.armed = False
        self._clock = clock
        self._call_later = call_later

    def arm(self) -> None:
        self.armed = True
        self._call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self.armed = False
        now = self._clock()
        busy = 0
        for queue in list(self.queues):
            queue.sweep(now)
            busy += queue.busy
        if busy and not self.armed:
            self.arm()

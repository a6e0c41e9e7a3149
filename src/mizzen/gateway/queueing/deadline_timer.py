"""One timer for the deadlines of all queues: a timer for each request would cost more than the rest of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SWEEP_SECONDS = 0.01


class Swept(Protocol):
    @property
    def busy(self) -> int:
        """How much there is that may run out of time."""

    def sweep(self, now: float) -> None:
        """End what is over its time."""


class Sweeper:
    """Ends what is over its time, in all queues, with one timer that runs only while something waits or is out."""

    def __init__(self, clock: Callable[[], float], call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self.queues: set[Swept] = set()
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

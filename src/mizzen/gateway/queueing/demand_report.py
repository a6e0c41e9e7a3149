"""Says what is asked of the servers whose replicas follow it: every few moments, and at once when one has none.

There is no timer as long as no Table names such a server.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from mizzen.gateway.queueing.queue import Queue
from mizzen.protocol.gateway_files import demand, status_files
from mizzen.protocol.gateway_files.demand import Asked, Demand

SAMPLE = 0.1
"""Seconds between two looks at how much is in flight."""
IDLE = 0.5
"""The same, when nothing was at the last one and nothing has to be taken back: most of the time of most models."""
SAMPLES = 10
"""Looks that are averaged: one request more or less, at one instant, starts no process."""
WRITE_EVERY = 3
"""Looks between two files, at least."""
USED = 1.0
"""Seconds that a server counts as asked after a look that found it so: a call may well be over between two looks."""

log = logging.getLogger(__name__)


class DemandReport:
    def __init__(
        self,
        folder: Path,
        gateway: str,
        *,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`gateway` is the name of this process."""
        self._folder = folder
        self._gateway = gateway
        self._clock = clock
        self._call_later = call_later
        self._queues: list[Queue] = []
        self._samples: dict[str, deque[int]] = {}
        """By server: how much was in flight at the last looks."""
        self._seen: dict[Queue, int] = {}
        """What each had been asked at the last look."""
        self._used: dict[str, float] = {}
        """By server: the last look before which somebody had asked it."""
        self._looks = 0
        self._ticking = self._busy = self._woken = self._complained = False
        self._written: dict[str, Asked] = {}

    def follow(self, queues: Iterable[Queue]) -> None:
        """Of the Table that is in force now."""
        self._queues = [queue for queue in queues if queue.server.scaled]
        ids = {queue.server.id for queue in self._queues}
        self._samples = {id_: self._samples.get(id_) or deque([0] * SAMPLES, SAMPLES) for id_ in ids}
        self._seen = {queue: self._seen.get(queue, 0) for queue in self._queues}
        self._used = {id_: at for id_, at in self._used.items() if id_ in ids}
        if not self._ticking and (self._queues or self._written):
            self._ticking = True
            self._tick()

    def wake(self) -> None:
        """Somebody asks a server that has no replica."""
        if not self._woken:
            self._woken = True
            # With all that came in the same turn.
            self._call_later(0.0, self._write)

    def stop(self) -> None:
        self._queues.clear()
        status_files.remove(self._folder, self._gateway)

    def _tick(self) -> None:
        self._look()
        self._looks += 1
        telling = bool(self._written) or self._busy
        if telling and (self._looks % WRITE_EVERY == 0 or not self._queues):
            self._write()
        self._ticking = bool(self._queues or self._written)
        if self._ticking:
            self._call_later(SAMPLE if telling else IDLE, self._tick)

    def _look(self) -> None:
        flying, now = dict.fromkeys(self._samples, 0), self._clock()
        self._busy = False
        for queue in self._queues:
            if count := queue.busy:
                flying[queue.server.id] += count
                self._busy = True
            if (asked := _asked(queue)) != self._seen[queue]:
                self._seen[queue] = asked
                self._used[queue.server.id] = now
            self._busy = self._busy or queue.awaited(now)  # told again, where it could not be written
        self._used = {id_: at for id_, at in self._used.items() if now - at < USED}
        self._busy = self._busy or bool(self._used)
        for id_, count in flying.items():
            self._samples[id_].append(count)

    def _write(self) -> None:
        self._woken = False
        told = self._told()
        if told == self._written:
            return
        try:
            demand.write(self._folder, Demand(self._gateway, os.getpid(), told))
        except OSError as error:
            if not self._complained:
                log.warning("what is asked cannot be written to %s, so no replicas follow it: %s", self._folder, error)
                self._complained = True
            return
        self._written = told
        self._complained = False

    def _told(self) -> dict[str, Asked]:
        now = self._clock()
        awaited = {queue.server.id for queue in self._queues if queue.awaited(now)}
        means = {id_: round(sum(samples) / SAMPLES, 1) for id_, samples in self._samples.items()}
        told = {id_: Asked(mean, id_ in awaited, id_ in self._used) for id_, mean in sorted(means.items())}
        return {id_: asked for id_, asked in told.items() if asked != _NOTHING}


_NOTHING = Asked()


def _asked(queue: Queue) -> int:
    """Grows with whatever is asked of it, also with what its cache knew: who is asked for that is not idle."""
    return queue.tally.batches + (0 if queue.cache is None else queue.cache.hits)

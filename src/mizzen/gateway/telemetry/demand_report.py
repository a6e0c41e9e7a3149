"""Reports the load of autoscaled servers to the plane: regularly, and at once if a server without replicas gets a call.

There is no timer while no Table names such a server.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from mizzen.gateway.queueing.queue import Queue
from mizzen.protocol.gateway_files import demand, status_files
from mizzen.protocol.gateway_files.demand import Demand, ServerDemand

SAMPLE_SECONDS = 0.1
"""Seconds between two samples of the calls in flight."""
IDLE_SECONDS = 0.5
"""The same while the last sample was 0 and no report has to be withdrawn: the usual case for most models."""
SAMPLES = 10
"""Samples that are averaged, so that a single request does not start a process."""
WRITE_EVERY = 3
"""Minimum number of samples between two writes."""
USED_SECONDS = 1.0
"""Seconds that a server counts as used after a sample found new calls; a call may begin and end between samples."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class DemandReport:
    folder: Path
    gateway: str
    """The name of this process."""
    _: KW_ONLY
    clock: Callable[[], float]
    call_later: Callable[[float, Callable[[], None]], object]
    _queues: list[Queue] = field(default_factory=list)
    _samples: dict[str, deque[int]] = field(default_factory=dict)
    """By server: calls in flight at the last samples."""
    _last_counts: dict[Queue, int] = field(default_factory=dict)
    """By queue: the request count at the last sample."""
    _used: dict[str, float] = field(default_factory=dict)
    """By server: the last sample that found new requests."""
    _looks: int = 0
    _ticking: bool = False
    _busy: bool = False
    _woken: bool = False
    _warned: bool = False
    _written: dict[str, ServerDemand] = field(default_factory=dict)

    def follow(self, queues: Iterable[Queue]) -> None:
        """Follows the queues of the current Table."""
        self._queues = [queue for queue in queues if queue.server.scaled]
        ids = {queue.server.id for queue in self._queues}
        self._samples = {id_: self._samples.get(id_) or deque([0] * SAMPLES, SAMPLES) for id_ in ids}
        self._last_counts = {queue: self._last_counts.get(queue, 0) for queue in self._queues}
        self._used = {id_: at for id_, at in self._used.items() if id_ in ids}
        if not self._ticking and (self._queues or self._written):
            self._ticking = True
            self._tick()

    def wake(self) -> None:
        """A server without replicas got a call."""
        if not self._woken:
            self._woken = True
            # Together with all calls of the same turn of the event loop.
            self.call_later(0.0, self._write)

    def stop(self) -> None:
        self._queues.clear()
        status_files.remove(self.folder, self.gateway)

    def _tick(self) -> None:
        self._sample()
        self._looks += 1
        reporting = bool(self._written) or self._busy
        if reporting and (self._looks % WRITE_EVERY == 0 or not self._queues):
            self._write()
        self._ticking = bool(self._queues or self._written)
        if self._ticking:
            self.call_later(SAMPLE_SECONDS if reporting else IDLE_SECONDS, self._tick)

    def _sample(self) -> None:
        in_flight, now = dict.fromkeys(self._samples, 0), self.clock()
        self._busy = False
        for queue in self._queues:
            if count := queue.busy:
                in_flight[queue.server.id] += count
                self._busy = True
            if (requests := _request_count(queue)) != self._last_counts[queue]:
                self._last_counts[queue] = requests
                self._used[queue.server.id] = now
            self._busy = self._busy or queue.is_awaited(now)  # reported again if the last write failed
        self._used = {id_: at for id_, at in self._used.items() if now - at < USED_SECONDS}
        self._busy = self._busy or bool(self._used)
        for id_, count in in_flight.items():
            self._samples[id_].append(count)

    def _write(self) -> None:
        self._woken = False
        current = self._current_demand()
        if current == self._written:
            return
        try:
            demand.write(self.folder, Demand(self.gateway, os.getpid(), current))
        except OSError as error:
            if not self._warned:
                log.warning("the load cannot be written to %s, so autoscaling does not see it: %s", self.folder, error)
                self._warned = True
            return
        self._written = current
        self._warned = False

    def _current_demand(self) -> dict[str, ServerDemand]:
        now = self.clock()
        awaited = {queue.server.id for queue in self._queues if queue.is_awaited(now)}
        means = {id_: round(sum(samples) / SAMPLES, 1) for id_, samples in self._samples.items()}
        by_server = {id_: ServerDemand(mean, id_ in awaited, id_ in self._used) for id_, mean in sorted(means.items())}
        return {id_: load for id_, load in by_server.items() if load != _NOTHING}


_NOTHING = ServerDemand()


def _request_count(queue: Queue) -> int:
    """Grows with every request, including cache hits: a server with hits is not idle."""
    return queue.stats.batches + (0 if queue.cache is None else queue.cache.hits)

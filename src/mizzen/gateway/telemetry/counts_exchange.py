"""The counts of all gateways of a plane: current for this gateway, as last written for its siblings.

Each gateway replaces its file (`protocol/gateway_files/counts.py`) once a second while anything changes, and removes it
when it stops. Files of dead siblings are ignored: their successors count from zero under the same name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import msgspec

from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry.counters import Metrics
from mizzen.gateway.telemetry.metrics import queue_counts
from mizzen.protocol.gateway_files import counts, status_files
from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts, TraceCounts
from mizzen.telemetry.exporter import ExportCounts

WRITE_SECONDS = 1.0
"""Interval between two checks for changes."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class SiblingCounts:
    folder: Path
    gateway: str
    """The name of this process."""
    metrics: Metrics
    queues: Callable[[], Iterable[Queue]]
    _: KW_ONLY
    wall: Callable[[], float]
    call_later: Callable[[float, Callable[[], None]], object]
    traced: ExportCounts | None = None
    """Counts of exported traces."""
    graphs: Callable[[], list[GraphNodeCounts]] = list
    """Returns the counts of graph nodes."""
    _start: float = field(init=False)
    _last_written: Counts | None = None
    _warned: bool = False
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._start = self.wall()

    def start(self) -> None:
        """Writes the counts at once, and again whenever they have changed."""
        if self._stopped:
            return
        self._write()
        self.call_later(WRITE_SECONDS, self.start)

    def stop(self) -> None:
        self._stopped = True
        status_files.remove(self.folder, self.gateway)

    def own_counts(self) -> Counts:
        """Returns the current counts of this gateway."""
        times = os.times()
        queues = sorted(self.queues(), key=lambda queue: (queue.server.id, queue.server.version))
        return Counts(
            gateway=self.gateway,
            pid=os.getpid(),
            start=self._start,
            at=self.wall(),
            cpu_seconds=times.user + times.system,
            resident_bytes=_resident_bytes(),
            requests=self.metrics.request_counts(),
            served=[queue_counts(queue) for queue in queues],
            refused=dict(self.metrics.refused),
            traced=None if self.traced is None else TraceCounts(self.traced.sent, self.traced.lost),
            feedback=self.metrics.reward_counts(),
            judged=self.metrics.accuracy_counts(),
            graphs=self.graphs(),
        )

    def all_counts(self) -> list[Counts]:
        """Returns the counts of all living gateways, sorted by name."""
        others = [
            each for each in counts.read(self.folder) if each.gateway != self.gateway and status_files.is_alive(each)
        ]
        return sorted([self.own_counts(), *others], key=lambda each: each.gateway)

    def _write(self) -> None:
        now = self.own_counts()
        if self._last_written is not None and _is_same(self._last_written, now):
            return
        try:
            counts.write(self.folder, now)
        except OSError as error:
            if not self._warned:
                log.warning("counts cannot be written to %s: %s", self.folder, error)
                self._warned = True
            return
        self._last_written = now
        self._warned = False


def _is_same(before: Counts, now: Counts) -> bool:
    """Ignores fields that change by themselves: the time, and the CPU and memory that a check uses."""
    return now == msgspec.structs.replace(
        before, at=now.at, cpu_seconds=now.cpu_seconds, resident_bytes=now.resident_bytes
    )


def _resident_bytes() -> int:
    """Returns 0 if there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0

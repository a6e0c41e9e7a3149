"""What all gateways of a plane have counted: this one as it is now, its siblings as they wrote it down last.

Each replaces its file (`protocol/gateway_files/counts.py`) once a second while anything changes, and removes it when
it stops. The file of a sibling that is not alive is not shown: its successor begins to count anew, under the same name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry.metrics import Metrics, served
from mizzen.protocol.gateway_files import counts, status_files
from mizzen.protocol.gateway_files.counts import Counts, GraphNode, Traced
from mizzen.telemetry.exporter import Sent

SECONDS = 1.0
"""Between two looks at whether anything has changed."""

log = logging.getLogger(__name__)


class Census:
    def __init__(
        self,
        folder: Path,
        gateway: str,
        metrics: Metrics,
        queues: Callable[[], Iterable[Queue]],
        *,
        wall: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        traced: Sent | None = None,
        graphs: Callable[[], list[GraphNode]] = list,
    ) -> None:
        """`gateway` is the name of this process. `traced`: what became of requests that are. `graphs`: what happened
        at their nodes."""
        self._folder = folder
        self._gateway = gateway
        self._metrics = metrics
        self._queues = queues
        self._wall = wall
        self._traced = traced
        self._graphs = graphs
        self._call_later = call_later
        self._start = wall()
        self._written: Counts | None = None
        self._complained = False
        self._stopped = False

    def start(self) -> None:
        """Write, at once and then whenever something has changed."""
        if self._stopped:
            return
        self._write()
        self._call_later(SECONDS, self.start)

    def stop(self) -> None:
        self._stopped = True
        status_files.remove(self._folder, self._gateway)

    def own(self) -> Counts:
        """As it is now."""
        times = os.times()
        queues = sorted(self._queues(), key=lambda queue: (queue.server.id, queue.server.version))
        return Counts(
            gateway=self._gateway,
            pid=os.getpid(),
            start=self._start,
            at=self._wall(),
            cpu_seconds=times.user + times.system,
            resident_bytes=_resident_bytes(),
            requests=self._metrics.requests(),
            served=[served(queue) for queue in queues],
            refused=dict(self._metrics.refused),
            traced=None if self._traced is None else Traced(self._traced.sent, self._traced.lost),
            feedback=self._metrics.feedback(),
            judged=self._metrics.accuracy(),
            graphs=self._graphs(),
        )

    def all(self) -> list[Counts]:
        """Of all living gateways, by name."""
        others = [
            each for each in counts.read(self._folder) if each.gateway != self._gateway and status_files.lives(each)
        ]
        return sorted([self.own(), *others], key=lambda each: each.gateway)

    def _write(self) -> None:
        now = self.own()
        if self._written is not None and _same(self._written, now):
            return
        try:
            counts.write(self._folder, now)
        except OSError as error:
            if not self._complained:
                log.warning("what is counted cannot be written to %s: %s", self._folder, error)
                self._complained = True
            return
        self._written = now
        self._complained = False


def _same(before: Counts, now: Counts) -> bool:
    """But for what changes by itself: the time, and what looking at it costs."""
    return now == msgspec.structs.replace(
        before, at=now.at, cpu_seconds=now.cpu_seconds, resident_bytes=now.resident_bytes
    )


def _resident_bytes() -> int:
    """0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0

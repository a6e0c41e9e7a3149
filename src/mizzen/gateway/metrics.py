"""Counters kept by hand, because a metrics library costs more than the rest of a request; text is made at scrape time.

Requests are counted per callable name and version, batches and queues per served version.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from mizzen.gateway.calls import OK
from mizzen.gateway.queues import Queue

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
GONE = 499
"""The code counted when the client left before its answer."""

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Counters:
    """The requests of one callable name and version."""

    __slots__ = ("buckets", "codes", "failed_seconds", "in_flight", "seconds")

    def __init__(self) -> None:
        self.codes: Counter[int] = Counter()
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.failed_seconds = 0.0
        """Of all but those that were answered with 200."""
        self.in_flight = 0

    def ended(self, code: int, seconds: float) -> None:
        self.in_flight -= 1
        self.codes[code] += 1
        self.seconds += seconds
        if code != OK:
            self.failed_seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1


class Metrics:
    """All counters of one gateway process. Those of a version live as long as Tables name it."""

    def __init__(self) -> None:
        self.refused: Counter[int] = Counter()
        """Requests that reached no model, by code."""
        self._requests: dict[tuple[str, str, str], Counters] = {}

    def counters(self, namespace: str, name: str, version: str) -> Counters:
        return self._requests.setdefault((namespace, name, version), Counters())

    def keep(self, named: Collection[tuple[str, str, str]]) -> None:
        """Forget all others, unless a request of theirs is under way: versions come and go for ever."""
        self._requests = {
            key: counters for key, counters in self._requests.items() if key in named or counters.in_flight
        }

    def render(self, queues: Iterable[Queue], sees: Callable[[str, str], bool]) -> bytes:
        """Prometheus text, format 0.0.4. `sees`: whether what is counted of this namespace and name is shown."""
        shown = [queue for queue in queues if sees(*queue.server.id.split("/", 1))]
        served = sorted(shown, key=lambda queue: (queue.server.id, queue.server.version))
        families = (*self._request_families(sees), *_queue_families(served), *_process_families())
        lines: list[str] = []
        for name, kind, help_, samples in families:
            lines += (f"# HELP {name} {help_}", f"# TYPE {name} {kind}")
            lines += (f"{sample}{_braced(labels)} {value!r}" for sample, labels, value in samples)
        return "\n".join([*lines, ""]).encode()

    def _request_families(self, sees: Callable[[str, str], bool]) -> Iterator[tuple[str, str, str, list[Sample]]]:
        rows = [
            ((("namespace", namespace), ("model", name), ("version", version)), counters)
            for (namespace, name, version), counters in sorted(self._requests.items())
            if sees(namespace, name)
        ]
        codes: list[Sample] = [
            ("mizzen_requests_total", (*labels, ("code", str(code))), count)
            for labels, counters in rows
            for code, count in sorted(counters.codes.items())
        ]
        yield "mizzen_requests_total", "counter", "Requests that ended, by HTTP code; 499: the client left.", codes
        latency = [sample for labels, counters in rows for sample in _histogram(labels, counters)]
        yield "mizzen_request_seconds", "histogram", "From the request being read to its answer.", latency
        flying: list[Sample] = [("mizzen_requests_in_flight", labels, each.in_flight) for labels, each in rows]
        yield "mizzen_requests_in_flight", "gauge", "Requests that have begun and not ended.", flying
        refused: list[Sample] = [
            ("mizzen_refused_total", (("code", str(code)),), count) for code, count in sorted(self.refused.items())
        ]
        yield "mizzen_refused_total", "counter", "Requests that reached no model, by HTTP code.", refused


def _histogram(labels: Labels, counters: Counters) -> Iterator[Sample]:
    totals = list(accumulate(counters.buckets))
    for bound, total in zip((*map(str, BOUNDS), "+Inf"), totals, strict=True):
        yield "mizzen_request_seconds_bucket", (*labels, ("le", bound)), total
    yield "mizzen_request_seconds_sum", labels, counters.seconds
    yield "mizzen_request_seconds_count", labels, totals[-1]


_OF_QUEUES: tuple[tuple[str, str, str, Callable[[Queue], float]], ...] = (
    ("mizzen_queue_length", "gauge", "Calls that wait for a replica.", lambda queue: queue.waiting),
    ("mizzen_queue_bytes", "gauge", "Bytes of the calls that wait.", lambda queue: queue.waiting_bytes),
    ("mizzen_calls_in_flight", "gauge", "Calls that a replica works on.", lambda queue: queue.in_flight),
    ("mizzen_replicas_ready", "gauge", "Replicas that this gateway may send to.", lambda queue: queue.replicas),
    ("mizzen_batch_room", "gauge", "Most calls that the next batch may have.", lambda queue: queue.room),
    ("mizzen_shed_total", "counter", "Calls refused because too many waited.", lambda queue: queue.shed),
    ("mizzen_expired_total", "counter", "Calls whose deadline passed.", lambda queue: queue.expired),
    ("mizzen_retried_total", "counter", "Calls sent again after their process was lost.", lambda queue: queue.retried),
)


def _queue_families(queues: list[Queue]) -> Iterator[tuple[str, str, str, list[Sample]]]:
    rows = [((("server", queue.server.id), ("version", queue.server.version)), queue) for queue in queues]
    for name, kind, help_, value in _OF_QUEUES:
        yield name, kind, help_, [(name, labels, value(queue)) for labels, queue in rows]
    batches: list[Sample] = []
    for labels, queue in rows:
        batches.append(("mizzen_batch_items_sum", labels, queue.batch_items))
        batches.append(("mizzen_batch_items_count", labels, queue.batches))
    yield "mizzen_batch_items", "summary", "Calls per batch.", batches


def _process_families() -> Iterator[tuple[str, str, str, list[Sample]]]:
    times = os.times()
    cpu: list[Sample] = [("process_cpu_seconds_total", (), times.user + times.system)]
    yield "process_cpu_seconds_total", "counter", "CPU time of this gateway.", cpu
    statm = Path("/proc/self/statm")
    if statm.exists():  # Linux only
        resident = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        memory: list[Sample] = [("process_resident_memory_bytes", (), resident)]
        yield "process_resident_memory_bytes", "gauge", "Resident memory of this gateway.", memory


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

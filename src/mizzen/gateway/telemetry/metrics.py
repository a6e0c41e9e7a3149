"""Counters kept by hand, because a metrics library costs more than the rest of a request; text is made at scrape time.

Requests are counted per callable name and version, batches and queues per served version (`tally`). A scrape shows all
gateways (`census`), each by its own label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from mizzen.gateway.inference.calls import OK
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry import graph_metrics
from mizzen.protocol import prometheus_text
from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS, Cache, Counts, Judged, Requests, Rewarded, Served
from mizzen.protocol.prometheus_text import Family, Labels, Sample

GONE = 499
"""The code counted when the client left before its answer."""

Sees = Callable[[str, str], bool]
"""Is what is counted of this namespace and name shown to who asks?"""


Place = tuple[str, str, str, str]
"""Namespace, name, node, and an arm or a version."""


class Counters:
    """The requests of one callable name and version."""

    __slots__ = ("buckets", "codes", "defaults", "failed_seconds", "in_flight", "of", "seconds")

    def __init__(self, of: str = "") -> None:
        """`of`: the model that answers to the name, where it is another."""
        self.of = of
        self.codes: Counter[int] = Counter()
        self.defaults: Counter[bytes] = Counter()
        """Answers that a default was, by why; their code is 200."""
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
        self._rewards: dict[Place, list[float]] = {}
        self._judged: dict[Place, list[float]] = {}

    def counters(self, namespace: str, name: str, version: str, of: str = "") -> Counters:
        """`of`: the model that answers to the name, where it is another. What one answered counts for no other."""
        key = namespace, name, version
        found = self._requests.get(key)
        if found is None or found.of != of:
            found = self._requests[key] = Counters(of)
        return found

    def keep(self, named: Collection[tuple[str, str, str]]) -> None:
        """Forget all others, unless a request of theirs is under way: versions come and go for ever."""
        self._requests = {
            key: counters for key, counters in self._requests.items() if key in named or counters.in_flight
        }
        names = {(namespace, name) for namespace, name, _ in named}
        self._rewards = {place: sums for place, sums in self._rewards.items() if place[:2] in names}
        self._judged = {place: sums for place, sums in self._judged.items() if place[:2] in names}

    def rewarded(self, namespace: str, name: str, node: str, arm: str, reward: float) -> None:
        """Feedback came for what this node was routed to; a reward of 0 counts, too."""
        _add(self._rewards, (namespace, name, node, arm), reward)

    def judged(self, namespace: str, name: str, node: str, version: str, accuracy: float) -> None:
        """Feedback came with the truth."""
        _add(self._judged, (namespace, name, node, version), accuracy)

    def feedback(self) -> list[Rewarded]:
        return [Rewarded(*place, int(count), total) for place, (count, total) in sorted(self._rewards.items())]

    def accuracy(self) -> list[Judged]:
        return [Judged(*place, int(count), total) for place, (count, total) in sorted(self._judged.items())]

    def requests(self) -> list[Requests]:
        """Of all that somebody has asked for: most of ten thousand names may have no callers."""
        return [
            Requests(
                *key,
                dict(each.codes),
                [*each.buckets],
                each.seconds,
                each.in_flight,
                each.failed_seconds,
                {why.decode(): count for why, count in each.defaults.items()},
                each.of,
            )
            for key, each in sorted(item for item in self._requests.items() if item[1].codes or item[1].in_flight)
        ]


def _add(sums: dict[Place, list[float]], place: Place, value: float) -> None:
    found = sums.setdefault(place, [0, 0.0])
    found[0] += 1
    found[1] += value


def served(queue: Queue) -> Served:
    tally, cache = queue.tally, queue.cache
    return Served(
        server=queue.server.id, version=queue.server.version, waiting=queue.waiting, waiting_bytes=queue.waiting_bytes,
        in_flight=queue.in_flight, replicas=queue.replicas, room=queue.room, shed=queue.shed, expired=queue.expired,
        retried=queue.retried, waits=[*tally.waits], waited_seconds=tally.waited_seconds,
        compute_seconds=tally.compute_seconds, sizes=tally.sizes_by_bounds(), batch_items=tally.items,
        model=queue.server.model, input_seconds=tally.input_seconds, output_seconds=tally.output_seconds,
        cache=None if cache is None else Cache(
            cache.hits, cache.shares, cache.misses, cache.kept_bytes, cache.entries, cache.evicted,
            cache.followers,
        ),
    )  # fmt: skip


def render(gateways: Sequence[Counts], sees: Sees) -> bytes:
    """All gateways' counts as Prometheus' text."""
    return prometheus_text.render((
        *_of_requests(gateways, sees), *_of_queues(gateways, sees), *_of_feedback(gateways, sees),
        *graph_metrics.families(gateways, sees),
        *_of_traces(gateways), *_of_processes(gateways),
    ))  # fmt: skip


def _of_requests(gateways: Sequence[Counts], sees: Sees) -> Iterator[Family]:
    rows: list[tuple[Labels, Requests]] = [
        ((_name(each), ("namespace", of.namespace), ("model", of.model), ("version", of.version)), of)
        for each in gateways
        for of in each.requests
        if sees(of.namespace, of.model)
    ]
    name = "mizzen_requests_total"
    codes = [
        Sample(name, (*labels, ("code", str(code))), count)
        for labels, of in rows
        for code, count in sorted(of.codes.items())
    ]
    yield Family(name, "counter", "Requests that ended, by HTTP code; 499: the client left.", codes)
    name = "mizzen_default_answers_total"
    defaults = [
        Sample(name, (*labels, ("reason", why)), count)
        for labels, of in rows
        for why, count in sorted(of.defaults.items())
    ]
    yield Family(name, "counter", "Of those with code 200, the ones that a default answered.", defaults)
    name = "mizzen_request_seconds"
    latency = [
        sample
        for labels, of in rows
        for sample in prometheus_text.histogram(name, labels, BOUNDS, of.buckets, of.seconds)
    ]
    yield Family(name, "histogram", "From the request being read to its answer.", latency)
    name = "mizzen_requests_in_flight"
    flying = [Sample(name, labels, of.in_flight) for labels, of in rows]
    yield Family(name, "gauge", "Requests that have begun and not ended.", flying)
    name = "mizzen_refused_total"
    refused = [
        Sample(name, (_name(each), ("code", str(code))), count)
        for each in gateways
        for code, count in sorted(each.refused.items())
    ]
    yield Family(name, "counter", "Requests that reached no model, by HTTP code.", refused)


_GAUGES: tuple[tuple[str, str, Callable[[Served], float]], ...] = (
    ("mizzen_queue_length", "Calls that wait for a replica.", lambda of: of.waiting),
    (
        "mizzen_held_requests",
        "Requests that wait because no replica is ready.",
        lambda of: 0 if of.replicas else of.waiting + (0 if of.cache is None else of.cache.followers),
    ),
    ("mizzen_queue_bytes", "Bytes of the calls that wait.", lambda of: of.waiting_bytes),
    ("mizzen_calls_in_flight", "Calls that a replica works on.", lambda of: of.in_flight),
    ("mizzen_replicas_ready", "Replicas that this gateway may send to.", lambda of: of.replicas),
    ("mizzen_batch_room", "Most calls that the next batch may have.", lambda of: of.room),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Served], float]], ...] = (
    ("mizzen_shed_total", "Calls refused because too many waited.", lambda of: of.shed),
    ("mizzen_expired_total", "Calls whose deadline passed.", lambda of: of.expired),
    ("mizzen_retried_total", "Calls sent again after their process was lost.", lambda of: of.retried),
    (
        "mizzen_model_seconds_total",
        "Of all calls: how long the model worked on the batch that they were in.",
        lambda of: of.compute_seconds,
    ),
)
_HISTOGRAMS: tuple[tuple[str, str, tuple[float, ...], Callable[[Served], tuple[list[int], float]]], ...] = (
    (
        "mizzen_queue_wait_seconds",
        "From a call's request being read to a replica being sent it.",
        BOUNDS,
        lambda of: (of.waits, of.waited_seconds),
    ),
    ("mizzen_batch_size", "Calls per batch.", BATCH_BOUNDS, lambda of: (of.sizes, of.batch_items)),
)


def _of_queues(gateways: Sequence[Counts], sees: Sees) -> Iterator[Family]:
    rows: list[tuple[Labels, Served]] = [
        ((_name(each), *_labels_of(of)), of)
        for each in gateways
        for of in each.served
        if sees(*of.server.split("/", 1))
    ]
    for name, help_, value in _GAUGES:
        yield Family(name, "gauge", help_, [Sample(name, labels, value(of)) for labels, of in rows])
    for name, help_, value in _COUNTERS:
        yield Family(name, "counter", help_, [Sample(name, labels, value(of)) for labels, of in rows])
    for name, help_, bounds, both in _HISTOGRAMS:
        samples = [
            sample for labels, of in rows for sample in prometheus_text.histogram(name, labels, bounds, *both(of))
        ]
        yield Family(name, "histogram", help_, samples)
    yield from _of_caches([(labels, of.cache) for labels, of in rows if of.cache is not None])


def _of_caches(rows: Sequence[tuple[Labels, Cache]]) -> Iterator[Family]:
    name = "mizzen_cache_lookups_total"
    lookups = [
        Sample(name, (*labels, ("result", result)), count)
        for labels, of in rows
        for result, count in (("hit", of.hits), ("shared", of.shared), ("miss", of.misses))
    ]
    yield Family(name, "counter", "Requests that were looked for in a cache; shared: that waited for another.", lookups)
    name = "mizzen_cache_evictions_total"
    evicted = [Sample(name, labels, of.evicted) for labels, of in rows]
    yield Family(name, "counter", "Answers that had to go for others.", evicted)
    name = "mizzen_cache_entries"
    yield Family(name, "gauge", "Answers that are kept.", [Sample(name, labels, of.entries) for labels, of in rows])
    name = "mizzen_cache_bytes"
    size = [Sample(name, labels, of.bytes) for labels, of in rows]
    yield Family(name, "gauge", "Bytes of the answers that are kept, with all that they take.", size)


def _of_feedback(gateways: Sequence[Counts], sees: Sees) -> Iterator[Family]:
    """Nothing where none came."""
    arms: list[tuple[Labels, Rewarded]] = [
        ((_name(each), ("namespace", of.namespace), ("model", of.model), ("node", of.node), ("arm", of.arm)), of)
        for each in gateways
        for of in each.feedback
        if sees(of.namespace, of.model)
    ]
    if arms:
        name = "mizzen_feedback_total"
        counted = [Sample(name, labels, of.count) for labels, of in arms]
        yield Family(name, "counter", "Feedback that counted, by what a node was routed to.", counted)
        name = "mizzen_feedback_reward_sum"
        rewards = [Sample(name, labels, of.sum) for labels, of in arms]
        yield Family(name, "counter", "Of the same: the sum of rewards.", rewards)
    versions: list[tuple[Labels, Judged]] = [
        (
            (_name(each), ("namespace", of.namespace), ("model", of.model), ("node", of.node), ("version", of.version)),
            of,
        )
        for each in gateways
        for of in each.judged
        if sees(of.namespace, of.model)
    ]
    if versions:
        name = "mizzen_feedback_accuracy_sum"
        right = [Sample(name, labels, of.sum) for labels, of in versions]
        yield Family(name, "counter", "Of feedback with the truth: the sum of how right answers were.", right)
        name = "mizzen_feedback_accuracy_count"
        truths = [Sample(name, labels, of.count) for labels, of in versions]
        yield Family(name, "counter", "How many of those there were.", truths)


def _labels_of(of: Served) -> Labels:
    namespace = of.server.partition("/")[0]
    return ("server", of.server), ("namespace", namespace), ("model", of.model), ("version", of.version)


def _of_traces(gateways: Sequence[Counts]) -> Iterator[Family]:
    """Nothing where nothing is traced."""
    rows = [(_name(each), each.traced) for each in gateways if each.traced is not None]
    if rows:
        name = "mizzen_traces_sent_total"
        sent = [Sample(name, (gateway,), of.sent) for gateway, of in rows]
        yield Family(name, "counter", "Requests whose spans a collector took.", sent)
        name = "mizzen_traces_lost_total"
        lost = [Sample(name, (gateway,), of.lost) for gateway, of in rows]
        yield Family(name, "counter", "Requests whose spans no collector took.", lost)


def _of_processes(gateways: Sequence[Counts]) -> Iterator[Family]:
    name = "process_cpu_seconds_total"
    cpu = [Sample(name, (_name(each),), each.cpu_seconds) for each in gateways]
    yield Family(name, "counter", "CPU time of the gateway.", cpu)
    name = "process_resident_memory_bytes"
    memory = [Sample(name, (_name(each),), each.resident_bytes) for each in gateways]
    yield Family(name, "gauge", "Resident memory of the gateway.", memory)
    name = "process_start_time_seconds"
    start = [Sample(name, (_name(each),), each.start) for each in gateways]
    yield Family(name, "gauge", "When the gateway began, in seconds since 1970.", start)


def _name(counts: Counts) -> tuple[str, str]:
    return "gateway", counts.gateway

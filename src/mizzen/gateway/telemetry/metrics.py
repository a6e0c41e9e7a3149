"""Prometheus metrics of gateways, rendered from counts at scrape time.

Requests are counted per callable name and version (`counters`), batches and queues per served version
(`queueing/batch_stats.py`). A scrape shows all gateways (`counts_exchange`), each with its own label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry import graph_metrics
from mizzen.protocol import prometheus_text
from mizzen.protocol.gateway_files.counts import (
    BATCH_BOUNDS,
    BOUNDS,
    AccuracyCounts,
    CacheCounts,
    Counts,
    RequestCounts,
    RewardCounts,
    ServerCounts,
    TraceCounts,
)
from mizzen.protocol.prometheus_text import (
    Histogram,
    Labels,
    MetricDefinition,
    MetricFamily,
    ValuesByLabel,
    build_families,
)

IsVisible = Callable[[str, str], bool]
"""Whether the caller may see the counts of this namespace and name."""


def queue_counts(queue: Queue) -> ServerCounts:
    stats, cache = queue.stats, queue.cache
    return ServerCounts(
        server=queue.server.id, version=queue.server.version, waiting=queue.waiting, waiting_bytes=queue.waiting_bytes,
        in_flight=queue.in_flight, replicas=queue.replicas, room=queue.batch_limit, shed=queue.shed,
        expired=queue.expired, retried=queue.retried, waits=[*stats.waits], waited_seconds=stats.waited_seconds,
        compute_seconds=stats.compute_seconds, sizes=stats.sizes_by_bounds(), batch_items=stats.items,
        model=queue.server.model, input_seconds=stats.input_seconds, output_seconds=stats.output_seconds,
        cache=None if cache is None else CacheCounts(
            cache.hits, cache.coalesced, cache.misses, cache.cached_bytes, cache.entries, cache.evicted,
            cache.followers,
        ),
    )  # fmt: skip


def render(gateways: Sequence[Counts], is_visible: IsVisible) -> bytes:
    """Returns the counts of all gateways in the Prometheus text format."""
    return prometheus_text.render((
        *_request_families(gateways, is_visible), *_queue_families(gateways, is_visible),
        *_feedback_families(gateways, is_visible), *graph_metrics.metric_families(gateways, is_visible),
        *_trace_families(gateways), *build_families(_PROCESSES, [(_labels(each), each) for each in gateways]),
    ))  # fmt: skip


def _request_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    yield from build_families(_REQUESTS, [
        (_labels(each, namespace=of.namespace, model=of.model, version=of.version), of)
        for each in gateways
        for of in each.requests
        if is_visible(of.namespace, of.model)
    ])  # fmt: skip
    yield from build_families(_REFUSALS, [(_labels(each), each) for each in gateways])


def _queue_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, ServerCounts]] = [
        (_labels(each, server=of.server, namespace=namespace, model=of.model, version=of.version), of)
        for each in gateways
        for of in each.served
        for namespace, name in [of.server.split("/", 1)]
        if is_visible(namespace, name)
    ]
    yield from build_families(_QUEUES, rows)
    yield from build_families(_CACHES, [(labels, of.cache) for labels, of in rows if of.cache is not None])


def _feedback_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    """Yields nothing if there was no feedback."""
    arms = [
        (_labels(each, namespace=of.namespace, model=of.model, node=of.node, arm=of.arm), of)
        for each in gateways
        for of in each.feedback
        if is_visible(of.namespace, of.model)
    ]
    versions = [
        (_labels(each, namespace=of.namespace, model=of.model, node=of.node, version=of.version), of)
        for each in gateways
        for of in each.judged
        if is_visible(of.namespace, of.model)
    ]
    yield from build_families(_FEEDBACK if arms else (), arms)
    yield from build_families(_ACCURACY if versions else (), versions)


def _trace_families(gateways: Sequence[Counts]) -> Iterator[MetricFamily]:
    """Yields nothing if tracing is off."""
    rows = [(_labels(each), each.traced) for each in gateways if each.traced is not None]
    yield from build_families(_TRACES if rows else (), rows)


def _labels(counts: Counts, **more: str) -> Labels:
    return ("gateway", counts.gateway), *more.items()


def _count_held(of: ServerCounts) -> int:
    return 0 if of.replicas else of.waiting + (0 if of.cache is None else of.cache.followers)


_REQUESTS: tuple[MetricDefinition[RequestCounts], ...] = (
    ("mizzen_requests_total", "counter", "Requests that ended, by HTTP code; 499: the client left.",
     lambda of: ValuesByLabel("code", sorted(of.codes.items()))),
    ("mizzen_default_answers_total", "counter", "Requests with code 200 that a default answered.",
     lambda of: ValuesByLabel("reason", sorted(of.defaults.items()))),
    ("mizzen_request_seconds", "histogram", "Time from parsing the request to its answer.",
     lambda of: Histogram(BOUNDS, of.buckets, of.seconds)),
    ("mizzen_requests_in_flight", "gauge", "Requests in flight.", lambda of: of.in_flight),
)  # fmt: skip
_REFUSALS: tuple[MetricDefinition[Counts], ...] = (
    ("mizzen_refused_total", "counter", "Requests that reached no model, by HTTP code.",
     lambda of: ValuesByLabel("code", sorted(of.refused.items()))),
)  # fmt: skip
_QUEUES: tuple[MetricDefinition[ServerCounts], ...] = (
    ("mizzen_queue_length", "gauge", "Calls that wait for a replica.", lambda of: of.waiting),
    ("mizzen_held_requests", "gauge", "Requests that wait because no replica is ready.", _count_held),
    ("mizzen_queue_bytes", "gauge", "Bytes of the calls that wait.", lambda of: of.waiting_bytes),
    ("mizzen_calls_in_flight", "gauge", "Calls that a replica works on.", lambda of: of.in_flight),
    ("mizzen_replicas_ready", "gauge", "Replicas that this gateway may send to.", lambda of: of.replicas),
    ("mizzen_batch_room", "gauge", "Maximum number of calls in the next batch.", lambda of: of.room),
    ("mizzen_shed_total", "counter", "Calls refused because too many waited.", lambda of: of.shed),
    ("mizzen_expired_total", "counter", "Calls whose deadline passed.", lambda of: of.expired),
    ("mizzen_retried_total", "counter", "Calls sent again after their process was lost.", lambda of: of.retried),
    ("mizzen_model_seconds_total", "counter",
     "Time that the model took for the batch of each call, summed over all calls.", lambda of: of.compute_seconds),
    ("mizzen_queue_wait_seconds", "histogram", "Time from parsing a request to sending its call to a replica.",
     lambda of: Histogram(BOUNDS, of.waits, of.waited_seconds)),
    ("mizzen_batch_size", "histogram", "Calls per batch.",
     lambda of: Histogram(BATCH_BOUNDS, of.sizes, of.batch_items)),
)  # fmt: skip
_CACHES: tuple[MetricDefinition[CacheCounts], ...] = (
    ("mizzen_cache_lookups_total", "counter", "Cache lookups; shared: the request waited for an equal one.",
     lambda of: ValuesByLabel("result", (("hit", of.hits), ("shared", of.shared), ("miss", of.misses)))),
    ("mizzen_cache_evictions_total", "counter", "Answers evicted from a cache.", lambda of: of.evicted),
    ("mizzen_cache_entries", "gauge", "Answers in a cache.", lambda of: of.entries),
    ("mizzen_cache_bytes", "gauge", "Bytes of the answers in a cache, including overhead.", lambda of: of.bytes),
)  # fmt: skip
_FEEDBACK: tuple[MetricDefinition[RewardCounts], ...] = (
    ("mizzen_feedback_total", "counter", "Feedback that counted, by the child that a node chose.",
     lambda of: of.count),
    ("mizzen_feedback_reward_sum", "counter", "Sum of the rewards of that feedback.", lambda of: of.sum),
)  # fmt: skip
_ACCURACY: tuple[MetricDefinition[AccuracyCounts], ...] = (
    ("mizzen_feedback_accuracy_sum", "counter", "Sum of the accuracy of answers, by feedback with the truth.",
     lambda of: of.sum),
    ("mizzen_feedback_accuracy_count", "counter", "Number of answers with an accuracy.", lambda of: of.count),
)  # fmt: skip
_TRACES: tuple[MetricDefinition[TraceCounts], ...] = (
    ("mizzen_traces_sent_total", "counter", "Requests whose spans a collector accepted.", lambda of: of.sent),
    ("mizzen_traces_lost_total", "counter", "Requests whose spans no collector accepted.", lambda of: of.lost),
)  # fmt: skip
_PROCESSES: tuple[MetricDefinition[Counts], ...] = (
    ("process_cpu_seconds_total", "counter", "CPU time of the gateway.", lambda of: of.cpu_seconds),
    ("process_resident_memory_bytes", "gauge", "Resident memory of the gateway.", lambda of: of.resident_bytes),
    ("process_start_time_seconds", "gauge", "Start time of the gateway, in seconds since 1970.",
     lambda of: of.start),
)  # fmt: skip

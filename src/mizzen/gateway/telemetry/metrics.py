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
)
from mizzen.protocol.prometheus_text import Labels, MetricFamily, MetricSample

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
        *_trace_families(gateways), *_process_families(gateways),
    ))  # fmt: skip


def _request_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, RequestCounts]] = [
        ((_gateway_label(each), ("namespace", of.namespace), ("model", of.model), ("version", of.version)), of)
        for each in gateways
        for of in each.requests
        if is_visible(of.namespace, of.model)
    ]
    name = "mizzen_requests_total"
    codes = [
        MetricSample(name, (*labels, ("code", str(code))), count)
        for labels, of in rows
        for code, count in sorted(of.codes.items())
    ]
    yield MetricFamily(name, "counter", "Requests that ended, by HTTP code; 499: the client left.", codes)
    name = "mizzen_default_answers_total"
    defaults = [
        MetricSample(name, (*labels, ("reason", why)), count)
        for labels, of in rows
        for why, count in sorted(of.defaults.items())
    ]
    yield MetricFamily(name, "counter", "Requests with code 200 that a default answered.", defaults)
    name = "mizzen_request_seconds"
    latency = [
        sample
        for labels, of in rows
        for sample in prometheus_text.histogram_samples(name, labels, BOUNDS, of.buckets, of.seconds)
    ]
    yield MetricFamily(name, "histogram", "Time from parsing the request to its answer.", latency)
    name = "mizzen_requests_in_flight"
    flying = [MetricSample(name, labels, of.in_flight) for labels, of in rows]
    yield MetricFamily(name, "gauge", "Requests in flight.", flying)
    name = "mizzen_refused_total"
    refused = [
        MetricSample(name, (_gateway_label(each), ("code", str(code))), count)
        for each in gateways
        for code, count in sorted(each.refused.items())
    ]
    yield MetricFamily(name, "counter", "Requests that reached no model, by HTTP code.", refused)


_GAUGES: tuple[tuple[str, str, Callable[[ServerCounts], float]], ...] = (
    ("mizzen_queue_length", "Calls that wait for a replica.", lambda of: of.waiting),
    (
        "mizzen_held_requests",
        "Requests that wait because no replica is ready.",
        lambda of: 0 if of.replicas else of.waiting + (0 if of.cache is None else of.cache.followers),
    ),
    ("mizzen_queue_bytes", "Bytes of the calls that wait.", lambda of: of.waiting_bytes),
    ("mizzen_calls_in_flight", "Calls that a replica works on.", lambda of: of.in_flight),
    ("mizzen_replicas_ready", "Replicas that this gateway may send to.", lambda of: of.replicas),
    ("mizzen_batch_room", "Maximum number of calls in the next batch.", lambda of: of.room),
)
_COUNTERS: tuple[tuple[str, str, Callable[[ServerCounts], float]], ...] = (
    ("mizzen_shed_total", "Calls refused because too many waited.", lambda of: of.shed),
    ("mizzen_expired_total", "Calls whose deadline passed.", lambda of: of.expired),
    ("mizzen_retried_total", "Calls sent again after their process was lost.", lambda of: of.retried),
    (
        "mizzen_model_seconds_total",
        "Time that the model took for the batch of each call, summed over all calls.",
        lambda of: of.compute_seconds,
    ),
)
_HISTOGRAMS: tuple[tuple[str, str, tuple[float, ...], Callable[[ServerCounts], tuple[list[int], float]]], ...] = (
    (
        "mizzen_queue_wait_seconds",
        "Time from parsing a request to sending its call to a replica.",
        BOUNDS,
        lambda of: (of.waits, of.waited_seconds),
    ),
    ("mizzen_batch_size", "Calls per batch.", BATCH_BOUNDS, lambda of: (of.sizes, of.batch_items)),
)


def _queue_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    rows: list[tuple[Labels, ServerCounts]] = [
        ((_gateway_label(each), *_labels_of(of)), of)
        for each in gateways
        for of in each.served
        if is_visible(*of.server.split("/", 1))
    ]
    for name, help_, value in _GAUGES:
        yield MetricFamily(name, "gauge", help_, [MetricSample(name, labels, value(of)) for labels, of in rows])
    for name, help_, value in _COUNTERS:
        yield MetricFamily(name, "counter", help_, [MetricSample(name, labels, value(of)) for labels, of in rows])
    for name, help_, bounds, both in _HISTOGRAMS:
        samples = [
            sample
            for labels, of in rows
            for sample in prometheus_text.histogram_samples(name, labels, bounds, *both(of))
        ]
        yield MetricFamily(name, "histogram", help_, samples)
    yield from _cache_families([(labels, of.cache) for labels, of in rows if of.cache is not None])


def _cache_families(rows: Sequence[tuple[Labels, CacheCounts]]) -> Iterator[MetricFamily]:
    name = "mizzen_cache_lookups_total"
    lookups = [
        MetricSample(name, (*labels, ("result", result)), count)
        for labels, of in rows
        for result, count in (("hit", of.hits), ("shared", of.shared), ("miss", of.misses))
    ]
    yield MetricFamily(name, "counter", "Cache lookups; shared: the request waited for an equal one.", lookups)
    name = "mizzen_cache_evictions_total"
    evicted = [MetricSample(name, labels, of.evicted) for labels, of in rows]
    yield MetricFamily(name, "counter", "Answers evicted from a cache.", evicted)
    name = "mizzen_cache_entries"
    yield MetricFamily(
        name, "gauge", "Answers in a cache.", [MetricSample(name, labels, of.entries) for labels, of in rows]
    )
    name = "mizzen_cache_bytes"
    size = [MetricSample(name, labels, of.bytes) for labels, of in rows]
    yield MetricFamily(name, "gauge", "Bytes of the answers in a cache, including overhead.", size)


def _feedback_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    """Yields nothing if there was no feedback."""
    arms: list[tuple[Labels, RewardCounts]] = [
        (
            (
                _gateway_label(each),
                ("namespace", of.namespace),
                ("model", of.model),
                ("node", of.node),
                ("arm", of.arm),
            ),
            of,
        )
        for each in gateways
        for of in each.feedback
        if is_visible(of.namespace, of.model)
    ]
    if arms:
        name = "mizzen_feedback_total"
        counted = [MetricSample(name, labels, of.count) for labels, of in arms]
        yield MetricFamily(name, "counter", "Feedback that counted, by the child that a node chose.", counted)
        name = "mizzen_feedback_reward_sum"
        rewards = [MetricSample(name, labels, of.sum) for labels, of in arms]
        yield MetricFamily(name, "counter", "Sum of the rewards of that feedback.", rewards)
    versions: list[tuple[Labels, AccuracyCounts]] = [
        (
            (
                _gateway_label(each),
                ("namespace", of.namespace),
                ("model", of.model),
                ("node", of.node),
                ("version", of.version),
            ),
            of,
        )
        for each in gateways
        for of in each.judged
        if is_visible(of.namespace, of.model)
    ]
    if versions:
        name = "mizzen_feedback_accuracy_sum"
        right = [MetricSample(name, labels, of.sum) for labels, of in versions]
        yield MetricFamily(name, "counter", "Sum of the accuracy of answers, by feedback with the truth.", right)
        name = "mizzen_feedback_accuracy_count"
        truths = [MetricSample(name, labels, of.count) for labels, of in versions]
        yield MetricFamily(name, "counter", "Number of answers with an accuracy.", truths)


def _labels_of(of: ServerCounts) -> Labels:
    namespace = of.server.partition("/")[0]
    return ("server", of.server), ("namespace", namespace), ("model", of.model), ("version", of.version)


def _trace_families(gateways: Sequence[Counts]) -> Iterator[MetricFamily]:
    """Yields nothing if tracing is off."""
    rows = [(_gateway_label(each), each.traced) for each in gateways if each.traced is not None]
    if rows:
        name = "mizzen_traces_sent_total"
        sent = [MetricSample(name, (gateway,), of.sent) for gateway, of in rows]
        yield MetricFamily(name, "counter", "Requests whose spans a collector accepted.", sent)
        name = "mizzen_traces_lost_total"
        lost = [MetricSample(name, (gateway,), of.lost) for gateway, of in rows]
        yield MetricFamily(name, "counter", "Requests whose spans no collector accepted.", lost)


def _process_families(gateways: Sequence[Counts]) -> Iterator[MetricFamily]:
    name = "process_cpu_seconds_total"
    cpu = [MetricSample(name, (_gateway_label(each),), each.cpu_seconds) for each in gateways]
    yield MetricFamily(name, "counter", "CPU time of the gateway.", cpu)
    name = "process_resident_memory_bytes"
    memory = [MetricSample(name, (_gateway_label(each),), each.resident_bytes) for each in gateways]
    yield MetricFamily(name, "gauge", "Resident memory of the gateway.", memory)
    name = "process_start_time_seconds"
    start = [MetricSample(name, (_gateway_label(each),), each.start) for each in gateways]
    yield MetricFamily(name, "gauge", "Start time of the gateway, in seconds since 1970.", start)


def _gateway_label(counts: Counts) -> tuple[str, str]:
    return "gateway", counts.gateway

"""GET /metrics/triton: the same counts under Triton's names, for dashboards and tools that are made for Triton.

It is a separate path, so that planes without such tools pay nothing and no series appears twice. Meanings and units
are Triton's. Requests count for the model that answers, whichever name they came by. Each gateway has its label: a sum
would shrink when one gateway restarts, and Prometheus would count the rest a second time. Triton counts an inference
per row; here it is a request with any number of rows, so the average batch size is in requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mizzen.gateway.queueing.call import EXPIRED, FAILED, LOST, OK, UNAVAILABLE
from mizzen.gateway.telemetry.counters import GONE
from mizzen.gateway.telemetry.metrics import IsVisible
from mizzen.protocol import prometheus_text
from mizzen.protocol.gateway_files.counts import Counts, RequestCounts, ServerCounts
from mizzen.protocol.prometheus_text import Labels, MetricDefinition, ValuesByLabel, build_families

REASONS = {UNAVAILABLE: "REJECTED", EXPIRED: "REJECTED", GONE: "CANCELED", FAILED: "BACKEND", LOST: "BACKEND"}
OTHER = "OTHER"


@dataclass(slots=True)
class _Sums:
    """The sums for one version of a model in one gateway."""

    succeeded: int = 0
    succeeded_seconds: float = 0.0
    failed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(sorted({*REASONS.values(), OTHER}), 0))
    inferences: int = 0
    batches: int = 0
    waited: float = 0.0
    read: float = 0.0
    computed: float = 0.0
    written: float = 0.0
    pending: int = 0
    hits: int | None = None
    """Cache hits; None if there is no cache."""
    misses: int = 0

    def add_requests(self, of: RequestCounts) -> None:
        for code, count in of.codes.items():
            if code == OK:
                self.succeeded += count
            else:
                self.failed[REASONS.get(code, OTHER)] += count
        self.succeeded_seconds += of.seconds - of.failed_seconds

    def add_served(self, of: ServerCounts) -> None:
        self.inferences += of.batch_items
        self.batches += sum(of.sizes)
        self.waited += of.waited_seconds
        self.read += of.input_seconds
        self.computed += of.compute_seconds
        self.written += of.output_seconds
        self.pending += of.waiting
        if of.cache is not None:
            self.hits = (self.hits or 0) + of.cache.hits
            self.misses += of.cache.misses + of.cache.shared


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))


_METRICS: tuple[MetricDefinition[_Sums], ...] = (
    ("nv_inference_request_success", "counter", "Number of successful inference requests.",
     lambda of: of.succeeded),
    ("nv_inference_count", "counter", "Number of inferences performed, without those from the cache.",
     lambda of: of.inferences),
    ("nv_inference_exec_count", "counter", "Number of model executions, each for a batch.", lambda of: of.batches),
    ("nv_inference_request_duration_us", "counter",
     "Cumulative duration of successful inference requests, in microseconds.",
     lambda of: _microseconds(of.succeeded_seconds)),
    ("nv_inference_queue_duration_us", "counter",
     "Cumulative time that inference requests were queued, in microseconds.", lambda of: _microseconds(of.waited)),
    ("nv_inference_compute_input_duration_us", "counter",
     "Cumulative time for the inputs of inference requests, in microseconds.", lambda of: _microseconds(of.read)),
    ("nv_inference_compute_infer_duration_us", "counter",
     "Cumulative time of inference requests in the model, in microseconds.", lambda of: _microseconds(of.computed)),
    ("nv_inference_compute_output_duration_us", "counter",
     "Cumulative time for the outputs of inference requests, in microseconds.",
     lambda of: _microseconds(of.written)),
    ("nv_inference_request_failure", "counter", "Number of failed inference requests.",
     lambda of: ValuesByLabel("reason", of.failed.items())),
    ("nv_inference_pending_request_count", "gauge", "Number of requests that wait for their execution.",
     lambda of: of.pending),
)  # fmt: skip
_CACHE_METRICS: tuple[MetricDefinition[_Sums], ...] = (
    ("nv_cache_num_hits_per_model", "counter", "Number of response cache hits.", lambda of: of.hits or 0),
    ("nv_cache_num_misses_per_model", "counter", "Number of response cache misses.", lambda of: of.misses),
)


def render(gateways: Sequence[Counts], is_visible: IsVisible) -> bytes:
    rows = _sum_by_version(gateways, is_visible)
    cached = [(labels, of) for labels, of in rows if of.hits is not None]
    return prometheus_text.render((*build_families(_METRICS, rows), *build_families(_CACHE_METRICS, cached)))


def _sum_by_version(gateways: Sequence[Counts], is_visible: IsVisible) -> list[tuple[Labels, _Sums]]:
    sums: dict[Labels, _Sums] = {}
    for each in gateways:
        for row in each.requests:
            if is_visible(row.namespace, row.model):
                labels = _labels(each, row.of or row.model, row.version, row.namespace)
                sums.setdefault(labels, _Sums()).add_requests(row)
        for of in each.served:
            namespace, name = of.server.split("/", 1)
            if is_visible(namespace, name):
                sums.setdefault(_labels(each, of.model or name, of.version, namespace), _Sums()).add_served(of)
    return sorted(sums.items(), key=lambda item: item[0])


def _labels(of: Counts, model: str, version: str, namespace: str) -> Labels:
    """Adds namespace and gateway, which Triton lacks: queries made for Triton ignore unknown labels."""
    return ("model", model), ("version", version), ("namespace", namespace), ("gateway", of.gateway)

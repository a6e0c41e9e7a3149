"""Metrics of flow control. Their labels are classes of actors, never names."""

from __future__ import annotations

from collections.abc import Iterator

from mizzen.protocol.prometheus_text import MetricFamily, MetricSample
from mizzen.server.flow_control.limits import FlowControl


def flow_families(flow: FlowControl) -> Iterator[MetricFamily]:
    name, help_ = "mizzen_api_requests_executing", "Requests of the control API that hold an execution slot."
    yield MetricFamily(
        name, "gauge", help_,
        [MetricSample(name, (("work", work),), queue.executing) for work, queue in flow.queues.items()],
    )  # fmt: skip
    name, help_ = "mizzen_api_requests_waiting", "Requests of the control API that wait for an execution slot."
    yield MetricFamily(
        name, "gauge", help_,
        [MetricSample(name, (("work", work),), queue.waiting) for work, queue in flow.queues.items()],
    )  # fmt: skip
    name, help_ = "mizzen_api_streams", "Watches, followed logs, and requests that wait for their client or for events."
    yield MetricFamily(
        name, "gauge", help_,
        [MetricSample(name, (("actor", actor),), count) for actor, count in sorted(flow.open_streams.items())],
    )  # fmt: skip
    waits = sorted(flow.waits.items())
    name, help_ = "mizzen_api_waits_total", "Requests that waited for an execution slot."
    yield MetricFamily(
        name, "counter", help_,
        [MetricSample(name, (("actor", actor), ("work", work)), count) for (actor, work), count in waits],
    )  # fmt: skip
    name, help_ = "mizzen_api_wait_seconds_total", "Seconds that requests waited for an execution slot."
    yield MetricFamily(
        name, "counter", help_,
        [
            MetricSample(name, (("actor", actor), ("work", work)), seconds)
            for (actor, work), seconds in sorted(flow.wait_seconds.items())
        ],
    )  # fmt: skip
    name, help_ = "mizzen_api_requests_rejected_total", "Requests refused because their actor has too many in flight."
    yield MetricFamily(
        name, "counter", help_,
        [
            MetricSample(name, (("actor", actor), ("work", work)), count)
            for (actor, work), count in sorted(flow.rejections.items())
        ],
    )  # fmt: skip

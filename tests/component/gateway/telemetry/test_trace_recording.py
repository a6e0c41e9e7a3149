"""Spans of requests, as a collector sees them: whose are traced, what is below what, and how each kind of end reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mizzen.gateway.telemetry.trace_recording import MAX_PATH
from mizzen.gateway.telemetry.tracing import TracingConfig
from mizzen.telemetry.destination import read_destination
from tests.support.collector import INTERNAL, SERVER, Collector, Seen, collecting
from tests.support.gateway.harness import Gateway, Runtime, body_of, infer_request, publish, table_of, until

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
INFER = "POST /v2/models/{model}/infer"
ALL = (INFER, "queue", "predict")


def parent(number: int) -> tuple[str, str]:
    """A trace, and the header of somebody in it."""
    trace = f"{number:032x}"
    return trace, f"00-{trace}-{CALLER}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
def runtime(start_runtime: Callable[..., Runtime]) -> Runtime:
    return start_runtime(hello={"callers": True, "pid": 4242})


@pytest.fixture
def start(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path, collector: Collector
) -> Callable[..., Gateway]:
    def started(share: float = 0.0) -> Gateway:
        publish(folder / "table.json", table_of(runtime.address))
        to = read_destination(collector.url, {"OTEL_SERVICE_NAME": "scores"})
        assert to is not None
        gateway = start_gateway(traced=TracingConfig(to, share), logged="all")
        gateway.wait_ready()
        return gateway

    return started


def within(inner: Seen, outer: Seen) -> bool:
    return outer.start <= inner.start <= inner.end <= outer.end


def test_a_request_of_who_traces_it_has_spans_below_theirs(
    start: Callable[..., Gateway], runtime: Runtime, collector: Collector
) -> None:
    answer = start().infer([1.0, 2.0], traceparent=PARENT, tracestate="a=1", x_request_id="mine")
    assert answer.sums == [3.0]
    request, queue, predict = collector.trace(TRACE, *ALL)
    assert (request.parent, queue.parent, predict.parent) == (CALLER, request.id, request.id)
    assert (request.kind, queue.kind, predict.kind) == (SERVER, INTERNAL, INTERNAL)
    assert {span.state for span in (request, queue, predict)} == {"a=1"}
    assert (request.flags, predict.flags) == (0x301, 0x101), "its parent is in another process"
    assert within(queue, request)
    assert within(predict, request)
    assert queue.end <= predict.start
    assert request.resource["service.name"] == "scores"
    assert request.resource["service.instance.id"].endswith("/gateway-0")
    expected = {
        "http.request.method": "POST", "url.path": "/v2/models/m/infer", "http.route": "/v2/models/{model}/infer",
        "http.response.status_code": 200, "http.request.body.size": len(body_of([1.0, 2.0])),
        "http.response.body.size": len(answer.body), "mizzen.request_id": "mine", "mizzen.namespace": "default",
        "mizzen.model": "m", "mizzen.version": "1",
    }  # fmt: skip
    assert expected.items() <= request.attributes.items()
    assert predict.attributes["mizzen.server"] == "default/m"
    assert (predict.attributes["mizzen.replica.pid"], predict.attributes["mizzen.batch.size"]) == (4242, 1)
    told = f"00-{TRACE}-{predict.id}-01"
    assert runtime.told[-1]["traces"] == [[0, told, "a=1"]], "what the model traces is below its call"
    assert {span.error for span in (request, queue, predict)} == {None}


def test_a_share_of_the_others_begin_traces(start: Callable[..., Gateway], collector: Collector) -> None:
    gateway = start(1.0)
    with gateway.client() as client:
        for _ in range(3):  # of a head that is remembered
            client.send(infer_request([1.0]))
            assert client.answer().sums == [1.0]
    collector.wait(lambda: len(collector.spans) == 9, "three requests")
    by_trace = {span.trace: span for span in collector.spans if span.name == INFER}
    assert len(by_trace) == 3
    assert {span.parent for span in by_trace.values()} == {""}
    lines = until(lambda: [line for line in _logged(gateway) if line["path"].endswith("infer")], "the access log")
    assert {line["trace_id"] for line in lines} == set(by_trace)
    until(lambda: gateway.figure("mizzen_traces_sent_total") == 3, "it is counted")


def test_what_nobody_traces_has_no_spans(start: Callable[..., Gateway], runtime: Runtime, collector: Collector) -> None:
    gateway = start(0.0)
    declined = f"00-{TRACE}-{CALLER}-00"
    assert gateway.infer([1.0], traceparent=declined).status == 200
    assert runtime.told[-1]["traces"] == [[0, declined, ""]]
    assert gateway.infer([1.0]).status == 200
    trace, header = parent(1)
    assert gateway.infer([1.0], traceparent=header).status == 200
    collector.trace(trace, *ALL)
    assert {span.trace for span in collector.spans} == {trace}
    assert gateway.figure("mizzen_traces_lost_total") == 0


def test_calls_of_one_batch_are_linked(start: Callable[..., Gateway], runtime: Runtime, collector: Collector) -> None:
    gateway = start()
    runtime.held = True
    clients = [gateway.client() for _ in range(3)]
    traces = [parent(number) for number in (1, 2, 3)]
    for place, (client, (_, header)) in enumerate(zip(clients, traces, strict=True)):
        client.send(infer_request([1.0], traceparent=header))
        if place == 0:
            until(lambda: runtime.batches, "the first is out")
    until(lambda: gateway.figure("mizzen_queue_length") == 2, "the others wait")
    runtime.release()
    for client in clients:
        assert client.answer().sums == [1.0]
        client.socket.close()
    alone, first, second = (collector.trace(trace, *ALL)[2] for trace, _ in traces)
    assert alone.links == frozenset()
    assert first.links == {(second.trace, second.id)}
    assert second.links == {(first.trace, first.id)}
    assert first.attributes["mizzen.batch.size"] == 2


def test_a_client_that_leaves(start: Callable[..., Gateway], runtime: Runtime, collector: Collector) -> None:
    gateway = start()
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([1.0], traceparent=PARENT))
        until(lambda: runtime.batches, "it is out")
    request, _, predict = collector.trace(TRACE, *ALL)
    assert request.error == predict.error == "the client left before its answer"
    assert request.attributes["error.type"] == "cancelled"
    assert "http.response.status_code" not in request.attributes
    assert within(predict, request)


def test_a_process_that_is_lost(start: Callable[..., Gateway], collector: Collector) -> None:
    answer = start().ask("POST", "/v2/models/m/infer", body_of([1.0], name="poison"), traceparent=PARENT)
    assert answer.status == 502
    request, _, second_wait, first, second = collector.trace(TRACE, INFER, "queue", "queue", "predict", "predict")
    assert (request.error, first.error, second.error) == ("lost", "the process was lost", "the process was lost")
    assert first.end <= second_wait.start <= second_wait.end <= second.start


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "name", "error"),
    [
        ("POST", "/v2/models/m/infer", body_of([1.0], name="fail"), 500, INFER, "500"),
        ("POST", "/v2/models/m/infer", b"{", 400, INFER, None),
        ("POST", "/ns/default/v2/models/nobody/infer", b"", 404, "POST /ns/{namespace}/v2/models/{model}/infer", None),
        ("GET", "/v2/models/m", b"", 200, "GET /v2/models/{model}", None),
        ("GET", "/nothing", b"", 404, "GET", None),
        ("POST", "/v1/models/m:predict?x=1", b'{"instances": [[1.0]]}', 200, "POST /v1/models/{model}:predict", None),
    ],
)  # fmt: skip
def test_how_requests_end(
    start: Callable[..., Gateway], collector: Collector, method: str, path: str, body: bytes, code: int, name: str,
    error: str | None,
) -> None:  # fmt: skip
    assert start().ask(method, path, body, traceparent=PARENT).status == code
    collector.wait(lambda: collector.of(TRACE), path)
    (request,) = (span for span in collector.of(TRACE) if span.parent == CALLER)
    assert (request.name, request.error) == (name, error)
    assert request.attributes["http.response.status_code"] == code
    assert request.attributes.get("error.type") == error


def test_of_a_path_without_end_only_its_beginning_is_kept(start: Callable[..., Gateway], collector: Collector) -> None:
    path = "/v2/" + "x" * 20_000
    assert start().ask("GET", path, traceparent=PARENT).status == 404
    (request,) = collector.trace(TRACE, "GET")
    assert request.attributes["url.path"] == path[:MAX_PATH]


def _logged(gateway: Gateway) -> list[dict[str, str]]:
    return [json.loads(line) for line in gateway.access_log.read_text().splitlines()]

"""Calls over gRPC are traced as requests over REST are, and their spans say that they are calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mizzen.gateway.request.grpc_status import GrpcStatus
from mizzen.gateway.telemetry.tracing import TracingConfig
from mizzen.telemetry.destination import read_destination
from tests.support.collector import SERVER, Collector, collecting
from tests.support.gateway.harness import Gateway
from tests.support.gateway.models import ModelRuntime
from tests.support.grpcs import SERVICE, Caller, request_of

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
INFER = f"{SERVICE}/ModelInfer"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
def traced(start_grpc: Callable[..., Gateway], collector: Collector, counted: ModelRuntime) -> Gateway:
    counted.hello["callers"] = True
    to = read_destination(collector.url, {})
    assert to is not None
    return start_grpc(traced=TracingConfig(to, 0.0))


@pytest.mark.usefixtures("traced")
def test_a_call_of_who_traces_it_has_spans_below_theirs(
    collector: Collector, call: Caller, counted: ModelRuntime
) -> None:
    call.as_(traceparent=f"00-{TRACE}-{CALLER}-01").infer(request_of("m", [[1, 2]], "x", id="mine"))
    request, queue, predict = collector.trace(TRACE, INFER, "queue", "predict")
    assert (request.parent, queue.parent, predict.parent) == (CALLER, request.id, request.id)
    assert (request.kind, request.error) == (SERVER, None)
    expected = {
        "rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": "ModelInfer", "rpc.grpc.status_code": 0,
        "mizzen.model": "m", "mizzen.version": "1", "mizzen.request_id": "mine",
    }  # fmt: skip
    assert expected.items() <= request.attributes.items()
    assert counted.told[-1]["traces"] == [[0, f"00-{TRACE}-{predict.id}-01", ""]]


@pytest.mark.usefixtures("traced")
def test_a_call_that_is_refused(collector: Collector, call: Caller) -> None:
    marked = call.as_(traceparent=f"00-{TRACE}-{CALLER}-01")
    assert call.refusal(lambda: marked.infer(request_of("nobody", [[1, 2]])))[0] == "NOT_FOUND"
    (request,) = collector.trace(TRACE, INFER)
    assert request.attributes["rpc.grpc.status_code"] == GrpcStatus.NOT_FOUND

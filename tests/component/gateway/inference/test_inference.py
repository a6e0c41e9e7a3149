"""The rules of an inference request, the same by the hot way and by the slow one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.graph.table_types import Plan, Route, Table
from tests.support.gateway.harness import (
    LIMITS,
    Gateway,
    Runtime,
    body_of,
    infer_request,
    publish,
    table_of,
    until,
)

HOT, SLOW = "/v2/models/m/infer", "/v2/models/m/infer?by=asgi"
both = pytest.mark.parametrize("path", [HOT, SLOW])


@both
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "the body is empty"),
        (b"{", "the body is not JSON: Input data was truncated"),
        (b"[]", "the body: expected an object"),
        (b'{"inputs": []}', "inputs: expected a list of 1 to 1024 tensors"),
        (b'{"inputs": [{"name": "x"}]}', "inputs[0].shape: is missing"),
        (body_of([1.0], parameters={"timeout": -1}), "parameters.timeout: expected a positive integer"),
        (body_of([1.0], parameters={"timeout": True}), "parameters.timeout: expected a positive integer"),
        (body_of([1.0]).replace(b"[1, 1]", b"[1, 2]"), "data does not fit its shape"),
    ],
)
def test_a_bad_request_is_explained(gateway: Gateway, path: str, body: bytes, error: str) -> None:
    answer = gateway.ask("POST", path, body)
    assert answer.status == 400
    assert answer.error.startswith(error)
    assert answer.headers["mizzen-request-id"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v2/models/nn/infer", "no model 'nn'"),
        (f"/v2/models/{'n' * 5000}/infer", f"no model '{'n' * 200}...'"),
        (f"/v2/models/m/versions/{'n' * 5000}/infer", f"no version '{'n' * 200}...' of 'm' is served"),
        ("/v2/models/mm/infer", "no model 'mm'; did you mean 'm'?"),
        ("/v2/models/m/versions/7/infer", "no version '7' of 'm' is served"),
        ("/ns/other/v2/models/m/infer", "no model 'm' in namespace 'other'"),
    ],
)
def test_an_unknown_name_is_404(gateway: Gateway, path: str, error: str) -> None:
    answer = gateway.ask("POST", path, body_of([1.0]))
    assert answer.status == 404
    assert answer.error == error
    assert answer.headers["mizzen-request-id"]


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/m/versions/1/infer",
        "/ns/default/v2/models/m/infer",
        "/ns/default/v2/models/m/versions/1/infer",
        "/v2/models/%6d/infer",
        "/v2/models/m/infer?x=1",
    ],
)
def test_every_spelling_of_the_url_answers(gateway: Gateway, path: str) -> None:
    assert gateway.ask("POST", path, body_of([1.0])).sums == [1.0]


@both
def test_a_failing_model_is_500(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("POST", path, body_of([1.0], name="fail"))
    assert answer.status == 500
    assert answer.error == "the model raised"


@both
@pytest.mark.parametrize("by", ["header", "parameter"])
def test_a_deadline_is_504(gateway: Gateway, runtime: Runtime, path: str, by: str) -> None:
    runtime.held = True
    parameters, headers = ({"timeout": 30_000}, {}) if by == "parameter" else ({}, {"Mizzen_Timeout_Ms": "30.5"})
    answer = gateway.ask("POST", path, body_of([1.0], parameters=parameters), **headers)
    assert answer.status == 504
    assert "deadline" in answer.error
    runtime.release()  # the late answer goes nowhere
    assert gateway.infer([2.0]).sums == [2.0]


@both
@pytest.mark.parametrize("value", ["0", "-5", "soon", "nan", "inf", "1_0", "1e3", " "])
def test_a_bad_timeout_header_is_400(gateway: Gateway, path: str, value: str) -> None:
    answer = gateway.ask("POST", path, body_of([1.0]), Mizzen_Timeout_Ms=value)
    assert answer.status == 400
    assert "Mizzen-Timeout-Ms" in answer.error


def test_the_servers_own_timeout(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address, timeout_ms=30))
    gateway = start_gateway()
    gateway.wait_ready()
    runtime.held = True
    assert gateway.infer([1.0], Mizzen_Timeout_Ms="100000").status == 504


def test_a_call_that_waits_too_long_is_never_sent(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    with gateway.client() as first:
        first.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        assert gateway.infer([2.0], Mizzen_Timeout_Ms="30").status == 504
        runtime.release()
        assert first.answer().sums == [1.0]
    assert gateway.infer([3.0]).sums == [3.0]
    assert [len(batch) for batch in runtime.batches] == [1, 1]


def test_a_full_queue_is_503(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(replace(LIMITS, queue_limit=2))
    gateway.wait_ready()
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([0.0]))
        until(lambda: runtime.items == 1)
        client.send(infer_request([1.0]) + infer_request([2.0]))
        until(lambda: gateway.figure("mizzen_queue_length") == 2)
        refused = gateway.infer([3.0])
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        assert "full" in refused.error
        runtime.release()
        assert [client.answer().sums for _ in range(3)] == [[0.0], [1.0], [2.0]]


def test_what_waits_goes_out_together_but_big_ones_apart(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    big = [1.0] * 100_000
    with gateway.client() as first, gateway.client() as second:
        first.send(infer_request([0.0]))
        until(lambda: runtime.items == 1)
        second.send(b"".join(infer_request(row) for row in ([1.0], [2.0], big, big, big, [3.0])))
        until(lambda: gateway.figure("mizzen_queue_length") == 6)
        runtime.release()
        assert first.answer().sums == [0.0]
        assert [second.answer().sums for _ in range(6)] == [[1.0], [2.0], [1e5], [1e5], [1e5], [3.0]]
    sizes = [[len(inputs[0][4]) > 1000 for inputs, _ in batch] for batch in runtime.batches[1:]]
    assert sorted(sizes) == [[False] * 3, [True], [True], [True]]


@both
def test_a_client_that_left_is_not_computed_for(gateway: Gateway, runtime: Runtime, path: str) -> None:
    runtime.held = True
    with gateway.client() as client:
        client.send(infer_request([0.0]))
        until(lambda: runtime.items == 1)
        with gateway.client() as leaver:
            leaver.send(infer_request([1.0]).replace(HOT.encode(), path.encode()))
            until(lambda: _metric(gateway, "mizzen_requests_in_flight") == 2)
        until(lambda: 'code="499"' in gateway.ask("GET", "/metrics").body.decode())
        runtime.release()
        assert client.answer().sums == [0.0]
    assert gateway.infer([2.0]).sums == [2.0]
    assert runtime.items == 2


SIGNED: dict[str, Any] = {
    "strict": True,
    "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 2]}],
    "outputs": [{"name": "sum", "datatype": "FP64", "shape": [-1]}],
}


@pytest.mark.parametrize(
    ("tensor", "more", "error"),
    [
        ({"name": "y"}, {}, "inputs[0].name: 'y' is not one of 'x'"),
        ({"shape": [1, 3]}, {}, "inputs[0].shape: [1, 3] does not fit [-1, 2]"),
        ({"shape": [2]}, {}, "inputs[0].shape: [2] does not fit [-1, 2]"),
        ({}, {"outputs": [{"name": "mean"}]}, "outputs[0].name: 'mean' is not one of 'sum'"),
    ],
)
def test_a_strict_signature_is_kept_in_the_gateway(
    start_runtime: Callable[..., Runtime],
    start_gateway: Callable[..., Gateway],
    folder: Path,
    tensor: dict[str, Any],
    more: dict[str, Any],
    error: str,
) -> None:
    runtime = start_runtime(hello=SIGNED)
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    gateway.wait_ready()
    good = {"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1.0, 2.0]}
    answer = gateway.ask("POST", HOT, json.dumps({"inputs": [good | tensor], **more}).encode())
    assert answer.status == 400
    assert answer.error == error
    assert runtime.batches == []
    asked = json.dumps({"inputs": [good], "outputs": [{"name": "sum"}]}).encode()
    assert gateway.ask("POST", HOT, asked).sums == [3.0]
    assert runtime.batches[0][0][1] == ["sum"]


@both
def test_a_name_with_nobody_behind_it_is_503(start_gateway: Callable[..., Gateway], folder: Path, path: str) -> None:
    route = Route(namespace="default", name="m", version="1", plan=Plan(servers=()))
    publish(folder / "table.json", Table(serial=1, routes=(route,)))
    gateway = start_gateway()
    body = body_of([1.0])
    answer = until(lambda: "not served" in (found := gateway.ask("POST", path, body)).error and found)
    assert answer.status == 503
    assert answer.error == "version 1 of 'm' is not served; 'mizzen serve m 1' serves it"
    assert "retry-after" not in answer.headers  # by itself nothing will change
    described = gateway.ask("GET", "/v2/models/m")
    assert (described.status, described.error) == (503, answer.error)
    assert "retry-after" not in described.headers
    starting = Route(namespace="default", name="m-1", version="1", model="m", plan=Plan(servers=()))
    publish(folder / "table.json", Table(serial=2, routes=(route, starting)))
    answer = until(lambda: (found := gateway.ask("POST", path, body)).error.endswith("yet") and found)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def _metric(gateway: Gateway, name: str) -> float:
    lines = gateway.ask("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))

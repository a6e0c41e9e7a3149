"""Default answers: when they are given, in which form, and when not."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mizzen.gateway.inference.default_outputs import MAX_BYTES, MAX_V1_BODY, MAX_V1_COMMAS, DefaultOutput
from mizzen.graph.table_types import ConstantOutput, Plan, Route, Server, Table
from tests.support.gateway.harness import LIMITS, Gateway, Response, Runtime, body_of, infer_request, publish, until

LATE, NOBODY = "no answer within the deadline", "no ready model"
LABEL = ConstantOutput(name="label", datatype="INT64", shape=(1,), data=[7], each_row=True)
SCORES = ConstantOutput(name="scores", datatype="FP32", shape=(1, 2), data=[0.5, 0.25], each_row=True)
FIXED = ConstantOutput(name="fixed", datatype="BYTES", shape=(2,), data=["a", "bé"])


def publish_m(folder: Path, *addresses: str, default: tuple[ConstantOutput, ...] = (LABEL,), **server: Any) -> None:
    plan = Plan(servers=("default/m",) if addresses else (), default=default)
    served = Server(id="default/m", model="m", version="1", addresses=addresses, **server)
    route = Route(namespace="default", name="m", version="1", plan=plan, versions={"1": plan})
    publish(folder / "table.json", Table(serial=1, servers=(served,), routes=(route,)))


@pytest.fixture
def gateway(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Gateway:
    publish_m(folder, runtime.address)
    gateway = start_gateway()
    gateway.wait_ready()
    return gateway


def assert_default(answer: Response, why: str) -> None:
    assert answer.status == 200, answer
    assert (answer.headers["mizzen-default"], answer.headers["mizzen-default-reason"]) == ("true", why)


def rows(count: int, **more: Any) -> bytes:
    tensor = {"name": "x", "shape": [count, 1], "datatype": "FP64", "data": [1.0] * count}
    return json.dumps({"inputs": [tensor], **more}).encode()


def test_at_the_deadline(gateway: Gateway, runtime: Runtime) -> None:
    assert "mizzen-default" not in gateway.infer([1.0]).headers
    runtime.held = True
    answer = gateway.ask("POST", "/v2/models/m/infer", rows(2, id="mine"), Mizzen_Timeout_Ms="20")
    assert_default(answer, LATE)
    assert answer.json == {
        "model_name": "m", "model_version": "1", "id": "mine",
        "parameters": {"default": True, "default_reason": LATE},
        "outputs": [{"name": "label", "datatype": "INT64", "shape": [2], "data": [7, 7]}],
    }  # fmt: skip
    assert gateway.figure("mizzen_default_answers_total") == 1
    codes = [line for line in gateway.ask("GET", "/metrics").body.decode().splitlines() if "requests_total{" in line]
    assert [line.rpartition(",")[2] for line in codes] == ['code="200"} 2']


def test_faults_are_no_reason_for_one(gateway: Gateway, runtime: Runtime) -> None:
    path = "/v2/models/m/infer"
    assert gateway.ask("POST", path, b"{}").status == 400
    assert gateway.ask("POST", path, body_of([1.0]).replace(b"[1, 1]", b"[1, 2]")).status == 400
    assert gateway.ask("POST", path, body_of([1.0], "fail")).status == 500
    runtime.held = True
    assert gateway.ask("POST", path, rows(1, outputs=[{"name": "other"}]), Mizzen_Timeout_Ms="20").status == 504
    assert gateway.figure("mizzen_default_answers_total") == 0


def test_a_full_queue_is_none_either(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish_m(folder, runtime.address)
    gateway = start_gateway(_limits(queue_limit=1))
    gateway.wait_ready()
    runtime.held = True
    clients = [gateway.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(infer_request([1.0]))
        if number == 0:
            until(lambda: runtime.items == 1)
    refused = clients[2].answer()
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert "is full" in refused.error
    for client in clients:
        client.socket.close()


def _limits(**more: Any) -> Any:
    return replace(LIMITS, **more)


def test_while_nobody_is_there(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish_m(folder)
    answer = start_gateway().ask("POST", "/v2/models/m/infer", rows(1))
    assert_default(answer, NOBODY)


def test_when_those_who_were_do_not_come_back(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish_m(folder, runtime.address)
    gateway = start_gateway(_limits(hold_seconds=0.0))
    gateway.wait_ready()
    runtime.down()
    until(lambda: gateway.figure("mizzen_replicas_ready") == 0)
    assert_default(gateway.infer([1.0]), NOBODY)


def test_in_v1(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish_m(folder)
    answer = start_gateway().ask("POST", "/v1/models/m:predict", b'{"instances": [[1], [2], [3]]}')
    assert_default(answer, NOBODY)
    assert answer.json == {"predictions": [7, 7, 7]}


def test_in_bytes(start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish_m(folder, default=(LABEL, SCORES, FIXED))
    gateway = start_gateway()
    answer = gateway.ask("POST", "/v2/models/m/infer", rows(2, parameters={"binary_data_output": True}))
    assert_default(answer, NOBODY)
    length = int(answer.headers["inference-header-content-length"])
    said = json.loads(answer.body[:length])
    assert said["parameters"] == {"default": True, "default_reason": NOBODY}
    assert [(each["name"], each["shape"]) for each in said["outputs"]] == [
        ("label", [2]),
        ("scores", [2, 2]),
        ("fixed", [2]),
    ]
    expected = (
        np.array([7, 7], "<i8").tobytes()
        + np.array([0.5, 0.25] * 2, "<f4").tobytes()
        + b"\x01\x00\x00\x00a\x03\x00\x00\x00b\xc3\xa9"
    )
    assert answer.body[length:] == expected
    assert sum(each["parameters"]["binary_data_size"] for each in said["outputs"]) == len(expected)
    some = gateway.ask(
        "POST", "/v2/models/m/infer",
        rows(1, outputs=[{"name": "scores", "parameters": {"binary_data": True}}, {"name": "label"}]),
    )  # fmt: skip
    length = int(some.headers["inference-header-content-length"])
    scores, label = json.loads(some.body[:length])["outputs"]
    assert (scores["parameters"], label["data"]) == ({"binary_data_size": 8}, [7])


def test_a_default_is_shared_and_not_kept(
    runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish_m(folder, runtime.address, cache_bytes=1 << 20)
    gateway = start_gateway()
    gateway.wait_ready()
    runtime.held = True
    answer = gateway.infer([1.0], Mizzen_Timeout_Ms="20")
    assert_default(answer, LATE)
    with gateway.client() as client:
        client.send(infer_request([1.0]))
        until(lambda: gateway.figure("mizzen_requests_in_flight") == 1)
        runtime.release()
        full = client.answer()
        assert (full.sums, "mizzen-default" in full.headers) == ([1.0], False)
    assert gateway.infer([1.0]).headers["mizzen-cache"] == "hit"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"instances": [[1], [2]]}', {"predictions": [{"label": 7, "scores": [0.5, 0.25]}] * 2}),
        (b'{"inputs": [[1], [2]]}', {"outputs": {"label": [7, 7], "scores": [[0.5, 0.25]] * 2}}),
        (b'{"inputs": {"a": [1, 2, 3]}}', {"outputs": {"label": [7] * 3, "scores": [[0.5, 0.25]] * 3}}),
        (b'{"inputs": {"a": 1}}', None),
        (b'{"instances": 1}', None),
        (b"{", None),
    ],
)
def test_rows_of_v1(body: bytes, said: Any) -> None:
    answer = DefaultOutput([LABEL, SCORES]).predictions(body)
    assert (None if answer is None else json.loads(answer)) == said


def test_what_is_not_by_rows_is_no_answer_to_instances() -> None:
    default = DefaultOutput([LABEL, FIXED])
    assert default.predictions(b'{"instances": [[1]]}') is None
    assert json.loads(default.predictions(b'{"inputs": [[1]]}') or b"")["outputs"]["fixed"] == ["a", "bé"]


@pytest.mark.parametrize(
    "constant",
    [LABEL, SCORES, ConstantOutput(name="text", datatype="BYTES", shape=(1,), data=["é" * 1000], each_row=True)],
    ids=lambda constant: constant.name,
)
def test_what_is_repeated_has_a_bound_in_bytes(constant: ConstantOutput) -> None:
    default = DefaultOutput([constant])
    most = bisect_left(range(2**20), True, key=lambda rows: default.outputs(rows, None, None) is None) - 1
    for raw in (None, True):
        assert MAX_BYTES / 8 < len(default.outputs(most, None, raw) or b"") < MAX_BYTES * 1.01
        assert default.outputs(most + 1, None, raw) is None
    if most < MAX_V1_COMMAS:
        assert len(default.predictions(b'{"instances": [%b0]}' % (b"0," * (most - 1))) or b"") < MAX_BYTES * 1.01
    assert default.predictions(b'{"instances": [%b0]}' % (b"0," * most)) is None


def test_what_is_not_repeated_is_answered_whatever_the_rows() -> None:
    assert DefaultOutput([FIXED]).outputs(2**31, None, None) is not None


def test_rows_of_v1_that_cost_much_to_count_are_not_counted() -> None:
    default = DefaultOutput([FIXED])
    assert default.predictions(b'{"inputs": [%b0]}' % (b"0," * MAX_V1_COMMAS)) is not None
    assert default.predictions(b'{"inputs": [%b0, 0]}' % (b"0," * MAX_V1_COMMAS)) is None
    assert default.predictions(b'{"inputs": ["%b"]}' % (b"0" * (MAX_V1_BODY - 100))) is not None
    assert default.predictions(b'{"inputs": ["%b"]}' % (b"0" * MAX_V1_BODY)) is None


def test_rows_that_are_only_said_to_be_there_are_not_answered(
    start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    publish_m(folder)
    said = rows(3).replace(b"[3, 1]", b"[100000, 1]")
    answer = start_gateway().ask("POST", "/v2/models/m/infer", said)
    assert (answer.status, "mizzen-default" in answer.headers) == (503, False)


def test_deep_shapes() -> None:
    cube = ConstantOutput(name="c", datatype="INT8", shape=(1, 2, 2), data=[1, 2, 3, 4], each_row=True)
    empty = ConstantOutput(name="e", datatype="INT8", shape=(2, 0), data=[])
    scalar = ConstantOutput(name="s", datatype="INT8", shape=(), data=[5])
    answer = DefaultOutput([cube, empty, scalar]).predictions(b'{"inputs": [[1], [2]]}') or b""
    assert json.loads(answer)["outputs"] == {"c": [[[1, 2], [3, 4]]] * 2, "e": [[], []], "s": 5}

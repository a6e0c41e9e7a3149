"""Whatever somebody sends that is wrong: a 4xx that says so, the model is not called, and memory stays as it was."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.gateway.harness import (
    LIMITS,
    Gateway,
    Response,
    listening,
    publish,
    request,
    short_folder,
    table_of,
)
from tests.support.gateway.models import Counting, ModelRuntime

V2, V1 = "/v2/models/m/infer", "/v1/models/m:predict"
X = {"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}
RAW = {"name": "x", "shape": [1, 2], "datatype": "FP64", "parameters": {"binary_data_size": 16}}
EIGHT = np.array([[1.0, 2.0]]).tobytes()
EXAMPLES = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def model() -> Counting:
    return Counting()


@pytest.fixture(scope="module")
def gateway(model: Counting) -> Iterator[Gateway]:
    with short_folder() as folder, listening() as listener, ExitStack() as stack:
        runtime = ModelRuntime(str(folder / "0.sock"), model)
        stack.callback(runtime.close)
        publish(folder / "table.json", table_of(runtime.address))
        gateway = Gateway(listener, folder / "table.json", LIMITS)
        stack.callback(gateway.close)
        gateway.wait_ready()
        yield gateway


def v2(*tensors: Any, **more: Any) -> bytes:
    return json.dumps({"inputs": list(tensors), **more}).encode()


def raw(data: bytes, *tensors: Any, length: int | None = None) -> tuple[bytes, dict[str, str]]:
    text = v2(*(tensors or (RAW,)))
    return text + data, {"Inference_Header_Content_Length": str(len(text) if length is None else length)}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "the body is empty"),
        (b"nonsense", "the body is not JSON"),
        (b"[]", "the body: expected an object"),
        (b"{}", "inputs: is missing"),
        (v2(), "inputs: expected a list of 1 to 1024 tensors"),
        (v2({**X, "name": "y"}), "inputs[0].name: 'y' is not one of 'x'"),
        (v2(X, {**X, "name": "y"}), "inputs[1].name: 'y' is not one of 'x'"),
        (v2(X, X), "inputs[1].name: 'x' is used twice"),
        (v2({**X, "datatype": "FP63"}), "inputs[0].datatype: expected one of BOOL"),
        (v2({**X, "datatype": "BYTES", "data": ["a", "b"]}), "input 'x' must be FP64, not BYTES"),
        (v2({**X, "shape": [1, 3]}), "inputs[0].shape: [1, 3] does not fit [-1, 2]"),
        (v2({**X, "shape": [2, 2]}), "data does not fit shape [2, 2]"),
        (v2({**X, "shape": [-1, 2]}), "inputs[0].shape[0]: expected an integer from 0"),
        (v2({**X, "shape": [2**31, 2]}), "inputs[0].shape: more than 2147483648 elements"),
        (v2({**X, "shape": []}), "inputs[0].shape: [] does not fit [-1, 2]"),
        (v2({**X, "data": [1, "2"]}), "data must hold numbers"),
        (v2({**X, "data": [1, None]}), "data must hold numbers"),
        (v2({**X, "data": [[1], [2]]}), "data does not fit"),
        (v2({**X, "shape": [2, 2], "data": [[1, 2], [3]]}), "data does not fit"),
        (v2({**X, "data": 7}), "inputs[0].data: expected a list"),
        (v2({**X, "data": {}}), "inputs[0].data: expected a list"),
        (v2(RAW), "inputs[0].data: is missing"),
        (v2(X).replace(b"[1, 2]}", b"[1, NaN]}"), "not JSON"),
        (v2(X).replace(b"[1, 2]}", b"[Infinity, 2]}"), "not JSON"),
        (v2(X).replace(b"[1, 2]}", b"[1, 1e999]}"), "out of range"),
        (v2(X, outputs=[{"name": "mean"}]), "outputs[0].name: 'mean' is not one of 'sum', 'text'"),
        (v2(X, outputs=[{"name": "sum"}, {"name": "sum"}]), "outputs[1].name: 'sum' is used twice"),
        (v2(X, parameters={"timeout": -1}), "parameters.timeout: expected a positive integer"),
        (v2(X, parameters={"binary_data_output": 1}), "expected true or false"),
        (v2(X, id="a" * 257), "id: expected a string of at most 256"),
        (v2({**X, "parameters": {"a": [{}] * 100_000}}), "inputs[0].parameters: 400007 bytes are too many"),
        (v2({**X, "name": "y" * 1000}), f"inputs[0].name: '{'y' * 200}...' is not one of 'x'"),
        (v2({**X, "shape": [1] * 100_000}), "inputs[0].shape: 300000 bytes are too many"),
        (v2(*[X] * 2000), "inputs: expected a list of 1 to 1024 tensors"),
        (b'{"inputs": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "inputs[0]: expected an object"),
        (b'{"parameters": {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b'}, "inputs": []}', "nested too deeply"),
        (v2(X).replace(b"[1, 2]}", b"[" * 90_000 + b"]" * 90_000 + b"}"), "nested too deeply"),
    ],
)  # fmt: skip
def test_json(gateway: Gateway, model: Counting, body: bytes, error: str) -> None:
    before = len(model.calls)
    for path in (V2, V2 + "?by=asgi"):
        answer = gateway.ask("POST", path, body)
        assert answer.status == 400, answer
        assert error in answer.error
    assert len(model.calls) == before


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (raw(EIGHT[:-1]), "16 bytes, but only 15 arrived"),
        (raw(EIGHT + b"1"), "1 bytes more"),
        (raw(EIGHT, length=0), "Inference-Header-Content-Length"),
        (raw(EIGHT, length=10_000), "Inference-Header-Content-Length"),
        (raw(EIGHT, length=-3), "Inference-Header-Content-Length"),
        (raw(EIGHT, length=20), "the body is not JSON"),
        (raw(EIGHT, {**RAW, "shape": [2, 2]}), "data must be 32 bytes for FP64 of shape [2, 2], not 16"),
        (raw(EIGHT, {**RAW, "datatype": "FP32"}), "data must be 8 bytes for FP32 of shape [1, 2], not 16"),
        (raw(EIGHT, {**RAW, "datatype": "BYTES"}), "input 'x' must be FP64, not BYTES"),
        (raw(np.array([[1, np.nan]]).tobytes()), "data holds NaN, which this model does not accept"),
        (raw(np.array([[-np.inf, np.nan]]).tobytes()), "data holds NaN and Infinity"),
        (raw(np.array([[np.inf] * 2], "f2").tobytes(), {**RAW, "datatype": "FP16",
             "parameters": {"binary_data_size": 4}}), "data holds Infinity"),
        (raw(b"", {**RAW, "parameters": {"binary_data_size": 2**62}}), "bytes, but only 0 arrived"),
    ],
)  # fmt: skip
def test_bytes(gateway: Gateway, model: Counting, sent: tuple[bytes, dict[str, str]], error: str) -> None:
    before = len(model.calls)
    for path in (V2, V2 + "?by=asgi"):
        answer = gateway.ask("POST", path, sent[0], **sent[1])
        assert answer.status == 400, answer
        assert error in answer.error
    assert len(model.calls) == before


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v2/models/nobody/infer", 404), ("/v2/models/m/versions/9/infer", 404), ("/v1/models/nobody:predict", 404),
        ("/v2/models/m/versions/prod/infer", 404), ("/v1/models/m/labels/prod:predict", 404),
        ("/ns/other/v2/models/m/infer", 404), ("/v2/models/m/infer/", 404), ("/v2/models//infer", 404),
    ],
)  # fmt: skip
def test_names_that_nobody_has(gateway: Gateway, model: Counting, path: str, code: int) -> None:
    before = len(model.calls)
    assert gateway.ask("POST", path, v2(X)).status == code
    assert len(model.calls) == before


def test_others_get_their_rows_beside_whatever_is_wrong(gateway: Gateway) -> None:
    body, headers = raw(EIGHT)
    wrong, _ = raw(np.array([[np.nan, 2.0]]).tobytes())
    with gateway.client() as client:
        for sent in (body, wrong, body, b"x" * len(body), body):
            client.send(request("POST", V2, sent, **headers))
        answers = [client.answer() for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 400, 200, 400, 200]
    assert [answer.json["outputs"][0]["data"] for answer in answers[::2]] == [[3.0]] * 3


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("x") | values,
        "shape": st.just([1, 2]) | st.lists(st.integers(-1, 3), max_size=3) | values,
        "datatype": st.sampled_from(["FP64", "INT8", "BYTES", "BOOL", "FP16"]) | values,
        "data": st.lists(st.integers() | st.floats() | st.none(), max_size=4) | st.just([1, 2]) | values,
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size", "a"]), values | st.just(16), max_size=2),
    },
)
bodies_v2 = st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.lists(tensors, max_size=3) | values,
        "outputs": st.lists(st.fixed_dictionaries({}, optional={"name": st.just("sum") | values, "parameters": values}))
        | values,
        "parameters": st.dictionaries(st.sampled_from(["timeout", "binary_data_output"]), values) | values,
        "id": values,
    },
)
bodies_v1 = st.fixed_dictionaries(
    {}, optional={"instances": st.lists(values) | values, "inputs": values, "signature_name": values}
)


def _well_formed(answer: Response) -> None:
    assert answer.status in (200, 400), answer
    if answer.status == 400:
        assert answer.error


@EXAMPLES
@given(bodies_v2 | values, st.sampled_from(["", "?a"]))
def test_any_json_in_v2(gateway: Gateway, model: Counting, body: Any, query: str) -> None:
    before = len(model.calls)
    answer = gateway.ask("POST", V2 + query, json.dumps(body).encode())
    _well_formed(answer)
    assert answer.status == 200 or len(model.calls) == before


@EXAMPLES
@given(bodies_v1 | values, st.sampled_from(["", "?a"]))
def test_any_json_in_v1(gateway: Gateway, model: Counting, body: Any, query: str) -> None:
    before = len(model.calls)
    answer = gateway.ask("POST", V1 + query, json.dumps(body).encode())
    _well_formed(answer)
    assert answer.status == 200 or len(model.calls) == before


@EXAMPLES
@given(bodies_v2, st.binary(max_size=40) | st.just(EIGHT), st.integers(-2, 2))
def test_any_bytes(gateway: Gateway, model: Counting, body: Any, data: bytes, off: int) -> None:
    before = len(model.calls)
    text = json.dumps(body).encode()
    length = str(len(text) + off)
    answer = gateway.ask("POST", V2, text + data, Inference_Header_Content_Length=length)
    _well_formed(answer)
    assert answer.status == 200 or len(model.calls) == before


@EXAMPLES
@given(st.binary(max_size=200), st.sampled_from([V2, V1, V2 + "?a", V1 + "?a"]))
def test_any_garbage(gateway: Gateway, model: Counting, body: bytes, path: str) -> None:
    before = len(model.calls)
    assert gateway.ask("POST", path, body).status == 400
    assert len(model.calls) == before


def test_memory_stays_as_it_was(gateway: Gateway) -> None:
    """Shapes that promise much, bodies that are nested deeply, and bombs: none costs more than its own size."""
    hungry = [
        (v2({**X, "shape": [2**30, 2]}), {}),
        raw(b"", {**RAW, "shape": [2**30, 2], "parameters": {"binary_data_size": 2**34}}),
        raw(b"\xff\xff\xff\x7f" * 4, {**RAW, "datatype": "BYTES", "shape": [2**30, 2]}),
        (b'{"instances": ' + b"[" * 500_000 + b"]" * 500_000 + b"}", {}),
        (b'{"instances": [' + b"[1,2]," * 100_000 + b"[1]]}", {}),
    ]
    for body, headers in hungry:  # whatever has to be loaded for it, is
        assert gateway.ask("POST", V1 if b"instances" in body else V2, body, **headers).status == 400
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        for body, headers in hungry:
            assert gateway.ask("POST", V1 if b"instances" in body else V2, body, **headers).status == 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10

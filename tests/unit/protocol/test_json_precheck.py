"""Large JSON is looked over before objects are made of it: what says too much is refused, and costs next to nothing."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import binary, json_precheck, json_tensor_split, v2

MIB = 1 << 20
X: dict[str, Any] = {"name": "x", "shape": [1], "datatype": "FP64", "data": [1]}


def body(*tensors: Any, **more: Any) -> bytes:
    return json.dumps({"inputs": list(tensors), **more}).encode()


def refused(text: bytes) -> tuple[str, int]:
    """What is said of it, as JSON and before bytes, and the bytes that it took at most."""
    told = []
    tracemalloc.start()
    try:
        for read in (json_tensor_split.decode, lambda text: binary.decode(text, str(len(text)).encode())):
            with pytest.raises(ValueError, match=r".") as caught:
                read(text)
            told.append(str(caught.value))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told[0] == told[1]
    return told[0], peak


TOO_MANY = f"a request may have at most {json_precheck.MAX_METADATA_BYTES} bytes"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b'{"parameters":{"a":[' + b"{}," * MIB + b"{}]}," + body(X)[1:], TOO_MANY),
        (body({**X, "parameters": {"a": [{}] * MIB}}), "inputs[0].parameters: "),
        (body(X, outputs=[{"name": "y"}] * (MIB // 4)), "outputs: "),
        (body({**X, "shape": [1] * MIB}), "inputs[0].shape: "),
        (body({**X, "name": "\x01" * MIB}), "inputs[0].name: "),
        (body(X, id="\x01" * MIB), "id: "),
        (body(*[X] * (MIB // 16)), f"inputs: expected a list of 1 to {v2.MAX_TENSORS} tensors"),
        (body(X, parameters={"a": [{"data": [1]}] * (MIB // 4)}), "parameters: "),
        (body(X, parameters={"a": ["data"] * (MIB // 4)}), "parameters: "),
    ],
    ids=["parameters", "of an input", "outputs", "shape", "name", "id", "inputs", "data in it", "texts"],
)
def test_what_says_too_much_is_refused_before_it_grows(text: bytes, error: str) -> None:
    told, peak = refused(text)
    assert error in told
    assert len(told) < 300
    assert peak < len(text) + 2 * MIB  # a copy of the JSON before bytes, and of what may be said


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (body({**X, "shape": [1] * 33}), "inputs[0].shape: expected a list of at most 32 integers"),
        (body({**X, "name": "x" * 1025}), "inputs[0].name: expected a non-empty string of at most 1024"),
        (body(*[{**X, "name": "x" * 1000}] * 2), f"inputs[1].name: '{'x' * 200}...' is used twice"),
        (
            body(X, outputs=[{"name": str(n)} for n in range(1025)]),
            "outputs: expected a list of at most 1024 objects with a name",
        ),
        (b'{"inputs":[7]}', "inputs[0]: expected an object"),
        (b'{"inputs":7}', "inputs: expected a list"),
        (b'{"inputs":[]}', "inputs: expected a list"),
        (b"{}", "inputs: is missing"),
        (b"[]", "the body: expected an object"),
        (body({"name": "x"}), "inputs[0].shape: is missing"),
        (body({**X, "data": 7}), "inputs[0].data: expected a list"),
        (body({**X, "data": [1]})[:-1], "the body is not JSON"),
        (b'{"inputs": ' + b"[" * 100_000, "inputs[0]: expected an object"),
        (b'{"parameters": ' + b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_faults_are_told_as_those_of_small_requests(text: bytes, error: str) -> None:
    told, _ = refused(text + b" " * (json_precheck.LARGE + 1))
    assert error in told
    with pytest.raises(ValueError, match=r".") as caught:
        v2.decode(text)
    assert str(caught.value) == told or "not JSON" in told


def test_large_data_that_cannot_be_cut_out_is_no_fault() -> None:
    texts = json.dumps(["a]", '"data":[1]', "ü"] * 20_000)
    text = body({**X, "datatype": "BYTES", "parameters": {"a": 1}, "data": 0}, id="7", outputs=[{"name": "y"}])
    text = text.replace(b'"data": 0', b'"data": ' + texts.encode())
    assert json_tensor_split.split_data(text) is None
    request, [entry] = json_tensor_split.decode(text)
    assert bytes(entry[4]) == texts.encode()
    assert (request.id, request.inputs[0].parameters) == ("7", {"a": 1})
    assert [output.name for output in request.outputs or ()] == ["y"]


def test_as_many_inputs_as_there_may_be() -> None:
    tensors = [{**X, "name": f"x{n}", "data": [str(n)]} for n in range(v2.MAX_TENSORS)]
    _, entries = json_tensor_split.decode(body(*tensors))
    assert [(name, bytes(data)) for name, _, _, _, data in entries] == [
        (f"x{n}", b'["%d"]' % n) for n in range(v2.MAX_TENSORS)
    ]


def test_data_in_a_long_head_before_bytes() -> None:
    raw = {"name": "y", "shape": [2], "datatype": "UINT8", "parameters": {"binary_data_size": 2}}
    text = body({**X, "data": [1.5] * 10_000}, raw)
    _, entries = binary.decode(text + b"ab", str(len(text)).encode())
    assert [bytes(data) for _, _, _, _, data in entries] == [json.dumps([1.5] * 10_000).encode(), b"ab"]


FIELDS = ["inputs", "name", "shape", "datatype", "data", "id", "outputs", "parameters"]
ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
)


@given(ANYTHING | st.fixed_dictionaries({"inputs": st.lists(st.fixed_dictionaries(
    {"name": st.sampled_from("xy") | ANYTHING, "shape": st.lists(st.integers(0, 3)), "datatype": st.just("INT8")},
    optional={"data": st.lists(ANYTHING) | ANYTHING, "parameters": ANYTHING},
), max_size=3)}, optional={"id": st.text(max_size=3), "outputs": ANYTHING, "parameters": ANYTHING}))  # fmt: skip
def test_what_is_skimmed_is_what_is_read_whole(value: Any) -> None:
    text = json.dumps(value).encode()
    try:
        whole = v2.decode(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):  # of several faults it may be another one that is told
            json_tensor_split.decode(text)
        return
    request, entries = json_tensor_split.decode(text)
    assert [bytes(data) for _, _, _, _, data in entries] == [bytes(tensor.data) for tensor in whole.inputs]
    assert [entry[:3] for entry in entries] == [(each.name, each.datatype, each.shape) for each in whole.inputs]
    assert (request.id, request.parameters, request.outputs) == (whole.id, whole.parameters, whole.outputs)

"""The binary tensor extension: bytes behind the JSON, taken apart exactly or not at all."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import binary, tensors, v2
from mizzen.protocol.frames import framing

X = {"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}


def packed(*inputs: Any, data: bytes = b"", **more: Any) -> tuple[bytes, bytes]:
    """A body, and the header that tells the length of its JSON."""
    text = json.dumps({"inputs": list(inputs), **more}).encode()
    return text + data, str(len(text)).encode()


def test_bytes_follow_in_the_order_of_the_inputs() -> None:
    listed = {"name": "y", "shape": [2], "datatype": "INT64", "data": [1, 2]}
    last = {**X, "name": "z", "shape": [1], "datatype": "UINT8", "parameters": {"binary_data_size": 1}}
    request, entries = binary.decode(*packed(X, listed, last, data=b"12345678\x07", id="a"))
    assert request.id == "a"
    assert [(name, datatype, shape, encoding, bytes(data)) for name, datatype, shape, encoding, data in entries] == [
        ("x", "FP32", [1, 2], framing.RAW, b"12345678"),
        ("y", "INT64", [2], framing.JSON, b"[1, 2]"),
        ("z", "UINT8", [1], framing.RAW, b"\x07"),
    ]


@pytest.mark.parametrize(
    ("inputs", "data", "error"),
    [
        ([X], b"1234567", "inputs[0].parameters.binary_data_size: 8 bytes, but only 7 arrived"),
        ([X], b"123456789", "the body has 1 bytes more than its inputs announce"),
        ([X, {**X, "name": "y"}], b"12345678", "inputs[1].parameters.binary_data_size: 8 bytes, but only 0 arrived"),
        ([{**X, "data": [1, 2]}], b"12345678", "inputs[0]: has both data and parameters.binary_data_size"),
        ([{**X, "parameters": {}}], b"", "inputs[0].data and parameters.binary_data_size are both missing"),
        ([{**X, "parameters": {"binary_data_size": -1}}], b"", "expected a number of bytes"),
        ([{**X, "parameters": {"binary_data_size": True}}], b"1", "expected a number of bytes"),
        ([{**X, "parameters": {"binary_data_size": "8"}}], b"12345678", "expected a number of bytes"),
        ([{**X, "parameters": None, "data": 7}], b"", "inputs[0].data: expected a list"),
        ([X, X], b"12345678" * 2, "inputs[1].name: 'x' is used twice"),
        ([{**X, "shape": [2**31, 2]}], b"12345678", "inputs[0].shape: more than 2147483648 elements"),
        ([{**X, "datatype": "FP8"}], b"12345678", "inputs[0].datatype: expected one of BOOL"),
        ([], b"", "inputs: expected a list of 1 to 1024 tensors"),
    ],
)
def test_what_does_not_fit_is_named(inputs: list[Any], data: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        binary.decode(*packed(*inputs, data=data))
    assert error in str(caught.value)


@pytest.mark.parametrize("header", [b"", b"0", b"-1", b"+5", b"1_0", b"abc", b"99999999999999", b"1000", b" 5", b"5.0"])
def test_a_header_that_is_no_length_of_this_body(header: bytes) -> None:
    body, _ = packed(X, data=b"12345678")
    with pytest.raises(ValueError, match="Inference-Header-Content-Length"):
        binary.decode(body, header)


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_wrong_length_is_never_taken(length: int, cut: int) -> None:
    body, right = packed(X, data=b"12345678")
    if str(length).encode() == right and cut == 0:
        return
    with pytest.raises(ValueError, match=r"."):
        binary.decode(body[: len(body) - cut], str(length).encode())


@given(st.binary(max_size=300), st.integers(0, 400))
def test_garbage_is_a_fault_of_the_caller(body: bytes, length: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        binary.decode(body, str(length).encode())


@pytest.mark.parametrize(
    ("parameters", "outputs", "raw"),
    [
        (None, None, []),
        ({"binary_data_output": True}, None, True),
        ({"binary_data_output": False}, None, []),
        (None, [{"name": "a", "parameters": {"binary_data": True}}, {"name": "b"}], ["a"]),
        ({"binary_data_output": True}, [{"name": "a", "parameters": {"binary_data": False}}, {"name": "b"}], ["b"]),
        ({"binary_data_output": True}, [{"name": "a"}, {"name": "b"}], True),
        (None, [{"name": "a"}], []),
    ],
)
def test_which_outputs_are_wanted_as_bytes(parameters: Any, outputs: Any, raw: Any) -> None:
    asked = None if outputs is None else [v2.RequestedOutput(**output) for output in outputs]
    assert binary.raw_outputs_of(parameters, asked) == raw


@pytest.mark.parametrize(
    ("parameters", "output", "error"),
    [
        ({"binary_data_output": 1}, {}, "parameters.binary_data_output: expected true or false"),
        (None, {"binary_data": "yes"}, "outputs[0].parameters.binary_data: expected true or false"),
        (None, {"classification": 3}, "outputs[0].parameters.classification: is not supported"),
        (None, {"shared_memory_region": "a"}, "outputs[0].parameters.shared_memory_region: is not supported"),
    ],
)
def test_what_is_no_answer_to_that(parameters: Any, output: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        binary.raw_outputs_of(parameters, [v2.RequestedOutput(name="a", parameters=output)])
    assert error in str(caught.value)


def test_an_answer_is_its_json_and_then_the_bytes() -> None:
    outputs = b'[{"name":"a","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}]'
    body, length = binary.render_answer(
        v2.render_answer_head("m", "1"), b'"7"', struct.pack("<I", len(outputs)) + outputs + b"\x01\xff"
    )
    assert json.loads(body[:length]) == {
        "model_name": "m", "model_version": "1", "id": "7", "outputs": json.loads(outputs),
    }  # fmt: skip
    assert body[length:] == b"\x01\xff"


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_elements_of_bytes_come_back_as_they_were(elements: list[bytes]) -> None:
    array = np.empty(len(elements), object)
    array[:] = elements
    kind, plain = tensors.as_datatype(array, text=False)
    assert kind.name == "BYTES"
    assert tensors.decode_raw("BYTES", [len(elements)], tensors.encode_raw(kind, plain)).tolist() == elements

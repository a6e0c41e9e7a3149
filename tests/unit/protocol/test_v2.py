"""Reading V2 requests: what comes out can be served, and what cannot is explained."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import v2

TENSOR: dict[str, Any] = {"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1.5, 2]}


def encoded(*tensors: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(tensors), **more}).encode()


def without(field: str) -> dict[str, Any]:
    return {name: value for name, value in TENSOR.items() if name != field}


def test_reads_a_request_and_leaves_its_data_alone() -> None:
    body = b'{"id": "7", "inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1.50,  2e0]}]}'
    request = v2.decode(body)
    assert request.id == "7"
    assert bytes(request.inputs[0].data) == b"[1.50,  2e0]"
    assert request.inputs[0].shape == [1, 2]
    assert request.outputs is None


def test_unknown_fields_are_not_our_business() -> None:
    assert v2.decode(encoded(TENSOR | {"extra": 1}, more={"a": []})).inputs[0].name == "x"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty"),
        (b"{", "the body is not JSON: Input data was truncated"),
        (b"nonsense", "the body is not JSON: JSON is malformed"),
        (b'{"inputs": [{"name": "\xff"}]}', "the body is not JSON: "),
        (b"[]", "the body: expected an object"),
        (b"5", "the body: expected an object"),
        (b"{}", "inputs: is missing"),
        (encoded(), "inputs: expected a list of 1 to 1024 tensors"),
        (b'{"inputs": {}}', "inputs: expected a list of 1 to 1024 tensors"),
        (b'{"inputs": [5]}', "inputs[0]: expected an object"),
        (encoded(without("name")), "inputs[0].name: is missing"),
        (encoded(without("data")), "inputs[0].data: is missing"),
        (encoded(TENSOR, without("datatype")), "inputs[1].datatype: is missing"),
        (encoded(TENSOR | {"name": ""}), "inputs[0].name: expected a non-empty string"),
        (encoded(TENSOR | {"shape": "2"}), "inputs[0].shape: expected a list of at most 32 integers"),
        (encoded(TENSOR | {"shape": [1, -1]}), "inputs[0].shape[1]: expected an integer from 0 to 2147483648"),
        (encoded(TENSOR | {"shape": [1.5]}), "inputs[0].shape[0]: expected an integer from 0 to 2147483648"),
        (encoded(TENSOR | {"shape": [0, 2**64]}), "inputs[0].shape[1]: expected an integer from 0 to 2147483648"),
        (encoded(TENSOR | {"shape": [65536, 65536]}), "inputs[0].shape: more than 2147483648 elements"),
        (encoded(TENSOR | {"datatype": "FLOAT"}), "inputs[0].datatype: expected one of BOOL, UINT8"),
        (encoded(TENSOR | {"data": None}), "inputs[0].data: expected a list"),
        (encoded(TENSOR | {"data": 1}), "inputs[0].data: expected a list"),
        (encoded(TENSOR | {"parameters": []}), "inputs[0].parameters: expected an object"),
        (encoded(TENSOR, TENSOR), "inputs[1].name: 'x' is used twice"),
        (encoded(TENSOR, id=5), "id: expected a string of at most 256 characters"),
        (encoded(TENSOR, id="x" * 257), "id: expected a string of at most 256 characters"),
        (encoded(TENSOR, outputs={}), "outputs: expected a list of at most 1024 objects with a name"),
        (encoded(TENSOR, outputs=["y"]), "outputs[0]: expected an object with a name"),
        (encoded(TENSOR, outputs=[{}]), "outputs[0].name: is missing"),
        (encoded(TENSOR, outputs=[{"name": name} for name in "yzy"]), "outputs[2].name: 'y' is used twice"),
        (encoded(TENSOR, parameters=7), "parameters: expected an object"),
        (b'{"inputs": [{"data": ' + b"[" * 100_000, "the body is nested too deeply"),
        (b'{"parameters": ' + b'{"a":' * 100_000, "the body is nested too deeply"),
        (b'{"inputs": [{"name": "x", "shape": [' + b"9" * 10_000 + b"]}]}", "inputs[0].shape[0]: expected an integer"),
    ],
)
def test_explains_what_it_cannot_read(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r"\A") as caught:
        v2.decode(body)
    assert str(caught.value).startswith(message)
    assert not isinstance(caught.value, msgspec.MsgspecError)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    with suppress(ValueError):
        v2.decode(body)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["inputs", "name", "shape", "datatype", "data", "id", "outputs", "parameters"]), inner
)))  # fmt: skip
def test_no_json_raises_anything_else(value: Any) -> None:
    with suppress(ValueError):
        v2.decode(json.dumps({"inputs": value} if not isinstance(value, dict) else value).encode())


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [(None, None), ({}, None), ({"timeout": 1500}, 0.0015), ({"timeout": 10**400}, 1e6)],
)
def test_timeout(parameters: dict[str, Any] | None, seconds: float | None) -> None:
    body = encoded(TENSOR) if parameters is None else encoded(TENSOR, parameters=parameters)
    assert v2.timeout_seconds(v2.decode(body).parameters) == seconds


@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True, None])
def test_bad_timeout(value: object) -> None:
    with pytest.raises(ValueError, match="positive integer"):
        v2.timeout_seconds(v2.decode(encoded(TENSOR, parameters={"timeout": value})).parameters)


@given(st.text(), st.text(), st.text())
def test_answers_are_json_whatever_the_names(name: str, version: str, id_: str) -> None:
    try:
        (name + version + id_).encode()
    except UnicodeEncodeError:
        return  # no JSON text can hold half a surrogate pair, so none ever arrives
    answer = v2.render_answer(v2.render_answer_head(name, version), v2.to_json(id_), b"[]")
    assert json.loads(answer) == {"model_name": name, "model_version": version, "id": id_, "outputs": []}
    assert json.loads(v2.render_error(name)) == {"error": name}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_header_is_printable_ascii(text: str) -> None:
    value = v2.header_text(text)
    assert all(0x20 <= byte < 0x7F for byte in value)
    assert value == value.strip()


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
def test_a_plain_id_is_sent_as_it_is(text: str) -> None:
    assert v2.header_text(text) == text.encode()

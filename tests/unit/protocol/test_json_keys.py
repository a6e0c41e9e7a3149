"""A key that is repeated is refused, in every object of every protocol, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.feedback.routes import parse_feedback
from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import TensorRequest
from mizzen.gateway.services.tensor_values import parse_document
from mizzen.gateway.services.v2 import read
from mizzen.protocol import binary, json_keys, json_precheck, json_tensor_split, v1, v2

TENSOR = b'{"name":"x","shape":[1],"datatype":"INT64","data":[1]%b}'


def request_of(more: bytes = b"", tensor: bytes = b"") -> bytes:
    return b'{"inputs":[%b]%b}' % (TENSOR % tensor, more)


def decode(body: bytes) -> None:
    """Whichever way a body of its size is read."""
    if len(body) > json_tensor_split.LARGE:
        json_tensor_split.decode(body)
    else:
        v2.decode(body)


REPEATED = [
    (b'{"inputs":[%b],"inputs":[%b]}' % ((TENSOR % b"",) * 2), "inputs"),
    (b'{"\\u0069nputs":[%b],"inputs":[%b]}' % ((TENSOR % b"",) * 2), "inputs"),
    (b'{"inputs" :[%b],"inputs":[%b]}' % ((TENSOR % b"",) * 2), "inputs"),
    (request_of(b',"id":"1","id":"2"'), "id"),
    (request_of(b',"id":null,"id":null'), "id"),
    (request_of(b',"id":":","id":":"'), "id"),
    (request_of(b',"id":"\\u003a\\u003a","other":1,"other":2'), "other"),
    (request_of(b',"parameters":{},"parameters":{}'), "parameters"),
    (request_of(b',"parameters":{"a":1,"a":1}'), "a"),
    (request_of(b',"parameters":{"a":{"b":[{"c":1,"c":1}]}}'), "c"),
    (request_of(b',"outputs":[],"outputs":[]'), "outputs"),
    (request_of(b',"outputs":[{"name":"y","name":"y"}]'), "name"),
    (request_of(b',"outputs":[{"name":"y","parameters":{"a":1,"a":1}}]'), "a"),
    (request_of(b',"":0,"":0'), ""),
    *((request_of(tensor=b',"%b":%b' % (key, value)), key.decode()) for key, value in [
        (b"name", b'"x"'), (b"shape", b"[1]"), (b"datatype", b'"INT64"'), (b"data", b"[1]"),
    ]),
    (request_of(tensor=b',"parameters":{"a":1,"a":2}'), "a"),
    (request_of(tensor=b',"parameters":{},"parameters":{}'), "parameters"),
    (request_of(tensor=b',"unknown":{"a":1,"a":2}'), "a"),
]  # fmt: skip


@pytest.mark.parametrize("padding", [0, json_tensor_split.LARGE + 1])
@pytest.mark.parametrize(("body", "key"), REPEATED)
def test_a_repeated_key_of_v2_is_refused_and_named(body: bytes, key: str, padding: int) -> None:
    padded = body + b" " * padding
    for read_body in (decode, lambda each: binary.decode(each, str(len(each)).encode())):
        with pytest.raises(ValueError, match=rf"the key '{key}' is repeated"):
            read_body(padded)


@pytest.mark.parametrize("padding", [0, json_tensor_split.LARGE + 1])
@pytest.mark.parametrize("text", ['"inputs":[],"inputs"', "a:b", ":", "12:30", "\\", '\\"', "\x01:"])
def test_text_that_looks_like_keys_is_text(text: str, padding: int) -> None:
    tensor = {
        "name": "x" + text,
        "shape": [2],
        "datatype": "BYTES",
        "data": [text, "\u003a"],
        "parameters": {text: text},
    }
    body = json.dumps({"inputs": [tensor], "id": text, "parameters": {"a": {"b": text}, "c": [{"d": text}]}}).encode()
    decode(body + b" " * padding)
    decode(body.replace(b'"id"', b'"nobody knows this:"') + b" " * padding)


NAMES = st.text(st.sampled_from('ab:"\\{,'), max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=12,
)
"""JSON whose objects are tuples of pairs, which may have a key twice."""


def write(value: Any) -> str:
    if isinstance(value, tuple):
        members = ", ".join(f"{json.dumps(name)} : {write(each)}" for name, each in value)
        return "{" + members + "}"
    return "[" + ",".join(map(write, value)) + "]" if isinstance(value, list) else json.dumps(value)


def repeats(value: Any) -> bool:
    if isinstance(value, tuple):
        return len({name for name, _ in value}) < len(value) or any(repeats(each) for _, each in value)
    return isinstance(value, list) and any(map(repeats, value))


@given(VALUES, st.sampled_from([0, json_tensor_split.LARGE]))
def test_exactly_the_texts_with_a_repeated_key_are_refused(value: Any, padding: int) -> None:
    text = write(value).encode()
    readers: list[Callable[[], object]] = [
        lambda: json_keys.require_unique(text, json.loads(text)),
        lambda: decode(request_of(b',"parameters":{"p":%b}' % text) + b" " * padding),
        lambda: decode(request_of(tensor=b',"other":%b' % text) + b" " * padding),
        lambda: v1.parse_request(b'{"inputs":{"a":%b},"instances":1}' % text, []),
    ]
    for look in readers:
        try:
            look()
        except json_keys.RepeatedKey:
            refused = True
        except ValueError:
            refused = False
        else:
            refused = False
        assert refused == repeats(value)


def test_v1_and_feedback_and_answers_of_services() -> None:
    for body in (
        b'{"instances":[1],"instances":[2]}',
        b'{"instances":[{"a":1,"a":2}]}',
        b'{"inputs":{"a":[1],"a":[1]}}',
        b'{"inputs":{"a":[%b1],"a":[1]}}' % (b"1," * (64 << 10)),
        b'{"instances":[%b1],"instances":[1]}' % (b"1," * (64 << 10)),
        b'{"instances":[%b{"a":1,"a":2}]}' % (b'{"a":1},' * (64 << 10)),
    ):
        with pytest.raises(json_keys.RepeatedKey):
            v1.parse_request(body, [])
    for feedback in (b'{"id":"a:","id":"b:","reward":1}', b'{"id":"a","truth":{"b":1,"b":1}}'):
        with pytest.raises(json_keys.RepeatedKey):
            parse_feedback(feedback)
    with pytest.raises(ValueError, match="'data' is repeated"):
        parse_document(b'{"data":{},"data":{}}')
    answered = TensorRequest([], None, None, b"", {})
    good = b'{"model_name":"m","id":"a:b","extra":{"a":1},"outputs":[%b]}' % (TENSOR % b"")
    for padding in (0, json_precheck.LARGE):
        read(answered, HttpResponse(200, {}, good + b" " * padding))
        for bad in (good.replace(b'"extra"', b'"id"'), good.replace(b'"name"', b'"data":[],"name"')):
            with pytest.raises(ValueError, match="is repeated"):
                read(answered, HttpResponse(200, {}, bad + b" " * padding))

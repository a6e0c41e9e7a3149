"""Messages: read from models and clients, written as clients ask for them, with what numpy would say as the measure."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mizzen.gateway.queueing.signature import HelloTensor
from mizzen.graph import messages
from mizzen.protocol import tensors, v1, v2
from mizzen.protocol.frames import framing
from mizzen.runtime import outputs

Styles = st.sampled_from([None, True, ("a",), ["b", "c"]])
NAMES = ("a", "b", "c\u00e9")


@st.composite
def answers(draw: st.DrawFn, special: bool = False) -> dict[str, tensors.Array]:
    """What a model might give."""
    given_: dict[str, tensors.Array] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        datatype = draw(st.sampled_from(list(tensors.DATATYPES)))
        shape = draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
        if datatype == "BYTES":
            array = np.empty(math.prod(shape), object)
            array[:] = draw(st.lists(st.text(max_size=4), min_size=array.size, max_size=array.size))
            given_[name] = array.reshape(shape)
            continue
        dtype = tensors.DATATYPES[datatype].dtype
        values = (
            npst.from_dtype(dtype, allow_nan=special, allow_infinity=special) if dtype.kind == "f" else None
        )  # the others have none
        given_[name] = draw(npst.arrays(dtype, shape, elements=values))
    return given_


def entry(name: str, datatype: str, shape: list[int], data: Any) -> v2.Entry:
    """In JSON."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return name, datatype, shape, framing.JSON, memoryview(text)


def raw(name: str, array: tensors.Array) -> v2.Entry:
    return messages.parse_reply(outputs.encode_whole({name: array}, True))[0]


@given(answers(special=True))
def test_replies_are_read_as_they_were_written(given_: dict[str, tensors.Array]) -> None:
    payload = outputs.encode_whole(given_, True)
    for _ in range(2):  # also when it is remembered
        entries = messages.parse_reply(payload)
        assert [(name, shape) for name, _, shape, _, _ in entries] == [(n, list(a.shape)) for n, a in given_.items()]
        assert messages.parse_reply(messages.to_payload(entries, True)) == entries
        assert messages.size_of(entries) == sum(len(messages.raw_of(one)) for one in entries)
        for one, array in zip(entries, given_.values(), strict=True):
            if array.dtype != object:
                np.testing.assert_array_equal(messages.array_of(one), array)


@given(answers(), Styles)
def test_clients_get_what_a_model_would_answer(given_: dict[str, tensors.Array], style: Any) -> None:
    entries = messages.parse_reply(outputs.encode_whole(given_, True))
    got = messages.to_payload(entries, style)
    wanted = outputs.encode_whole(given_, tuple(style) if isinstance(style, list) else style)
    if style is None:
        assert json.loads(got) == json.loads(wanted)
        return
    size, wanted_size = (int.from_bytes(text[:4], "little") for text in (got, wanted))
    assert json.loads(got[4 : 4 + size]) == json.loads(wanted[4 : 4 + wanted_size])
    assert got[4 + size :] == wanted[4 + wanted_size :]


@given(answers(), st.sampled_from([None, True]), st.booleans())
def test_what_clients_sent_as_json(given_: dict[str, tensors.Array], style: Any, nested: bool) -> None:
    """It may pass through, nested or not."""
    entries = [
        entry(
            name, tensors.as_datatype(array)[0].name, list(array.shape), (array if nested else array.ravel()).tolist()
        )
        for name, array in given_.items()
    ]
    got = messages.to_payload(entries, style)
    if style:
        assert messages.parse_reply(got) == messages.parse_reply(outputs.encode_whole(given_, True))
    else:
        assert json.loads(got) == json.loads(outputs.encode_whole(given_))


@pytest.mark.parametrize("count", [20_000, 1])
@pytest.mark.parametrize("datatype", ["FP64", "FP32", "INT64", "BYTES"])
def test_large_json(count: int, datatype: str) -> None:
    data = [["label"] * 2] * count if datatype == "BYTES" else [[1, 2]] * count
    one = entry("x", datatype, [count, 2], data)
    [said] = json.loads(messages.to_payload([one]))
    assert said["data"] == [value for row in data for value in row]
    [(_, _, shape, encoding, bytes_)] = messages.parse_reply(messages.to_payload([one], True))
    assert (shape, encoding) == ([count, 2], framing.RAW)
    values = tensors.decode_raw(datatype, [2 * count], bytes_).tolist()
    assert values == ([b"label"] * 2 * count if datatype == "BYTES" else said["data"])


def test_small_floats_are_written_as_a_runtime_writes_them() -> None:
    one = raw("y", np.array([0.1, 1e20], np.float32))
    assert messages.to_payload([one]) == outputs.encode_whole({"y": np.array([0.1, 1e20], np.float32)})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 200])
def test_what_json_has_no_number_for(value: float, dtype: Any, count: int) -> None:
    entries = [raw("x", np.array([1.0] * count + [value], dtype))]
    for write in (messages.to_payload, lambda entries: messages.render_v1([("a", entries)], v1.ROWS)):
        with pytest.raises(ValueError, match=r"\Aoutput 'x' holds NaN or Infinity, which JSON cannot carry\Z"):
            write(entries)
    assert messages.to_payload(entries, True)


def test_bytes_that_are_no_text() -> None:
    entries = [raw("x", np.array([b"\xff"], object))]
    with pytest.raises(ValueError, match="output 'x' holds bytes that are not valid UTF-8, which JSON cannot carry"):
        messages.to_payload(entries)
    assert messages.to_payload(entries, ["x"])[-5:] == b"\1\0\0\0\xff"


@pytest.mark.parametrize(
    ("one", "error"),
    [
        (entry("x", "FP64", [2], [1]), r"output 'x': data does not fit shape \[2\]: 1 elements, expected 2"),
        (
            entry("x", "FP64", [2, 1], [[1, 2]]),
            r"output 'x': data does not fit shape \[2, 1\]: its lists have \[1, 2\]",
        ),
        (
            entry("x", "FP64", [2], [1, [2]]),
            "output 'x': data must hold numbers for FP64: lists must have the same length and depth",
        ),
        (entry("x", "FP64", [1], ["a"]), "output 'x': data must hold numbers for FP64: expected only numbers"),
        (entry("x", "INT64", [1], [True]), "output 'x': data must hold integers for INT64: expected only integers"),
        (entry("x", "INT8", [1], [300]), "output 'x': data holds a number outside the range of INT8"),
        (entry("x", "FP64", [1], b"[1e999]"), "output 'x': data must hold numbers for FP64: "),
        (entry("x", "FP64", [1], b"[NaN]"), "output 'x': data must hold numbers for FP64: "),
        (entry("x", "FP64", [1], b"[" * 3000 + b"]" * 3000), "output 'x': data must hold numbers for FP64: "),
    ],
)
@pytest.mark.parametrize("style", [None, True])
def test_what_clients_sent_wrong_is_not_given_back(one: v2.Entry, error: str, style: Any) -> None:
    with pytest.raises(ValueError, match=error):
        messages.to_payload([one], style)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\0\0", b"\2\0\0\0[]x", b"\2\0\0\0[", b"\2\0\0\0{}",
        b'\x30\0\0\0[{"name":"x","datatype":"FP64","shape":[1],"data":[1]}]',
    ],
)  # fmt: skip
def test_what_is_no_reply(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"\A"):
        messages.parse_reply(payload)


def test_a_model_may_give_nothing() -> None:
    assert messages.parse_reply(outputs.encode_whole({}, True)) == []
    assert messages.to_payload([]) == b"[]"
    assert messages.to_payload([], True) == outputs.encode_whole({}, True)


def test_remembered_texts_are_bounded() -> None:
    for count in range(3000):
        array = np.zeros((count, 0))
        assert messages.to_payload(messages.parse_reply(outputs.encode_whole({"y": array}, True))).startswith(
            b'[{"name":'
        )
    assert len(messages._outputs_cache) <= messages._MAX_CACHED
    assert len(messages._heads_cache) <= messages._MAX_CACHED


X, Y = raw("x", np.array([1])), raw("y", np.array([2.5], np.float32))


def test_names() -> None:
    assert messages.rename_tensor([X], "input") == [("input", *X[1:])]
    assert [one[0] for one in messages.prefix_names("n/a", [X, Y])] == ["n/a.x", "n/a.y"]
    assert messages.select_outputs([X, Y], ["y"]) == [Y]
    assert messages.select_outputs([X, Y], ["y", "x"]) == [Y, X]
    assert messages.select_outputs([X, Y], None) == [X, Y]
    with pytest.raises(ValueError, match=r"\Athere is no output 'z'; available: 'x', 'y'\Z"):
        messages.select_outputs([X, Y], ["x", "z"])


def test_an_error_in_place_of_an_output() -> None:
    assert json.loads(messages.to_payload([messages.error_entry("b", "node 'b': late \u00e9")])) == [
        {"name": "b.error", "datatype": "BYTES", "shape": [1], "data": ["node 'b': late \u00e9"]}
    ]


@given(answers(), st.sampled_from([v1.ROWS, v1.COLUMNS]))
def test_v1_of_one_output_is_that_of_a_model(given_: dict[str, tensors.Array], style: str) -> None:
    entries = messages.parse_reply(outputs.encode_whole(given_, True))
    if style == v1.ROWS and len({array.shape[0] for array in given_.values()}) > 1:
        writes: list[Any] = [outputs.encode_whole, lambda _, style: messages.render_v1([("n", entries)], style)]
        for write in writes:
            with pytest.raises(ValueError, match=r"\Aoutputs differ in rows: "):
                write(given_, style)
        return
    assert messages.render_v1([("n", entries)], style) == outputs.encode_whole(given_, style)


def test_v1_of_several_outputs() -> None:
    given_: list[tuple[str, list[v2.Entry] | str]] = [("b", [X]), ("c/d", [X, Y]), ("e", "node 'e': gone")]
    assert json.loads(messages.render_v1(given_, v1.ROWS)) == {
        "predictions": {"b": [1], "c/d": [{"x": 1, "y": 2.5}], "e": {"error": "node 'e': gone"}}
    }
    assert json.loads(messages.render_v1(given_, v1.COLUMNS)) == {
        "outputs": {"b": [1], "c/d": {"x": [1], "y": [2.5]}, "e": {"error": "node 'e': gone"}}
    }


def test_requests_in_v1() -> None:
    declared = [HelloTensor("x", "FP32", [-1, 2])]
    [(name, datatype, shape, encoding, data)], style = messages.parse_v1(b'{"instances": [[1, 2.5]]}', declared)
    assert (name, datatype, shape, encoding, style) == ("x", "FP32", [1, 2], framing.RAW, v1.ROWS)
    assert bytes(data) == np.array([1, 2.5], np.float32).tobytes()
    [one], style = messages.parse_v1(b'{"inputs": [3]}', [])
    assert (one[:4], style) == (("input", "INT64", [1], framing.RAW), v1.COLUMNS)


def test_text_in_v1_stays_text() -> None:
    """A model gets `str` of JSON, and `bytes` of bytes."""
    [one], _ = messages.parse_v1('{"instances": ["\u00e9", "b"]}'.encode(), [HelloTensor("x", "BYTES", [-1])])
    assert one[3] == framing.JSON
    assert messages.array_of(one).tolist() == ["\u00e9", "b"]
    [one], _ = messages.parse_v1(b'{"instances": [{"b64": "/w=="}, "b"]}', [HelloTensor("x", "BYTES", [-1])])
    assert one[3] == framing.RAW
    assert messages.array_of(one).tolist() == [b"\xff", b"b"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"instances": [[300, 1]]}', "input 'x': data holds a number outside the range of INT8"),
        (b'{"instances": [[1.5, 1]]}', "instances: input 'x': expected only integers"),
        (b"{", "the body is not JSON"),
    ],
)
def test_requests_in_v1_that_are_wrong(body: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        messages.parse_v1(body, [HelloTensor("x", "INT8", [-1, 2])])

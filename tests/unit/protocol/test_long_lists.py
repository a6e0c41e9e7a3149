"""Long lists that are decoded apart are read exactly as all others."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import json_size, long_lists, tensors, v1


class Declared(NamedTuple):
    name: str
    datatype: str
    shape: list[int]


NUMBERS = st.integers(-9, 9) | st.floats(-9, 9) | st.booleans()
LEAVES = NUMBERS | st.sampled_from(["a", ":[1,2]", '"', "\\", "[", "]}", "", "7310528190046"]) | st.none()
EVEN = st.sampled_from([st.integers(-9, 9), st.floats(-9, 9), st.booleans()]).flatmap(
    lambda leaf: st.integers(1, 3).flatmap(
        lambda width: st.lists(leaf, max_size=4) | st.lists(st.lists(leaf, min_size=width, max_size=width), max_size=4)
    )
)
ODD = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
BODIES = st.builds(
    lambda name, value, more: {name: value} | more,
    st.sampled_from(["instances", "inputs"]),
    EVEN | ODD | st.dictionaries(st.sampled_from("ab"), EVEN | ODD, max_size=2),
    st.sampled_from([{}, {}, {"signature_name": "serving_default"}, {"other": [1, 2]}]),
)
SIGNATURES = st.sampled_from([
    [], [Declared("a", "FP32", [-1])], [Declared("a", "FP64", [-1, 1])], [Declared("a", "INT8", [-1, 2])],
    [Declared("a", "BYTES", [-1])], [Declared("a", "FP64", [-1]), Declared("b", "FP64", [-1])],
])  # fmt: skip


def read(body: bytes, declared: list[Declared]) -> Any:
    """Inputs and style; None: refused."""
    try:
        inputs, style = v1.parse_request(body, declared)
        arrays = [
            each.elements if isinstance(each.elements, np.ndarray) and each.datatype != "BYTES"
            else tensors.from_elements(each.datatype, each.shape, list(each.elements))
            for each in inputs
        ]  # fmt: skip
    except ValueError:
        return None
    named = zip(inputs, arrays, strict=True)
    return [(each.name, each.datatype, each.shape, array.reshape(-1).tolist()) for each, array in named], style


@given(BODIES, SIGNATURES, st.sampled_from([(",", ":"), (", ", " : ")]))
def test_the_same_inputs_or_refused_as_well(body: Any, declared: list[Declared], separators: tuple[str, str]) -> None:
    text = json.dumps(body, separators=separators).encode()
    usual = read(text, declared)
    with (
        mock.patch.object(v1, "_LARGE", 1),
        mock.patch.object(v1, "_VERY_LARGE", 1),
        mock.patch.object(long_lists, "MIN_BYTES", 1),
        mock.patch.object(json_size, "LARGE", 1),
        mock.patch.object(tensors, "_MAX_WHOLE", 1),
        mock.patch.object(tensors, "_PIECE", 2),
    ):
        assert read(text, declared) == usual


NESTED = st.recursive(
    st.sampled_from(["1", "2.5", "", " ", "x"]), lambda inner: st.lists(inner, max_size=3), max_leaves=9
)


@given(NESTED, st.lists(st.integers(1, 3), max_size=3), st.text("[], 1", max_size=3), st.integers(0, 20))
def test_pieces_accept_what_the_whole_does(value: Any, shape: list[int], noise: str, at: int) -> None:
    def write(value: Any) -> str:
        return "[" + ",".join(map(write, value)) + "]" if isinstance(value, list) else value

    plain = write(value)
    text = (plain[:at] + noise + plain[at:]).encode()

    def decoded() -> Any:
        try:
            return tensors.decode_json("FP32", shape, text).tolist()
        except ValueError:
            return None

    usual = decoded()
    with (
        mock.patch.object(json_size, "LARGE", 0),
        mock.patch.object(tensors, "_MAX_WHOLE", 0),
        mock.patch.object(tensors, "_PIECE", 1),
    ):
        assert decoded() == usual


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.text("[], 12", max_size=2), st.integers(0, 60))
def test_a_fault_anywhere_is_found(shape: list[int], noise: str, at: int) -> None:
    text = json.dumps(np.ones(shape, int).tolist()).encode()
    broken = text[:at] + noise.encode() + text[at + len(noise) :]
    expected: Any = None
    with suppress(ValueError):
        expected = tensors.decode_json("INT64", shape, broken).tolist()
    with (
        mock.patch.object(json_size, "LARGE", 0),
        mock.patch.object(tensors, "_MAX_WHOLE", 0),
        mock.patch.object(tensors, "_PIECE", 1),
    ):
        try:
            found = tensors.decode_json("INT64", shape, broken).tolist()
        except ValueError:
            found = None
    assert found == expected


def test_a_list_within_a_string_stays_there() -> None:
    inner = ":[" + "1," * long_lists.MIN_BYTES + "1]"
    body = json.dumps({"inputs": {"a": [inner], "b": [1] * (1 << 19)}}).encode()
    [a, b], _ = v1.parse_request(body, [])
    assert (a.elements, len(b.elements)) == ([inner], 1 << 19)


def test_what_is_no_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown field 'other'|expected lists"):
        v1.parse_request(b'{"instances":[1],"other":[%b1]}' % (b"1," * (1 << 20)), [])

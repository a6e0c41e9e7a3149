"""Tensors: strict reading of JSON and raw bytes, and writing of JSON, the same with and without msgspec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import json_codec, tensors
from mizzen.protocol.plain_elements import Leaf

NUMBERS = [name for name, kind in tensors.DATATYPES.items() if kind.number]


@pytest.fixture(params=["msgspec", "json"])
def _codec(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "json":
            patch.setattr(tensors, "_read", tensors.read_plainly)
            patch.setattr(tensors, "write_list", json_codec.write_with_stdlib)
        yield


@pytest.mark.usefixtures("_codec")
class TestJson:
    @pytest.mark.parametrize(
        ("datatype", "shape", "text", "wanted"),
        [
            ("FP64", [1, 4], "[5.1, 3.5, 1.4, 0.2]", [[5.1, 3.5, 1.4, 0.2]]),
            ("FP64", [2, 2], "[[1,2],[3,4]]", [[1.0, 2.0], [3.0, 4.0]]),
            ("FP64", [2, 2], " [ [ 1 , 2 ] , [ 3 , 4 ] ] ", [[1.0, 2.0], [3.0, 4.0]]),
            ("FP64", [2, 2], "[1,2,3,4]", [[1.0, 2.0], [3.0, 4.0]]),
            ("FP32", [2], "[1,-0.5]", [1.0, -0.5]),
            ("INT8", [2], "[-128,127]", [-128, 127]),
            ("UINT64", [1], "[18446744073709551615]", [18446744073709551615]),
            ("BOOL", [2, 1], "[[true],[false]]", [[True], [False]]),
            ("BYTES", [2], '["a,[b","\\u00e9"]', ["a,[b", "é"]),
            ("FP64", [], "[2.5]", 2.5),
            ("FP64", [0, 4], "[]", []),
            ("FP64", [2, 0], "[[],[]]", [[], []]),
            ("FP64", [2, 0, 3], "[[],[]]", [[], []]),
            ("FP64", [2, 0], "[]", [[], []]),
        ],
    )
    def test_good_data(self, datatype: str, shape: list[int], text: str, wanted: Any) -> None:
        array = tensors.decode_json(datatype, shape, text.encode())
        assert array.tolist() == wanted
        assert array.dtype == tensors.DATATYPES[datatype].dtype
        assert list(array.shape) == shape

    @pytest.mark.parametrize(
        ("datatype", "shape", "text"),
        [
            ("FP64", [1, 4], "[1,2,3]"),
            ("FP64", [1, 4], "[1,2,3,4,5]"),
            ("FP64", [2, 2], "[[1,2],[3]]"),
            ("FP64", [2, 2], "[[1,2,3],[4]]"),
            ("FP64", [2, 2], "[[1,2],3]"),
            ("FP64", [2, 2], "[1,[2,3],4]"),
            ("FP64", [4], "[[1,2],[3,4]]"),
            ("FP64", [2, 2], "[[[1,2],[3,4]]]"),
            ("FP64", [1], "[null]"),
            ("FP64", [1], "[true]"),
            ("FP64", [1], '["1"]'),
            ("FP64", [1], "[NaN]"),
            ("FP64", [1], "[Infinity]"),
            ("FP64", [1], "[1e400]"),
            ("FP64", [1], "[" + "9" * 400 + "]"),
            ("FP64", [1], "[" + "9" * 5000 + "]"),
            ("FP32", [1], "[1e39]"),
            ("FP16", [1], "[1e6]"),
            ("INT64", [1], "[1.5]"),
            ("INT64", [1], "[1.0]"),
            ("INT64", [1], "[9223372036854775808]"),
            ("INT8", [1], "[128]"),
            ("UINT8", [1], "[-1]"),
            ("INT64", [1], "[false]"),
            ("BOOL", [1], "[1]"),
            ("BYTES", [1], "[1]"),
            ("BYTES", [1], "[null]"),
            ("BYTES", [1], '["\\ud800"]'),
            ("FP64", [1], "[1"),
            ("FP64", [1], "[1]]"),
            ("FP64", [1], "[1] [2]"),
            ("FP64", [1], "1"),
            ("FP64", [1], "{}"),
            ("FP64", [1], ""),
            ("FP64", [1], "[1," + "[" * 100_000),
            ("FP64", [-1], "[1]"),
            ("FP64", [1] * 40, "[1]"),
            ("FP128", [1], "[1]"),
        ],
    )
    def test_bad_data_is_a_value_error(self, datatype: str, shape: list[int], text: str) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            tensors.decode_json(datatype, shape, text.encode())

    def test_messages_say_what_was_expected(self) -> None:
        with pytest.raises(ValueError, match=r"does not fit shape \[1, 4\]: 3 elements, expected 4"):
            tensors.decode_json("FP64", [1, 4], b"[1,2,3]")
        with pytest.raises(ValueError, match="data must hold integers for INT64"):
            tensors.decode_json("INT64", [1], b"[1.5]")
        with pytest.raises(ValueError, match="outside the range of INT8"):
            tensors.decode_json("INT8", [1], b"[300]")
        with pytest.raises(ValueError, match="'FLOAT' is not a valid datatype; expected one of BOOL, BYTES, INT8"):
            tensors.decode_json("FLOAT", [1], b"[1]")

    @pytest.mark.parametrize(
        ("array", "wanted"),
        [
            (np.array([[1.5, 2]]), ("FP64", [1, 2], [1.5, 2.0])),
            (np.array([1, 2], np.int32), ("INT32", [2], [1, 2])),
            (np.array([1], ">i8"), ("INT64", [1], [1])),
            (np.array([1.5], np.longdouble), ("FP64", [1], [1.5])),
            (np.array([True]), ("BOOL", [1], [True])),
            (np.array(["a", "é"]), ("BYTES", [2], ["a", "é"])),
            (np.array([b"a"]), ("BYTES", [1], ["a"])),
            (np.array(["a", np.str_("b")], object), ("BYTES", [2], ["a", "b"])),
            (np.array([1, 2], object), ("INT64", [2], [1, 2])),
            (np.array([1, 2.5], object), ("FP64", [2], [1.0, 2.5])),
            (np.zeros((0, 3)), ("FP64", [0, 3], [])),
        ],
    )
    def test_arrays_are_written(self, array: tensors.Array, wanted: tuple[str, list[int], list[Any]]) -> None:
        datatype, shape, text = tensors.encode_json(array)
        assert (datatype, shape, json.loads(text)) == wanted

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_what_json_cannot_carry_is_named(self, value: float) -> None:
        for dtype in (np.float64, np.float32, object):
            with pytest.raises(ValueError, match="NaN or Infinity, which JSON cannot carry"):
                tensors.encode_json(np.array([1.0, value], dtype))

    @pytest.mark.parametrize(
        "array",
        [np.array([1j]), np.array([None]), np.array([{}, 1]), np.array(["2020-01-01"], "M8[D]"), np.array([b"\xff"])],
    )
    def test_arrays_without_a_datatype_are_refused(self, array: tensors.Array) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            tensors.encode_json(array)


@given(
    st.sampled_from(NUMBERS).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.lists(st.integers(0, 3), max_size=3).map(tuple),
            st.integers(0, 2**32),
        )
    )
)
def test_both_ways_and_all_forms_agree(case: tuple[str, tuple[int, ...], int]) -> None:
    name, shape, seed = case
    kind = tensors.DATATYPES[name]
    low = 0 if kind.dtype.kind == "u" else -100
    array = np.random.default_rng(seed).integers(low, 100, shape).astype(kind.dtype)
    datatype, written, text = tensors.encode_json(array)
    assert (datatype, tuple(written)) == (name, shape)
    nested = json.dumps(array.tolist()).encode()
    for got in (
        tensors.decode_json(name, shape, text),
        tensors.decode_json(name, shape, nested),
        tensors.decode_raw(name, shape, array.tobytes()),
    ):
        np.testing.assert_array_equal(got, array, strict=True)
        assert got.flags.writeable


@given(st.binary(max_size=40), st.sampled_from([float, int, bool, str]), st.integers(1, 3))
def test_the_plain_reader_accepts_nothing_that_msgspec_refuses(data: bytes, leaf: Leaf, depth: int) -> None:
    try:
        plain = tensors.read_plainly(data, leaf, depth)
    except ValueError:
        return
    assert tensors._read(data, leaf, depth) == plain


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_raw_bytes(elements: list[bytes]) -> None:
    data = b"".join(len(element).to_bytes(4, "little") + element for element in elements)
    assert tensors.decode_raw("BYTES", [len(elements)], data).tolist() == elements
    for bad in (data + b"\0", data[:-1]) if data else (b"\0",):
        with pytest.raises(ValueError, match=r"\w"):
            tensors.decode_raw("BYTES", [len(elements)], bad)


@pytest.mark.parametrize(
    ("datatype", "shape", "data"),
    [("FP64", [1], b"\0" * 7), ("FP64", [2], b"\0" * 8), ("BOOL", [1], b"\x02"), ("BYTES", [0], b"\0\0\0\0")],
)
def test_bad_raw_data_is_a_value_error(datatype: str, shape: list[int], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        tensors.decode_raw(datatype, shape, data)


@pytest.mark.parametrize(
    ("source", "target", "may"),
    [
        ("INT64", "FP64", True), ("FP32", "FP64", True), ("UINT8", "INT16", True), ("FP16", "FP32", True),
        ("FP64", "INT64", False), ("FP64", "FP32", False), ("INT64", "INT32", False), ("BOOL", "FP64", False),
        ("BYTES", "FP64", False), ("BOOL", "INT8", False),
    ],
)  # fmt: skip
def test_widening(source: str, target: str, may: bool) -> None:
    assert tensors.widens(tensors.DATATYPES[source], tensors.DATATYPES[target]) is may

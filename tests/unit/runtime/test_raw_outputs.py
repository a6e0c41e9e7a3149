"""Answers in bytes to many requests at once: each gets what it would get alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import tensors
from mizzen.runtime import outputs

NAMES = ("a", "b", "c")


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict[str, tensors.Array], list[int]]:
    rows = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6) | st.integers(1, 6).map(lambda count: [1] * count))
    given_: dict[str, tensors.Array] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        datatype = draw(st.sampled_from(["INT64", "FP32", "BOOL", "BYTES", "UINT8"]))
        shape = (sum(rows), *draw(st.sampled_from([(), (1,), (2, 2), (0,)])))
        count = int(np.prod(shape))
        if datatype == "BYTES":
            array = np.empty(count, object)
            array[:] = draw(st.lists(st.text(max_size=3), min_size=count, max_size=count))
            array = array.reshape(shape)
        else:
            array = np.arange(count).astype(tensors.DATATYPES[datatype].dtype).reshape(shape)
        turned = draw(st.booleans()) and array.ndim == 3
        given_[name] = array.transpose(0, 2, 1) if turned else array  # as others lay it out in memory
    return given_, rows


@given(answers(), st.sampled_from([True, (), ("a",), ("b", "c"), None, "columns"]))
def test_each_request_gets_what_it_would_get_alone(
    given_: tuple[dict[str, tensors.Array], list[int]], style: Any
) -> None:
    arrays, rows = given_
    ends = np.cumsum([0, *rows])
    alone = [
        outputs.encode_whole({name: array[at:end] for name, array in arrays.items()}, style)
        for at, end in pairwise(ends)
    ]
    assert outputs.encode_rows(arrays, rows, style) == alone


def test_bytes_that_are_no_text() -> None:
    array = np.array([b"\xff", b"\xfe\x00"], object)
    assert [payload[-5:] for payload in outputs.encode_rows({"a": array}, [1, 1], True)] == [
        b"\x01\0\0\0\xff",
        b"\0\0\0\xfe\x00",
    ]


def test_what_has_no_datatype_is_named() -> None:
    with pytest.raises(ValueError, match="output 'a' holds an array of complex128"):
        outputs.encode_rows({"a": np.array([1j, 2j])}, [1, 1], True)

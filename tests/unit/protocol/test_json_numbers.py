"""Long lists of numbers: read at once, and exactly as they are read one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol import json_numbers, tensors

COUNT = 3000


def _long(*first: str) -> bytes:
    return ("[" + ",".join([*first, *["1"] * (COUNT - len(first))]) + "]").encode()


@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70)), max_size=8))
def test_each_number_is_the_one_that_was_sent(some: list[float]) -> None:
    text = _long(*map(json.dumps, some))
    expected = np.array([*map(float, some), *[1.0] * (COUNT - len(some))])
    assert np.array_equal(tensors.decode_json("FP64", [COUNT], text), expected)
    found = json_numbers.parse_doubles(text, COUNT)
    assert found is None or np.array_equal(found, expected)


def test_it_is_used_and_the_array_may_be_written_to() -> None:
    found = json_numbers.parse_doubles(_long("0.1"), COUNT)
    assert found is not None
    found[0] = 2
    assert tensors.decode_json("FP64", [COUNT // 2, 2], _long()).shape == (COUNT // 2, 2)


@pytest.mark.parametrize(
    "word", ["NaN", "Infinity", "1e999", "true", "null", '"1"', "[1]", "[1,1]", "{}", "01", "1 1", ""]
)
def test_what_is_no_number_is_refused_with_the_usual_words(word: str) -> None:
    assert json_numbers.parse_doubles(_long(word), COUNT) is None
    with pytest.raises(ValueError, match="data must"):
        tensors.decode_json("FP64", [COUNT], _long(word))


@pytest.mark.parametrize("text", [_long()[:-1], _long() + b"]", _long()[:-1] + b",]", b" " * 5000, b"[" * 5000])
def test_what_is_no_list_is_refused(text: bytes) -> None:
    assert json_numbers.parse_doubles(text, COUNT) is None
    with pytest.raises(ValueError, match="data"):
        tensors.decode_json("FP64", [COUNT], text)


def test_another_count_is_told() -> None:
    assert json_numbers.parse_doubles(_long(), COUNT + 1) is None
    with pytest.raises(ValueError, match="3000 elements, expected 3001"):
        tensors.decode_json("FP64", [COUNT + 1], _long())

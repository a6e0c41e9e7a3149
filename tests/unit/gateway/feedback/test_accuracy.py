"""How right an answer was."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.feedback import record_keeper
from mizzen.gateway.feedback.accuracy import compute_accuracy
from mizzen.runtime import outputs


def kept_json(**values: Any) -> bytes:
    return record_keeper.JSON + outputs.encode_whole({name: np.asarray(value) for name, value in values.items()})


def kept_raw(**values: Any) -> bytes:
    return record_keeper.RAW + outputs.encode_whole(
        {name: np.asarray(value) for name, value in values.items()}, style=True
    )


def kept_v1(style: str, **values: Any) -> bytes:
    return record_keeper.V1 + outputs.encode_whole({name: np.asarray(value) for name, value in values.items()}, style)


KEPT = [kept_json, kept_raw]


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize(
    ("values", "truth", "right"),
    [
        ([3], 3, 1.0),
        ([3], [3], 1.0),
        ([3], 3.0, 1.0),
        ([3], [[3]], 1.0),
        ([3], 2, 0.0),
        ([3], 3.5, 0.0),
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([1, 2, 3], [1, 2, 4], 0.0),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]], 1.0),
        ([[1, 2], [3, 4]], [1, 2, 3, 4], 1.0),
        ([[1], [2]], [1, 2], 1.0),
        ([True], True, 1.0),
        ([True, False], [True, True], 0.0),
        (["cat"], "cat", 1.0),
        (["zoë", "b"], ["zoë", "c"], 0.0),
        ([0.75], 1.0, 0.75),
        ([0.75], 1, 0.75),
        ([0.5, 1.0], [1.0, 1.0], 0.75),
        ([0.5, 9.0], [0.5, 0.0], 0.0),
        ([[0.0, 1.0]], [[0.0, 1.0]], 1.0),
    ],
)
def test_an_answer_is_compared_with_the_truth(kept: Any, values: Any, truth: Any, right: float) -> None:
    assert compute_accuracy(kept(predict=values), truth) == pytest.approx(right, abs=1e-6)
    assert compute_accuracy(kept(predict=values, more=["x"]), truth) == pytest.approx(right, abs=1e-6), (
        "the first is meant"
    )
    assert compute_accuracy(kept(more=["x"], predict=values), {"predict": truth}) == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("kept", KEPT)
def test_of_several_outputs_all_that_are_named_count(kept: Any) -> None:
    answer = kept(label=[1], score=[0.5], name=["a"])
    assert compute_accuracy(answer, {"label": 1, "name": "a"}) == 1.0
    assert compute_accuracy(answer, {"label": 1, "name": "b"}) == 0.0
    assert compute_accuracy(answer, {"label": 1, "score": 0.75}) == 0.75
    assert compute_accuracy(answer, {"label": 2, "score": 0.75}) == 0.0


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize(
    ("values", "truth", "why"),
    [
        ([1, 2], [1], r"'predict': shape \[1\] does not fit \[2\]"),
        ([1, 2], 1, "does not fit"),
        ([[1, 2], [3, 4]], [[1, 2, 3, 4]], "does not fit"),
        ([1], [], "nothing to compare"),
        ([1], True, "expected numbers"),
        ([1], "1", "expected numbers"),
        ([1.5], "1", "expected numbers"),
        ([True], 1, "expected booleans"),
        (["1"], 1, "expected strings"),
        ([1, 2], [1, "a"], "only numbers, only booleans or only strings"),
        ([1, 2], [[1], 2], "same length and depth"),
        ([1], {"predikt": 1}, "'predikt' is not an output of the answer; did you mean 'predict'"),
        ([1], {"other": 1}, "there are predict"),
        ([1], {}, "at least one output"),
        ([1], {"predict": {"a": 1}}, "expected only numbers"),
        ([1], {"predict": None}, "expected only numbers"),
    ],
)
def test_what_cannot_be_compared_says_why(kept: Any, values: Any, truth: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compute_accuracy(kept(predict=values), truth)


def test_numbers_that_are_none_are_as_wrong_as_can_be() -> None:
    assert compute_accuracy(kept_raw(predict=[float("nan"), 1.0]), [0.0, 1.0]) == 0.0
    assert compute_accuracy(kept_raw(predict=[float("inf")]), [0.0]) == 0.0


def test_answers_of_v1() -> None:
    assert compute_accuracy(kept_v1("rows", predict=[1, 2]), [1, 2]) == 1.0
    assert compute_accuracy(kept_v1("columns", predict=[0.5]), [1.0]) == 0.5
    both = kept_v1("rows", label=[1, 2], score=[0.5, 0.5])
    assert compute_accuracy(both, {"label": [1, 2]}) == 1.0
    assert compute_accuracy(both, [1, 3]) == 0.0
    assert compute_accuracy(kept_v1("columns", label=[1, 2], score=[0.5, 0.5]), {"score": [1.0, 0.5]}) == 0.75


@pytest.mark.parametrize(
    "kept",
    [
        b"", b"j", b"j{", b"j[]", b"j[1]", b"r", b"r\0\0", b"r" + struct.pack("<I", 99), b"1", b"1[]", b"1{}", b"?[]",
        b'j[{"name":"x","datatype":"FP8","shape":[1],"data":[1]}]',
        b"r" + struct.pack("<I", 80) + json.dumps([{"name": "x", "datatype": "FP8", "shape": [1],
                                                   "parameters": {"binary_data_size": 8}}]).encode() + b"12345678",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_compared_with_nothing(kept: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compute_accuracy(kept, 1)


@given(st.binary(max_size=200), st.sampled_from([b"j", b"r", b"1"]))
def test_noise_is_no_answer(noise: bytes, form: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert 0.0 <= compute_accuracy(form + noise, [1]) <= 1.0


@given(
    st.lists(
        st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_it_is_always_a_reward(pairs: list[tuple[float, float]]) -> None:
    answer, truth = zip(*pairs, strict=True)
    for kept in KEPT:
        assert 0.0 <= compute_accuracy(kept(predict=list(answer)), list(truth)) <= 1.0
        assert compute_accuracy(kept(predict=list(answer)), list(answer)) == 1.0

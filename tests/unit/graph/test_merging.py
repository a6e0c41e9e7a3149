"""Means and votes are what numpy's float64 says, whatever the size; what cannot be merged is named."""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mizzen.graph import merging, messages
from mizzen.graph.merging import EnsembleMember, Mismatch
from mizzen.protocol import tensors, v2
from mizzen.protocol.frames import framing
from mizzen.runtime import outputs
from tests.support.golden import Golden

INTEGERS = ["INT8", "INT64", "UINT8", "UINT64"]
FLOATS = ["FP16", "FP32", "FP64"]


def member(key: str, weight: float = 1.0, **arrays: Any) -> EnsembleMember:
    given_ = {name: np.asarray(array) for name, array in arrays.items()}
    return EnsembleMember(key, weight, messages.parse_reply(outputs.encode_whole(given_, True)))


def as_json(one: EnsembleMember) -> EnsembleMember:
    """The same, as a client may have sent it."""
    texts = json.loads(messages.to_payload(list(one.entries)))
    return one._replace(
        entries=[
            (said["name"], said["datatype"], said["shape"], framing.JSON, memoryview(json.dumps(said["data"]).encode()))
            for said in texts
        ]
    )


def array(entry: v2.Entry) -> tensors.Array:
    assert entry[3] == framing.RAW
    return messages.array_of(entry)


@st.composite
def members(
    draw: st.DrawFn, datatypes: list[str], *, one_kind: bool = False, few: bool = False
) -> list[EnsembleMember]:
    """Of tensors on both sides of where numpy takes over."""
    shapes = [(1,), (1, 3), (), (0,), (4, 16), (5, 13), (130,)]
    shape = draw(st.sampled_from(shapes))
    kind = draw(st.sampled_from(datatypes))
    found = []
    for key in "abcde"[: draw(st.integers(1, 5))]:
        dtype = tensors.DATATYPES[kind if one_kind else draw(st.sampled_from(datatypes))].dtype
        elements: Any = npst.from_dtype(dtype)
        if few:  # so that some agree
            elements = st.sampled_from([0, 1, 2] + ([math.nan, -0.0] if dtype.kind == "f" else []))
        weight = draw(st.sampled_from([0.0, 1.0, 0.1, 0.2, 0.3, 7.5]) | st.floats(0, 1e6))
        found.append(member(key, weight, y=draw(npst.arrays(dtype, shape, elements=elements))))
    return found


def reference_mean(given_: list[EnsembleMember]) -> tensors.Array:
    arrays = [messages.array_of(one.entries[0]).astype(np.float64) for one in given_]
    weights = [one.weight for one in given_]
    total = 0.0
    for weight in weights:
        total += weight
    if not total:
        weights, total = [1.0] * len(weights), float(len(weights))
    if len(arrays) == 1:
        return arrays[0]
    with np.errstate(all="ignore"):
        result = weights[0] * arrays[0]
        for weight, one in zip(weights[1:], arrays[1:], strict=True):
            result = result + weight * one
        return np.asarray(result / total)


@given(members(INTEGERS + FLOATS), st.none() | st.floats(-10, 10))
def test_the_mean_is_that_of_numpy_to_the_last_bit(given_: list[EnsembleMember], threshold: float | None) -> None:
    [(name, datatype, shape, encoding, data)] = merged = merging.mean(given_, threshold)
    wanted = reference_mean(given_)
    assert (name, shape, encoding) == ("y", given_[0].entries[0][2], framing.RAW)
    if threshold is not None:
        assert datatype == "INT64"
        assert array(merged[0]).tolist() == (wanted >= threshold).astype(int).tolist()
        return
    single = all(one.entries[0][1] == "FP32" for one in given_)
    assert datatype == ("FP32" if single else "FP64")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(array(merged[0]), wanted.astype(np.float32) if single else wanted)
        if not np.isnan(wanted).any():  # zeros have their signs, too
            assert bytes(data) == (wanted.astype("<f4") if single else wanted).tobytes()


@given(st.permutations([("a", 0.5, 3.0), ("b", 1.5, -2.0), ("c", 2.0, 11.0), ("d", 0.0, 100.0)]))
def test_the_order_of_members_does_not_matter(order: list[tuple[str, float, float]]) -> None:
    [merged] = merging.mean([member(key, weight, y=[value]) for key, weight, value in order])
    assert array(merged).tolist() == pytest.approx([(0.5 * 3 - 1.5 * 2 + 2 * 11) / 4])


def test_a_mean_of_one_is_that_one() -> None:
    [merged] = merging.mean([member("a", 0.7, y=[0.1, 5.0])])
    assert array(merged).tolist() == [0.1, 5.0]
    [merged] = merging.mean([member("a", 0.7, y=[2**53 + 1])])
    assert (merged[1], array(merged).tolist()) == ("FP64", [2.0**53])


def test_without_weight_it_is_the_plain_mean() -> None:
    [merged] = merging.mean([member("a", 0.0, y=[1]), member("b", 0.0, y=[4])])
    assert array(merged).tolist() == [2.5]


def test_tensors_are_those_of_the_first_in_its_order() -> None:
    given_ = [member("a", y=[1.0], z=[2, 4]), member("b", z=[4, 4], y=[3.0])]
    merged = merging.mean(given_)
    assert [(one[0], one[2], array(one).tolist()) for one in merged] == [("y", [1], [2.0]), ("z", [2], [3.0, 4.0])]
    voted, _ = merging.vote([member("a", y=[1], z=[2, 4]), member("b", z=[2, 4], y=[1])])
    assert [(one[0], array(one).tolist()) for one in voted] == [("y", [1]), ("z", [2, 4])]


@pytest.mark.parametrize("count", [1, 3, 70])
def test_what_clients_sent_is_merged_with_what_models_gave(count: int) -> None:
    given_ = [member("a", y=[1] * count), as_json(member("b", y=[4] * count)), member("c", y=[4] * count)]
    assert array(merging.mean(given_)[0]).tolist() == [3.0] * count
    [voted], share = merging.vote(given_)
    assert array(voted).tolist() == [4] * count
    assert share == pytest.approx(2 / 3)
    assert merging.pairwise_disagreement(given_) == [1.0, 1.0, 0.0]


Y = np.array
MISFITS = [
    ([member("a", y=[1, 2]), member("b", y=[1, 2]), member("c", y=[1, 2, 3])],
     "'a' and 'c' differ in shape of tensor 'y': 'a' has [2], 'c' has [3]"),
    ([member("a", y=[1]), member("b", z=[1])], "'a' and 'b' differ in tensors: 'a' has 'y', 'b' has 'z'"),
    ([member("a", y=[1]), member("b", y=[1], z=[1])], "'a' and 'b' differ in tensors: 'a' has 'y', 'b' has 'y', 'z'"),
    ([member("a", y=[1], z=[1]), member("b", y=[1])], "'a' and 'b' differ in tensors: 'a' has 'y', 'z', 'b' has 'y'"),
    ([member("a"), member("b", y=[1])], "'a' and 'b' differ in tensors: 'a' has none, 'b' has 'y'"),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "error"), MISFITS)
def test_what_differs_is_named(given_: list[EnsembleMember], error: str) -> None:
    merges: list[Any] = [merging.mean, merging.vote]
    for merge in merges:
        with pytest.raises(Mismatch) as caught:
            merge(given_)
        assert str(caught.value) == error


def test_labels_have_no_mean() -> None:
    for labels, datatype in (([True], "BOOL"), (["cat"], "BYTES")):
        with pytest.raises(Mismatch) as caught:
            merging.mean([member("a", y=[1]), member("b/c", y=np.array(labels))])
        assert str(caught.value) == (
            f"tensor 'y' of 'b/c' is {datatype}, which has no mean; to merge labels, set method: vote"
        )


def test_votes_are_for_one_datatype(golden: Golden) -> None:
    with pytest.raises(Mismatch) as caught:
        merging.vote([member("a", y=[1]), member("b", y=[1.0])])
    golden.check(str(caught.value))


@pytest.mark.parametrize("count", [1, 100])
def test_data_that_does_not_fit_is_no_number(count: int) -> None:
    good = member("a", y=[1.0] * count)
    bad: v2.Entry = ("y", "FP64", [count], framing.RAW, memoryview(b"123"))
    with pytest.raises(ValueError, match=f"data must be {8 * count} bytes"):
        merging.mean([good, EnsembleMember("b", 1.0, [bad])])


def reference_vote(given_: list[EnsembleMember]) -> tuple[list[Any], float]:
    weights = [one.weight for one in given_]
    if not any(weights):
        weights = [1.0] * len(weights)
    columns = [messages.array_of(one.entries[0]).reshape(-1).tolist() for one in given_]
    chosen, shares = [], []
    for values in zip(*columns, strict=True):
        same = [[a == b or (a != a and b != b) for b in values] for a in values]
        votes = [math.fsum(w for w, yes in zip(weights, row, strict=True) if yes) for row in same]
        first = next(at for at, got in enumerate(votes) if got >= max(votes) - 1e-9 * sum(weights))
        chosen.append(values[first])
        shares.append(votes[first] / math.fsum(weights))
    return chosen, sum(shares) / len(shares) if shares else 1.0


@given(
    members(INTEGERS, one_kind=True, few=True)
    | members(FLOATS, one_kind=True, few=True)
    | members(["BOOL"], one_kind=True)
)
def test_votes_are_the_weighted_majority(given_: list[EnsembleMember]) -> None:
    [merged], share = merging.vote(given_)
    wanted, wanted_share = reference_vote(given_)
    assert merged[:3] == given_[0].entries[0][:3]
    np.testing.assert_array_equal(array(merged).reshape(-1), np.array(wanted, array(merged).dtype))
    assert share == pytest.approx(wanted_share)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    ("votes", "label", "share"),
    [
        ([(1, 1.0), (2, 1.0), (2, 1.0)], 2, 2 / 3),
        ([(1, 3.0), (2, 1.0), (2, 1.0)], 1, 3 / 5),
        ([(3, 1.0), (2, 1.0), (1, 1.0)], 3, 1 / 3),
        ([(3, 1.0), (2, 2.0), (1, 2.0)], 2, 2 / 5),
        ([(3, 0.3), (2, 0.1), (2, 0.2)], 3, 1 / 2),  # which floats would not add up to
        ([(2, 0.1), (3, 0.3), (2, 0.2)], 2, 1 / 2),
        ([(3, 0.0), (2, 0.0), (2, 0.0)], 2, 2 / 3),
        ([(7, 0.5)], 7, 1.0),
    ],
)
def test_ties_go_to_who_is_listed_first(votes: list[tuple[int, float]], label: int, share: float, count: int) -> None:
    [merged], got = merging.vote([member("m", weight, y=[value] * count) for value, weight in votes])
    assert array(merged).tolist() == [label] * count
    assert got == pytest.approx(share)


def test_votes_for_text() -> None:
    given_ = [member("a", y=np.array(["cat", "\u00e9"])), as_json(member("b", y=np.array(["dog", "\u00e9"])))]
    [merged], share = merging.vote([*given_, member("c", y=np.array(["dog", "x"]))])
    assert array(merged).tolist() == [b"dog", "\u00e9".encode()]
    assert share == pytest.approx(2 / 3)
    assert merging.vote([member("a"), member("b")]) == ([], 1.0)


def reference_apart(one: tensors.Array, other: tensors.Array) -> float:
    if not one.size:
        return 0.0
    if one.dtype.kind != "f" and other.dtype.kind != "f":
        return float((one != other).mean())
    with np.errstate(all="ignore"):
        apart = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).mean())
    return apart if apart < 1 else 1.0


@given(
    members(INTEGERS, one_kind=True, few=True) | members(["BOOL"], one_kind=True) | members(FLOATS) | members(["FP64"])
)
def test_disagreement_of_each_pair(given_: list[EnsembleMember]) -> None:
    found = merging.pairwise_disagreement(given_)
    wanted = []
    for one, other in combinations([one.entries[0] for one in given_], 2):
        same = one[1] == other[1] and one[4] == other[4]  # NaN too
        wanted.append(0.0 if same else reference_apart(messages.array_of(one), messages.array_of(other)))
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (member("a", y=[1]), member("b", y=[1]), 0.0),
        (member("a", y=[1]), member("b", y=[9]), 1.0),
        (member("a", y=[[1]]), member("b", y=[[9]]), 1.0),
        (member("a", y=[1, 2, 3, 4]), member("b", y=[1, 2, 9, 9]), 0.5),
        (member("a", y=[1]), member("b", y=Y([1], np.int8)), 0.0),
        (member("a", y=[1]), member("b", y=[1.25]), 0.25),
        (member("a", y=[0.5, 0.5]), member("b", y=[0.75, 0.25]), 0.25),
        (member("a", y=[0.5]), member("b", y=[70.0]), 1.0),
        (member("a", y=[1e308]), member("b", y=[-1e308]), 1.0),
        (member("a", y=[math.nan]), member("b", y=[1.0]), 1.0),
        (member("a", y=Y(["cat", "a"])), member("b", y=Y(["dog", "a"])), 0.5),
        (member("a", y=[1]), member("b", y=[1, 1]), 1.0),
        (member("a", y=[1]), member("b", y=[True]), 1.0),
        (member("a", y=[1], z=[1]), member("b", y=[1], z=[2]), 0.0),
        (member("a"), member("b", y=[1]), 1.0),
        (member("a"), member("b"), 0.0),
    ],
)
def test_disagreement(one: EnsembleMember, other: EnsembleMember, apart: float) -> None:
    assert merging.pairwise_disagreement([one, other]) == [apart]
    assert merging.pairwise_disagreement([other, one]) == [apart]

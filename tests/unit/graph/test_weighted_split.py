"""Splits: whom a number hits, and the number of a key."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.graph import weighted_split

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.integers(0, 100).map(float), st.floats(0, 1e300)), min_size=1).filter(any)
LAST = math.nextafter(1.0, 0.0)
"""The largest number that is drawn."""
GOLDEN = {"ann": 0.109744576345711, "bob": 0.4658762098619763, "": 0.7891985391709461}


def chi_square(counts: Counter[int], shares: list[float], draws: int) -> float:
    return sum((counts[i] - draws * share) ** 2 / (draws * share) for i, share in enumerate(shares) if share)


@given(WEIGHTS, st.floats(0, LAST))
def test_every_number_hits_a_branch_and_never_one_of_weight_0(weights: list[float], number: float) -> None:
    bounds = weighted_split.bounds_of(weights)
    assert len(bounds) == len(weights)
    for u in (number, 0.0, LAST, *(b for b in bounds if b < 1), *(math.nextafter(b, 0) for b in bounds if b)):
        assert weights[weighted_split.draw(bounds, u)] > 0


@given(st.integers(1, 1000))
def test_an_even_split_is_even_for_any_number_of_branches(branches: int) -> None:
    bounds = weighted_split.bounds_of([1.0] * branches)
    assert bounds == tuple(float(Fraction(place, branches)) for place in range(1, branches + 1))
    assert bounds == weighted_split.bounds_of([1 / branches] * branches)


@given(WEIGHTS)
def test_the_last_branch_above_0_takes_the_remainder(weights: list[float]) -> None:
    last = max(place for place, weight in enumerate(weights) if weight > 0)
    assert set(weighted_split.bounds_of(weights)[last:]) == {1.0}


@pytest.mark.parametrize(
    "weights",
    [[50, 50], [100, 0], [0, 100], [1, 99], [33, 33, 34], [0, 20, 0, 80, 0], [1, 1, 1], [1, 1, 1, 1, 1, 1, 1]],
)
def test_shares_are_those_of_the_weights(weights: list[float]) -> None:
    rng, draws = random.Random(11), 50_000
    bounds = weighted_split.bounds_of(weights)
    counts = Counter(weighted_split.draw(bounds, rng.random()) for _ in range(draws))
    assert {place for place, weight in enumerate(weights) if not weight}.isdisjoint(counts)
    assert chi_square(counts, [weight / sum(weights) for weight in weights], draws) < 22.5  # p = 0.001 for 6 degrees


@pytest.mark.parametrize("weights", [[], [0.0], [0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_weights_that_say_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        weighted_split.bounds_of(weights)


def test_the_number_of_a_key_is_the_same_for_ever() -> None:
    """Users would change sides with any other numbers."""
    assert weighted_split.share_of(b"ann", b"7f3a/router") == GOLDEN["ann"]
    assert weighted_split.share_of(b"bob", b"7f3a/router") == GOLDEN["bob"]
    assert weighted_split.share_of(b"", b"") == GOLDEN[""]


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_number_of_any_key_can_be_drawn(key: bytes, salt: bytes) -> None:
    assert 0 <= weighted_split.share_of(key, salt) < 1


def test_salt_and_key_are_told_apart() -> None:
    assert weighted_split.share_of(b"bc", b"a") != weighted_split.share_of(b"c", b"ab")


def test_keys_spread_evenly_and_differently_for_each_split() -> None:
    keys, tenths = [f"user-{number}".encode() for number in range(20_000)], [0.1] * 10
    counts = Counter(int(weighted_split.share_of(key, b"one") * 10) for key in keys)
    assert chi_square(counts, tenths, len(keys)) < 27.9  # p = 0.001 for 9 degrees
    both = Counter(
        int(weighted_split.share_of(key, b"two") * 10) for key in keys if weighted_split.share_of(key, b"one") < 0.1
    )
    assert chi_square(both, tenths, both.total()) < 27.9


@given(st.integers(0, 100), st.integers(0, 100), st.binary(max_size=20))
def test_who_is_on_the_growing_side_of_two_stays_there(before: int, more: int, key: bytes) -> None:
    after = min(100, before + more)
    number = weighted_split.share_of(key, b"rollout")
    if weighted_split.draw(weighted_split.bounds_of([100 - before, before]), number) == 1:
        assert weighted_split.draw(weighted_split.bounds_of([100 - after, after]), number) == 1

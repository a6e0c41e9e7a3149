"""Rates and quantiles from two moments: whoever comes, ends or begins anew, they do not mislead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.protocol.gateway_files.counts import BOUNDS, Counts
from mizzen.usage.inventory import Inventory, ServedVersion, WorkloadRole
from mizzen.usage.rates import (
    CountGrowth,
    Growth,
    ProcessUsage,
    Totals,
    UsageSample,
    compute_figures,
    compute_growth,
    compute_quantiles,
    compute_totals,
    sum_growths,
)
from tests.support.usage.counted import counts, requests, served

KEY = ("default", "iris", "1")
KNOWN = Inventory(
    {KEY: ServedVersion(("iris-1",), wanted=2, ready=1)},
    {"u": WorkloadRole(KEY, "iris-1")},
    {("default", "iris-1"): "iris"},
)


def moment(at: float, *gateways: Counts, processes: dict[str, ProcessUsage] | None = None) -> UsageSample:
    return UsageSample(at, {each.gateway: each for each in gateways}, processes or {}, KNOWN)


def rate(before: UsageSample, after: UsageSample) -> float:
    return compute_figures(compute_growth(before, after), after)[KEY].requests


def test_what_was_counted_between_two_moments_is_a_rate() -> None:
    before = moment(100.0, counts(requests({200: 10}), served(5, 10), at=100.0))
    new = counts(requests({200: 45, 500: 5, 404: 10}, flying=3), served(15, 50, waiting=2, shed=4), at=110.0)
    found = compute_figures(compute_growth(before, moment(110.0, new)), moment(110.0, new))[KEY]
    assert (found.requests, found.errors) == (5.0, 0.5)
    assert found.codes == {200: 3.5, 404: 1.0, 500: 0.5}
    assert (found.in_flight, found.waiting, found.batch, found.shed) == (3, 2, 4.0, 0.4)
    assert (found.ready, found.wanted) == (1, 2)
    assert BOUNDS[2] < (found.p50 or 0) < (found.p99 or 0) <= BOUNDS[3]


def test_versions_together_have_quantiles_of_their_own() -> None:
    other = ("default", "rose", "1")
    grown = Growth(10.0, {
        KEY: CountGrowth({200: 30.0}, [30.0] + [0.0] * len(BOUNDS)),
        other: CountGrowth({200: 5.0, 500: 5.0}, [0.0] * 5 + [10.0] + [0.0] * (len(BOUNDS) - 5)),
    })  # fmt: skip
    both = compute_totals(grown, [KEY, other, ("default", "idle", "1")])
    assert (both.requests, both.errors) == (4.0, 0.5)
    assert (both.p50 or 0) < BOUNDS[0] < BOUNDS[4] < (both.p95 or 0) <= BOUNDS[5]
    assert compute_totals(grown, []) == Totals(0.0, 0.0, None, None, None)


def test_calls_count_for_the_model_that_answers_them_whatever_they_name() -> None:
    new = counts(requests({200: 10}), requests({200: 30}, model="iris-1"), start=101.0, at=110.0)
    found = compute_figures(compute_growth(moment(100.0), moment(110.0, new)), moment(110.0, new))
    assert list(found) == [KEY]
    assert found[KEY].codes.keys() == {200}


def test_the_rates_of_all_gateways_are_added() -> None:
    first, second = (
        [counts(requests({200: n}), gateway=f"gateway-{g}", pid=g, at=at) for g in (0, 1)]
        for n, at in ((10, 100.0), (30, 110.0))
    )
    assert rate(moment(100.0, *first), moment(110.0, *second)) == pytest.approx(4.0)


def test_a_file_tells_of_the_time_it_was_written_at() -> None:
    """Gateways write by their own clock: what they counted in three seconds is no rate of two."""
    before = moment(100.0, counts(requests({200: 10}), at=99.1))
    after = moment(102.0, counts(requests({200: 39}), at=102.0))
    assert rate(before, after) == pytest.approx(10.0)


def test_a_gateway_that_was_silent_for_long_was_so_until_just_now() -> None:
    before = moment(100.0, counts(requests({200: 10}), at=40.0))
    after = moment(102.0, counts(requests({200: 40}), at=102.0))
    assert rate(before, after) == pytest.approx(10.0)


def test_a_gateway_that_ended_takes_nothing_back() -> None:
    both = [counts(requests({200: 100}), gateway=f"gateway-{g}", pid=g, at=100.0) for g in (0, 1)]
    left = counts(requests({200: 110}), pid=0, at=110.0)
    assert rate(moment(100.0, *both), moment(110.0, left)) == pytest.approx(1.0)


def test_a_new_life_counts_from_nothing() -> None:
    before = moment(100.0, counts(requests({200: 1000}), pid=1, at=100.0))
    after = moment(110.0, counts(requests({200: 50}), pid=2, start=105.0, at=110.0))
    assert rate(before, after) == pytest.approx(10.0)  # in the five seconds that it has lived


def test_of_a_life_that_began_unseen_nobody_knows_when_it_counted() -> None:
    """As all of them have for a plane that is started again."""
    after = moment(110.0, counts(requests({200: 50_000}), pid=2, start=10.0, at=110.0))
    assert rate(moment(100.0), after) == 0.0


def test_what_is_forgotten_and_served_again_is_counted_anew() -> None:
    before = moment(100.0, counts(requests({200: 1000}), served(500, 1000), at=100.0))
    after = moment(110.0, counts(requests({200: 20}), served(10, 20), at=110.0))
    found = compute_figures(compute_growth(before, after), after)[KEY]
    assert found.requests == pytest.approx(2.0)
    assert found.batch == 2.0


def test_cpu_and_memory_are_those_of_its_processes() -> None:
    def seen(**cpu: float) -> dict[str, ProcessUsage]:
        return {key.replace("_", "."): ProcessUsage(1, "s", spent, 100) for key, spent in cpu.items()}

    before, after = (
        moment(100.0, processes=seen(u_0=1.0, u_1=2.0)),
        moment(110.0, processes=seen(u_0=6.0, u_1=2.0, x=9.0)),
    )
    grown = compute_growth(before, after)
    found = compute_figures(grown, after)[KEY]
    assert (found.memory, found.cpu) == (200, 0.5)
    assert grown.cpu["x"] == 0.0  # seen for the first time: when it spent what it has is not known


def test_a_process_in_the_place_of_another_has_spent_all_of_its_own() -> None:
    before = moment(100.0, processes={"u.0": ProcessUsage(1, "a", 50.0, 1)})
    after = moment(110.0, processes={"u.0": ProcessUsage(2, "b", 1.0, 1)})
    assert compute_growth(before, after).cpu == {"u.0": 1.0}


def test_nothing_asked_is_no_latency() -> None:
    found = compute_figures(Growth(10.0), moment(100.0))[KEY]
    assert (found.requests, found.p50, found.p99, found.batch) == (0.0, None, None, None)


LIVES = st.lists(
    st.tuples(st.integers(1, 3), st.dictionaries(st.sampled_from([200, 404, 503]), st.integers(0, 50))), max_size=6
)


@given(first=LIVES, second=LIVES)
def test_no_rate_is_negative_whatever_comes_and_goes(
    first: list[tuple[int, dict[int, int]]], second: list[tuple[int, dict[int, int]]]
) -> None:
    moments = [
        moment(
            at, *(counts(requests(codes), gateway=f"gateway-{i}", pid=pid, at=at) for i, (pid, codes) in enumerate(of))
        )
        for at, of in ((100.0, first), (102.0, second))
    ]
    for found in compute_figures(sum_growths([compute_growth(*moments)]), moments[1]).values():
        assert found.requests >= 0
        assert found.errors >= 0
        assert all(count >= 0 for count in found.codes.values())


@given(st.lists(st.integers(0, 1000), min_size=len(BOUNDS) + 1, max_size=len(BOUNDS) + 1).filter(any))
def test_quantiles_grow_and_lie_in_their_bucket(buckets: list[int]) -> None:
    p50, p95, p99 = (
        found or 0.0 for found in compute_quantiles([float(count) for count in buckets], (0.5, 0.95, 0.99))
    )
    assert 0.0 <= p50 <= p95 <= p99 <= BOUNDS[-1]
    below = sum(count for bound, count in zip(BOUNDS, buckets, strict=False) if bound < p50)
    upto = sum(count for low, count in zip((0.0, *BOUNDS), buckets, strict=True) if low <= p50)
    assert below <= sum(buckets) / 2 + 1e-6
    assert upto >= sum(buckets) / 2 - 1e-6

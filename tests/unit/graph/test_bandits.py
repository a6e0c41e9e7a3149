"""Bandits: each chooses by its rule, learns from what served, and forgets only what an edit removed."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.graph import bandits
from mizzen.graph.bandits import Arm, BanditPolicy, BanditState, policy_of, wilson_interval
from mizzen.graph.table_types import Policy

EGREEDY, UCB1 = Policy(name="egreedy", epsilon=0.1), Policy(name="ucb1")
THOMPSON, EXP3 = Policy(name="thompson"), Policy(name="exp3")
ALL = pytest.mark.parametrize("policy", [EGREEDY, UCB1, THOMPSON, EXP3], ids=lambda policy: policy.name)
POLICIES = st.sampled_from([EGREEDY, UCB1, THOMPSON, EXP3, Policy(name="exp3", gamma=0.0, eta=5.0, share=0.0)])
ABC = ("a", "b", "c")


def known(best: str = "a", **arms: tuple[int, float] | tuple[int, float, float]) -> BanditState:
    return BanditState({name: Arm(*numbers) for name, numbers in arms.items()}, best)


def chosen(rule: BanditPolicy, state: BanditState, times: int = 20_000, seed: int = 3) -> Counter[str]:
    rng = random.Random(seed)
    return Counter(rule.select(state, rng)[0] for _ in range(times))


def assert_shares(counts: Counter[str], shares: Mapping[str, float]) -> None:
    draws = counts.total()
    assert {name for name, share in shares.items() if not share}.isdisjoint(counts)
    square = sum((counts[name] - draws * share) ** 2 / (draws * share) for name, share in shares.items() if share)
    assert square < 18.5, (counts, shares)  # p = 0.001 for 4 degrees


def reached(means: Mapping[str, float], reward: float = 1.0, policy: Policy = EGREEDY) -> set[str]:
    """What may be best after one more feedback for `a`, by the state in `means`; -1: there is no feedback."""
    rule, found = policy_of(policy), set()
    for seed in range(60):
        state = BanditState({name: Arm(4, 4 * mean) if mean >= 0 else Arm() for name, mean in means.items()}, "a")
        found.add(rule.observe(state, "a", 0.5, reward, random.Random(seed)).best)
    return found


@ALL
def test_one_arm_is_always_chosen(policy: Policy) -> None:
    rule, rng = policy_of(policy), random.Random(1)
    state = rule.init(["only"], rng)
    for reward in (0.0, 1.0, 0.3):
        assert rule.select(state, rng) == ("only", 1.0)
        rule.observe(state, "only", 1.0, reward, rng)
    assert rule.select(state, rng) == ("only", 1.0)


@ALL
def test_a_start_without_arms_or_with_one_twice_is_refused(policy: Policy) -> None:
    for arms in ((), ("a", "a")):
        with pytest.raises(ValueError, match="arms"):
            policy_of(policy).init(arms, random.Random(1))


@ALL
def test_the_first_best_is_any_arm_and_then_stays(policy: Policy) -> None:
    rule = policy_of(policy)
    starts = Counter(rule.init(ABC, random.Random(seed)).best for seed in range(3000))
    assert_shares(starts, dict.fromkeys(ABC, 1 / 3))
    state, rng = rule.init(ABC, random.Random(5)), random.Random(6)
    best = state.best
    for _ in range(100):
        rule.select(state, rng)
    assert state == known(best, a=(0, 0.0), b=(0, 0.0), c=(0, 0.0)), "choosing teaches nothing"


@ALL
def test_feedback_adds_one_to_the_count_and_the_fraction_to_the_sum(policy: Policy) -> None:
    rule, rng = policy_of(policy), random.Random(1)
    state = rule.init(ABC, rng)
    assert rule.observe(state, "b", 0.3, 0.9, rng) is state, "in place"
    rule.observe(state, "b", 0.3, 0.0, rng)
    assert [(arm.count, arm.total) for arm in state.arms.values()] == [(0, 0.0), (2, 0.9), (0, 0.0)]
    rule.observe(state, "gone", 0.3, 1.0, rng)
    assert sum(arm.count for arm in state.arms.values()) == 2
    for wrong in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="reward"):
            rule.observe(state, "b", 0.3, wrong, rng)


def test_egreedy_explores_the_arms_other_than_the_best() -> None:
    state = known("b", a=(3, 1.0), b=(3, 2.0), c=(0, 0.0), d=(1, 0.0))
    rule = policy_of(Policy(name="egreedy", epsilon=0.3))
    assert_shares(chosen(rule, state), {"a": 0.1, "b": 0.7, "c": 0.1, "d": 0.1})
    rng = random.Random(2)
    assert {rule.select(state, rng) for _ in range(200)} == {("a", 0.3 / 3), ("b", 0.7), ("c", 0.3 / 3), ("d", 0.3 / 3)}


@pytest.mark.parametrize(("epsilon", "shares"), [(0.0, {"a": 1.0, "b": 0.0}), (1.0, {"a": 0.0, "b": 1.0})])
def test_egreedy_at_its_ends(epsilon: float, shares: dict[str, float]) -> None:
    rule = policy_of(Policy(name="egreedy", epsilon=epsilon))
    assert_shares(chosen(rule, known("a", a=(3, 1.0), b=(3, 2.0)), 1000), shares)


def test_the_best_has_the_highest_mean_and_ties_are_broken_by_chance() -> None:
    assert reached({"a": 0.1, "b": 0.9, "c": 0.5}) == {"b"}
    assert reached({"a": 0.1, "b": 0.9, "c": 0.9}) == {"b", "c"}
    assert reached({"a": 0.9, "b": 0.8}) == {"a"}


def test_an_arm_without_feedback_is_best_only_if_every_mean_is_0() -> None:
    assert reached({"a": 0.0, "b": -1}, reward=0.0625) == {"a"}
    assert reached({"a": -1, "b": -1, "c": -1}, reward=0.5) == {"a"}
    assert reached({"a": 0.0, "b": -1, "c": 0.0}, reward=0.0) == {"a", "b", "c"}
    assert reached({"a": 0.0, "b": -1, "c": 0.1}, reward=0.0) == {"c"}


def test_ucb1_tries_each_arm_first_and_then_the_highest_bound() -> None:
    rule = policy_of(UCB1)
    assert_shares(chosen(rule, known(a=(9, 9.0), b=(0, 0.0), c=(0, 0.0))), {"a": 0, "b": 0.5, "c": 0.5})
    state = known(a=(10, 5.0), b=(100, 60.0), c=(1000, 610.0))
    bounds = {
        name: arm.total / arm.count + math.sqrt(2 * math.log(1110) / arm.count) for name, arm in state.arms.items()
    }
    assert max(bounds, key=bounds.__getitem__) == "a"
    assert rule.select(state, random.Random(1)) == ("a", 1.0)
    assert policy_of(Policy(name="ucb1", c=0.0)).select(state, random.Random(1)) == ("c", 1.0), "by the mean alone"
    tied = known(a=(10, 5.0), b=(10, 5.0), c=(10, 4.0))
    assert_shares(chosen(rule, tied), {"a": 0.5, "b": 0.5, "c": 0})
    assert rule.select(tied, random.Random(1))[1] == 0.5


def test_thompson_chooses_as_draws_of_beta_do() -> None:
    state, rng = known(a=(10, 5.5), b=(4, 2.25), c=(0, 0.0), d=(7, 0.0), e=(3, 3.0)), random.Random(8)
    draws = 20_000
    betas = {name: (1 + arm.total, 1 + arm.count - arm.total) for name, arm in state.arms.items()}
    expected = Counter(max(betas, key=lambda name: rng.betavariate(*betas[name])) for _ in range(draws))
    counts = chosen(policy_of(THOMPSON), state, draws)
    square = sum((counts[name] - expected[name]) ** 2 / (counts[name] + expected[name]) for name in state.arms)
    assert square < 18.5, (counts, expected)
    assert policy_of(THOMPSON).select(state, rng)[1] == 0.0


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [(1, 1), (1, 9), (9, 1), (1 + 1e-12, 4), (1 + 1e-8, 1 + 1e-8), (1.25, 1.5), (30.5, 90), (90, 30.5), (2, 5000)],
)
def test_draws_of_beta_are_those_of_the_standard_library(alpha: float, beta: float) -> None:
    """Two samples, by Kolmogorov and Smirnov."""
    rng, size = random.Random(21), 4000
    draw = bandits._beta_sampler(alpha, beta)
    ours, theirs = {draw(rng.random) for _ in range(size)}, {rng.betavariate(alpha, beta) for _ in range(size)}
    ahead, furthest = 0, 0
    for value in sorted(ours | theirs):
        ahead += (value in ours) - (value in theirs)
        furthest = max(furthest, abs(ahead))
    assert all(0 <= value <= 1 for value in ours)
    assert furthest / size < 1.95 * math.sqrt(2 / size)  # p = 0.001


def test_exp3_chooses_by_weight_and_a_share_for_all() -> None:
    state = known(a=(1, 1.0, 2.4), b=(1, 1.0, 0.5), c=(1, 1.0, 0.1))
    rule = policy_of(Policy(name="exp3", gamma=0.3))
    p = {name: 0.7 * arm.weight / 3 + 0.1 for name, arm in state.arms.items()}
    assert_shares(chosen(rule, state), p)
    rng = random.Random(4)
    told = dict(rule.select(state, rng) for _ in range(500))
    assert told == pytest.approx(p)
    assert sum(told.values()) == pytest.approx(1.0)


def test_exp3_lowers_the_weight_by_the_loss_over_the_probability() -> None:
    rule, rng = policy_of(Policy(name="exp3", eta=0.2, gamma=0.1, share=0.01)), random.Random(1)
    state = rule.observe(rule.init(ABC, rng), "b", 0.25, 0.6, rng)
    raw = {"a": 1.0, "b": math.exp(-0.2 * 0.4 / 0.25), "c": 1.0}
    mean = sum(raw.values()) / 3
    weights = {name: arm.weight for name, arm in state.arms.items()}
    assert weights == pytest.approx({name: 0.99 * weight / mean + 0.01 for name, weight in raw.items()})
    before = dict(weights)
    rule.observe(state, "b", 0.25, 1.0, rng)
    assert state.arms["b"].weight == pytest.approx(0.99 * before["b"] + 0.01), "no loss: only mixed with the mean"


@pytest.mark.parametrize("p", [1e-300, 1e-9, 0.05 / 3])
def test_exp3_takes_no_probability_below_the_least_it_chooses_with(p: float) -> None:
    rule, rng = policy_of(EXP3), random.Random(1)
    forged = rule.observe(rule.init(ABC, rng), "b", p, 0.0, rng)
    least = rule.observe(rule.init(ABC, rng), "b", 0.05 / 3, 0.0, rng)
    assert forged.arms == least.arms


@pytest.mark.parametrize("p", [0.0, -1.0, math.nan, math.inf, 7.0])
def test_exp3_takes_its_own_probability_where_none_was_told(p: float) -> None:
    rule, rng = policy_of(EXP3), random.Random(1)
    untold = rule.observe(rule.init(ABC, rng), "b", p, 0.0, rng)
    told = rule.observe(rule.init(ABC, rng), "b", 1 / 3, 0.0, rng)
    assert untold.arms["b"].weight == pytest.approx(told.arms["b"].weight)


@given(POLICIES, st.lists(st.tuples(st.sampled_from("abcd"), st.floats(allow_nan=True), st.floats(0, 1)), max_size=60))
def test_whatever_is_told_an_arm_can_be_chosen_and_weights_stay_sound(
    policy: Policy, told: Sequence[tuple[str, float, float]]
) -> None:
    rule, rng = policy_of(policy), random.Random(1)
    state = rule.init(("a", "b", "c", "d"), rng)
    for arm, p, reward in told:
        rule.observe(state, arm, p, reward, rng)
        chosen_arm, probability = rule.select(state, rng)
        assert chosen_arm in state.arms
        assert 0 <= probability <= 1
    weights = [arm.weight for arm in state.arms.values()]
    assert min(weights) > 0
    assert sum(weights) / 4 == pytest.approx(1.0)
    assert state.best in state.arms


@given(POLICIES, st.sets(st.sampled_from("abcdef"), min_size=1), st.integers(0, 2**32))
def test_an_edit_keeps_what_is_known_of_the_arms_that_stay(policy: Policy, arms: set[str], seed: int) -> None:
    rule, rng = policy_of(policy), random.Random(seed)
    state = known("b", a=(4, 1.0, 0.5), b=(9, 6.0, 1.5), c=(0, 0.0, 1.0))
    before = state.copy()
    edited = rule.adjust_arms(state, sorted(arms), rng)
    assert state == before, "what was known is not changed in place"
    assert edited.arms.keys() == arms
    for name, arm in edited.arms.items():
        old = before.arms.get(name, Arm())
        assert (arm.count, arm.total) == (old.count, old.total)
    assert edited.best == "b" if "b" in arms else edited.best in arms
    if "b" not in arms and "a" in arms:
        assert edited.best == "a", "the highest mean of those that are left"
    stay = arms & before.arms.keys()
    for one, other in pairwise(sorted(stay)):
        assert edited.arms[one].weight / edited.arms[other].weight == pytest.approx(
            before.arms[one].weight / before.arms[other].weight
        )
    average = sum(edited.arms[name].weight for name in stay) / len(stay) if stay else 1.0
    assert all(edited.arms[name].weight == pytest.approx(average) for name in arms - stay)
    rule.select(edited, rng)


@ALL
def test_an_edit_that_changes_no_arm_is_nothing(policy: Policy) -> None:
    rule, rng = policy_of(policy), random.Random(1)
    state = known("b", a=(4, 1.0), b=(9, 6.0))
    assert rule.adjust_arms(state, ("b", "a"), rng) is state
    lost = BanditState(state.arms, "")
    assert rule.adjust_arms(lost, ("a", "b"), rng).best == "b"


def test_one_state_serves_one_policy_after_the_other() -> None:
    """The policy of a node is edited, and what it worked out for its choices is of no use to the next one."""
    rng, state = random.Random(1), known("a", a=(9, 9.0), b=(9, 0.0))
    for policy in (EGREEDY, UCB1, THOMPSON, EXP3, EGREEDY):
        rule = policy_of(policy)
        assert {rule.select(state, rng)[0] for _ in range(50)} <= {"a", "b"}


class World:
    """Arms that pay 1 with a probability that a test may change."""

    def __init__(self, policy: Policy, means: Mapping[str, float], seed: int) -> None:
        self.means = dict(means)
        self._rule, self._rng, self._luck = policy_of(policy), random.Random(seed), random.Random(seed + 1000)
        self._state = self._rule.init(tuple(means), self._rng)

    def play(self, rounds: int) -> list[str]:
        arms = []
        for _ in range(rounds):
            arm, p = self._rule.select(self._state, self._rng)
            reward = float(self._luck.random() < self.means[arm])
            self._rule.observe(self._state, arm, p, reward, self._rng)
            arms.append(arm)
        return arms

    def regret(self, arms: Sequence[str]) -> float:
        return sum(max(self.means.values()) - self.means[arm] for arm in arms)


MEANS = {"a": 0.9, "b": 0.5, "c": 0.4, "d": 0.4, "e": 0.3}
UNIFORM = 0.9 - sum(MEANS.values()) / 5
"""Regret of each round by chance alone."""


@pytest.mark.parametrize(
    ("policy", "most"),
    [(EGREEDY, 0.2), (UCB1, 0.2), (THOMPSON, 0.05), (EXP3, 0.5)],
    ids=["egreedy", "ucb1", "thompson", "exp3"],
)
def test_regret_is_a_small_part_of_that_of_chance(policy: Policy, most: float) -> None:
    regrets = []
    for seed in range(3):
        world = World(policy, MEANS, seed)
        regrets.append(world.regret(world.play(3000)))
    assert sum(regrets) / 3 < most * UNIFORM * 3000


@pytest.mark.parametrize("policy", [UCB1, THOMPSON], ids=["ucb1", "thompson"])
def test_regret_grows_as_a_logarithm_does(policy: Policy) -> None:
    """Egreedy's and exp3's goes on growing by their share of exploration."""
    early = late = 0.0
    for seed in range(3):
        world = World(policy, MEANS, seed)
        early += world.regret(world.play(1000))
        late += world.regret(world.play(3000))
    assert late < early


def share_of_a(arms: Sequence[str], last: int = 200) -> float:
    return arms[-last:].count("a") / last


def there_and_back(policy: Policy, bad_rounds: int, back_rounds: int, seed: int) -> tuple[float, float, float]:
    """The share of the best of five: when it is good, when it has been bad for long, and when it is good again."""
    world = World(policy, MEANS, seed)
    good = share_of_a(world.play(300 if policy.name != "exp3" else 3000))
    world.means["a"] = 0.1
    bad = share_of_a(world.play(bad_rounds))
    world.means["a"] = 0.9
    return good, bad, share_of_a(world.play(back_rounds))


@pytest.mark.parametrize(
    ("policy", "bad_rounds", "back_rounds"), [(UCB1, 2000, 3000), (EXP3, 4000, 5000)], ids=["ucb1", "exp3"]
)
def test_traffic_leaves_an_arm_that_goes_bad_and_returns_when_it_recovers(
    policy: Policy, bad_rounds: int, back_rounds: int
) -> None:
    for seed in range(2):
        good, bad, again = there_and_back(policy, bad_rounds, back_rounds, seed)
        assert (good > 0.6, bad < 0.25, again > 0.6) == (True, True, True), (good, bad, again)


@pytest.mark.parametrize("policy", [EGREEDY, THOMPSON], ids=["egreedy", "thompson"])
def test_by_plain_means_traffic_leaves_when_they_cross_and_mostly_returns_when_they_cross_again(policy: Policy) -> None:
    """A mean forgets nothing: what an arm did in its bad time is made up for only by the little that it still gets."""
    runs = [there_and_back(policy, 700, 6000, seed) for seed in range(6)]
    assert all(good > 0.6 and bad < 0.5 for good, bad, _ in runs), runs
    assert sum(again > 0.6 for *_, again in runs) >= 4, runs


def test_exp3_returns_sooner_than_means_cross() -> None:
    """That is what it is for: after a long bad time, means would keep the arm away for as long again."""
    returned = {EXP3: 0, EGREEDY: 0}
    for policy in returned:
        for seed in range(2):
            world = World(policy, MEANS, seed)
            world.play(3000)
            world.means["a"] = 0.0
            world.play(6000)
            world.means["a"] = 0.9
            returned[policy] += share_of_a(world.play(4000)) > 0.6
    assert returned == {EXP3: 2, EGREEDY: 0}


def test_intervals_hold_the_mean_and_shrink() -> None:
    assert wilson_interval(0, 0.0) == (0.0, 1.0)
    low, high = wilson_interval(10, 5.0)
    assert (round(low, 4), round(high, 4)) == (0.2366, 0.7634)
    widths = [high - low for low, high in (wilson_interval(n, 0.3 * n) for n in (1, 10, 100, 1000))]
    assert widths == sorted(widths, reverse=True)


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_an_interval_is_within_0_and_1_and_around_the_mean(count: int, mean: float) -> None:
    low, high = wilson_interval(count, mean * count)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


@pytest.mark.parametrize("count", [10, 40, 100])
def test_intervals_hold_the_true_mean_in_95_of_100_cases(count: int) -> None:
    """Exactly, for rewards of 0 or 1. On the average over all means: for a single one it is some more or less."""

    def covered(mean: float) -> float:
        held = [
            wins
            for wins in range(count + 1)
            if wilson_interval(count, wins)[0] <= mean <= wilson_interval(count, wins)[1]
        ]
        return sum(math.comb(count, wins) * mean**wins * (1 - mean) ** (count - wins) for wins in held)

    means = [step / 100 for step in range(1, 100)]
    assert sum(map(covered, means)) / len(means) == pytest.approx(0.95, abs=0.01)

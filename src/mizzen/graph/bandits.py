"""Bandit policies: choose an arm for a request, and learn from rewards. Pure; randomness comes from the `rng` argument.

All policies implement `BanditPolicy`. `init` builds the initial state, `select` chooses an arm, and `observe`
learns from a reward. A BanditState holds plain numbers; `selection/state_db.py` stores them.

Rewards are numbers in [0, 1], stored as the count and sum of each arm. An arm without feedback has no mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any, Protocol

from mizzen.graph import weighted_split
from mizzen.graph.table_types import Policy

Choice = tuple[str, float]
"""An arm, and the probability of choosing it; 0 if unknown."""

_Draw = Callable[[Callable[[], float]], float]
"""Draws from a distribution, given a source of uniform numbers in [0, 1)."""

MIN_WEIGHT = 1e-9
"""Of an arm, relative to a mean of 1. An arm whose weight reached 0 could never recover."""
MIN_PROBABILITY = 1e-3
"""Lower bound for the probability that divides a loss."""
_Z = 1.959963984540054
"""95 % of a normal distribution lies within this many standard deviations."""


@dataclass(slots=True)
class Arm:
    """Statistics of one arm."""

    count: int = 0
    total: float = 0.0
    """Sum of the rewards."""
    weight: float = 1.0
    """Only exp3 changes it. The mean over all arms is 1."""

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def copy(self) -> Arm:
        return Arm(self.count, self.total, self.weight)


@dataclass(slots=True)
class BanditState:
    """Statistics of all arms of one node. Code that changes an arm directly must call `invalidate`."""

    arms: dict[str, Arm]
    best: str
    """The arm with the highest mean. Stored, because ties are broken at random, once for all readers. If it was removed
    from `arms`, `adjust_arms` picks another."""
    _prepared: tuple[BanditPolicy, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def prepare(self, policy: BanditPolicy, build: Callable[[BanditState], Any]) -> Any:
        """Return what `policy` derives from this state to choose, cached until the state changes."""
        cached = self._prepared
        if cached is None or cached[0] is not policy:
            self._prepared = cached = (policy, build(self))
        return cached[1]

    def invalidate(self) -> None:
        self._prepared = None

    def copy(self) -> BanditState:
        return BanditState({name: arm.copy() for name, arm in self.arms.items()}, self.best)


class BanditPolicy(Protocol):
    """A policy and its parameters. It holds no other state, so one instance serves all BanditStates."""

    def init(self, arms: Sequence[str], rng: Random) -> BanditState:
        """Return a state without feedback; the best arm is random. Raises ValueError for no arms or duplicate names."""

    def select(self, state: BanditState, rng: Random) -> Choice:
        """Choose an arm, without changing the state. A single arm is chosen with probability 1."""

    def observe(self, state: BanditState, arm: str, p: float, reward: float, rng: Random) -> BanditState:
        """Learn in place and return the same state. `p` is the probability that `select` returned with `arm`.

        A reward for an arm that no longer exists is ignored. Raises ValueError if the reward is not in [0, 1].
        """

    def adjust_arms(self, state: BanditState, arms: Sequence[str], rng: Random) -> BanditState:
        """Return a state for `arms`: keeps the statistics of arms that stay and drops the others. A new arm has no
        feedback and the average weight. Returns the same object if nothing changes."""


@lru_cache(maxsize=256)
def policy_of(policy: Policy) -> BanditPolicy:
    """Raises ValueError for an unknown policy name."""
    match policy.name:
        case "egreedy":
            return _Egreedy(policy.epsilon)
        case "ucb1":
            return _Ucb1(policy.c)
        case "thompson":
            return _Thompson()
        case "exp3":
            return _Exp3(policy.eta, policy.gamma, policy.share)
    raise ValueError(f"there is no policy {policy.name!r}")


def wilson_interval(count: int, total: float) -> tuple[float, float]:
    """95 % confidence interval of the mean reward (Wilson). It is wider than necessary for rewards between 0 and 1,
    because rewards of exactly 0 or 1 have the largest variance."""
    if count <= 0:
        return 0.0, 1.0
    mean = min(1.0, max(0.0, total / count))
    spread = _Z * _Z / count
    middle = (mean + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (mean * (1 - mean) + spread / 4)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


class _SingleArmPolicy:
    """Base of the policies that choose one arm per request."""

    __slots__ = ()

    def init(self, arms: Sequence[str], rng: Random) -> BanditState:
        if not arms or len(set(arms)) != len(arms):
            raise ValueError(f"arms must be a non-empty list of unique names, not {list(arms)}")
        return BanditState({name: Arm() for name in arms}, _pick_any(arms, rng))

    def observe(self, state: BanditState, arm: str, p: float, reward: float, rng: Random) -> BanditState:
        if not 0.0 <= reward <= 1.0:
            raise ValueError(f"a reward must be a number from 0 to 1, not {reward}")
        pulled = state.arms.get(arm)
        if pulled is None:
            return state
        pulled.count += 1
        pulled.total += reward
        self._learn(state, pulled, p, reward)
        state.best = _pick_best(state.arms, rng)
        state.invalidate()
        return state

    def adjust_arms(self, state: BanditState, arms: Sequence[str], rng: Random) -> BanditState:
        if state.arms.keys() == set(arms) and state.best in state.arms:
            return state
        kept = {name: state.arms[name].copy() for name in arms if name in state.arms}
        if not kept:
            return self.init(arms, rng)
        _normalize(kept.values())
        known = {name: kept.get(name) or Arm() for name in arms}
        return BanditState(known, state.best if state.best in known else _pick_best(known, rng))

    def _learn(self, state: BanditState, pulled: Arm, p: float, reward: float) -> None:
        """Hook to learn more than count and sum."""


class _Egreedy(_SingleArmPolicy):
    """Chooses the best arm, except for a share of epsilon spread evenly over the others."""

    __slots__ = ("_epsilon",)

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon

    def select(self, state: BanditState, rng: Random) -> Choice:
        best, others = state.prepare(self, self._prepare)
        if others and rng.random() < self._epsilon:
            return others[int(rng.random() * len(others))]  # type: ignore[no-any-return]
        return best  # type: ignore[no-any-return]

    def _prepare(self, state: BanditState) -> tuple[Choice, list[Choice]]:
        names = [name for name in state.arms if name != state.best]
        if not names:
            return (state.best, 1.0), []
        return (state.best, 1.0 - self._epsilon), [(name, self._epsilon / len(names)) for name in names]


class _Ucb1(_SingleArmPolicy):
    """Chooses arms without feedback first, then the arm with the highest upper confidence bound."""

    __slots__ = ("_c",)

    def __init__(self, c: float) -> None:
        self._c = c

    def select(self, state: BanditState, rng: Random) -> Choice:
        highest = state.prepare(self, self._prepare)
        # Only ties need randomness.
        return highest[0] if len(highest) == 1 else highest[int(rng.random() * len(highest))]  # type: ignore[no-any-return]

    def _prepare(self, state: BanditState) -> list[Choice]:
        untried = [name for name, arm in state.arms.items() if not arm.count]
        names = untried or _highest_of(self._upper_bounds(state))
        return [(name, 1.0 / len(names)) for name in names]

    def _upper_bounds(self, state: BanditState) -> dict[str, float]:
        wide = self._c * math.log(sum(arm.count for arm in state.arms.values()))
        return {name: arm.total / arm.count + math.sqrt(wide / arm.count) for name, arm in state.arms.items()}


class _Thompson(_SingleArmPolicy):
    """Draws from the posterior of each arm's mean; the highest draw wins."""

    __slots__ = ()

    def select(self, state: BanditState, rng: Random) -> Choice:
        arms: list[tuple[Choice, _Draw]] = state.prepare(self, self._prepare)
        chosen, random = arms[0][0], rng.random
        if len(arms) == 1:
            return chosen
        highest = -1.0
        for choice, draw in arms:
            value = draw(random)
            if value > highest:
                highest, chosen = value, choice
        return chosen

    def _prepare(self, state: BanditState) -> list[tuple[Choice, _Draw]]:
        p = 1.0 if len(state.arms) == 1 else 0.0
        return [
            ((name, p), _beta_sampler(1.0 + arm.total, 1.0 + max(0.0, arm.count - arm.total)))
            for name, arm in state.arms.items()
        ]


class _Exp3(_SingleArmPolicy):
    """Chooses by weights that losses lower, plus a share of gamma spread evenly. Adapts to rewards that change."""

    __slots__ = ("_eta", "_gamma", "_share")

    def __init__(self, eta: float, gamma: float, share: float) -> None:
        self._eta = eta
        self._gamma = gamma
        self._share = share

    def select(self, state: BanditState, rng: Random) -> Choice:
        choices, ends = state.prepare(self, self._prepare)
        return choices[weighted_split.draw(ends, rng.random())]  # type: ignore[no-any-return]

    def _prepare(self, state: BanditState) -> tuple[list[Choice], list[float]]:
        choices = [(name, self._probability(state, arm)) for name, arm in state.arms.items()]
        ends = [*accumulate(p for _, p in choices)]
        ends[-1] = 1.0  # absorbs rounding; no probability is 0
        return choices, ends

    def _probability(self, state: BanditState, arm: Arm) -> float:
        if len(state.arms) == 1:
            return 1.0
        whole = sum(one.weight for one in state.arms.values())
        return (1.0 - self._gamma) * arm.weight / whole + self._gamma / len(state.arms)

    def _learn(self, state: BanditState, pulled: Arm, p: float, reward: float) -> None:
        if not 0.0 < p <= 1.0:  # unknown: another policy chose the arm
            p = self._probability(state, pulled)
        # A client may send p, or p may date from a time with more arms: one reward must not eliminate an arm.
        p = max(p, self._gamma / len(state.arms), MIN_PROBABILITY)
        pulled.weight *= math.exp(-self._eta * (1.0 - reward) / p)
        arms = state.arms.values()
        _normalize(arms)
        for arm in arms:
            arm.weight = (1.0 - self._share) * arm.weight + self._share


def _beta_sampler(alpha: float, beta: float) -> _Draw:
    """Return a sampler of a Beta distribution; both parameters are at least 1.

    Uses R. C. H. Cheng's algorithm BB (Generating Beta Variates with Nonintegral Shape Parameters, 1978), which costs a
    quarter of `Random.betavariate` and its two gamma draws. With a parameter of 1 it inverts the distribution instead.
    """
    a, b = min(alpha, beta), max(alpha, beta)
    swapped, whole, log, exp = alpha > beta, a + b, math.log, math.exp
    if a <= 1.0 + 1e-9:  # closer to 1, the divisor below would be a difference of nearly equal numbers

        def inverse(random: Callable[[], float]) -> float:
            value: float = (1.0 - random()) ** (1.0 / b)
            return value if swapped else 1.0 - value

        return inverse
    scale = math.sqrt((whole - 2.0) / (2.0 * a * b - whole))
    slope = a + 1.0 / scale

    def draw(random: Callable[[], float]) -> float:
        while True:
            u = random()
            if not 1e-7 < u < 0.9999999:  # the logarithm is undefined at both ends
                continue
            v = scale * log(u / (1.0 - u))
            w = a * exp(v)
            z = u * u * (1.0 - random())
            r = slope * v - 1.3862943611198906  # ln 4
            s = a + r - w
            if s + 2.6094379124341003 < 5.0 * z:  # 1 + ln 5: most draws skip the logarithms below
                t = log(z)
                if s < t and r + whole * log(whole / (b + w)) < t:
                    continue
            return (b if swapped else w) / (b + w)

    return draw


def _pick_best(arms: Mapping[str, Arm], rng: Random) -> str:
    """Return the arm with the highest mean; ties are random. If no mean exceeds 0, arms without feedback tie too."""
    return _pick_any(_highest_of({name: arm.mean or 0.0 for name, arm in arms.items()}), rng)


def _highest_of(values: Mapping[str, float]) -> list[str]:
    highest = max(values.values())
    return [name for name, value in values.items() if value == highest]


def _pick_any(names: Sequence[str], rng: Random) -> str:
    return names[int(rng.random() * len(names))]


def _normalize(arms: Iterable[Arm]) -> None:
    """Scale the weights to a mean of 1. No weight falls below MIN_WEIGHT."""
    some = list(arms)
    mean = sum(arm.weight for arm in some) / len(some)
    for arm in some:
        arm.weight = max(MIN_WEIGHT, arm.weight / mean)

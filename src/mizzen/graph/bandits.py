"""Bandits: which arm a request goes to, and what a reward teaches. Pure; chance comes from the generator passed in.

One interface, `Rule`, for all of them. `init` makes what is known at the start, `select` chooses, `combine` makes one
answer of those that the chosen gave, `observe` learns. What is known is a State: plain numbers, which somebody else
keeps (`selection/state_db.py`).

Rewards are numbers in [0, 1], and kept as count and sum of each arm. An arm without feedback has no mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, Protocol

from mizzen.graph import weighted_split
from mizzen.graph.table_types import Policy

Choice = tuple[str, float]
"""An arm, and how probable it was that it would be chosen; 0 where nobody can tell."""

_Draw = Callable[[Callable[[], float]], float]
"""A number from a distribution, by a source of numbers in [0, 1)."""

LEAST_WEIGHT = 1e-9
"""Of an arm, where the mean is 1: one that sank to 0 could never come back."""
LEAST_PROBABILITY = 1e-3
"""By which a loss is divided."""
_Z = 1.959963984540054
"""Of a normal distribution, 95 % lie within so many deviations."""


class Arm:
    """What is known of one arm."""

    __slots__ = ("count", "total", "weight")

    def __init__(self, count: int = 0, total: float = 0.0, weight: float = 1.0) -> None:
        self.count = count
        self.total = total
        """The sum of its rewards."""
        self.weight = weight
        """Changed by exp3 alone; the mean of all arms is 1."""

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def copy(self) -> Arm:
        return Arm(self.count, self.total, self.weight)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arm) and (self.count, self.total, self.weight) == (
            other.count, other.total, other.weight,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Arm({self.count}, {self.total}, {self.weight})"


class State:
    """What is known of all arms of one node. Whoever changes an arm by hand has to call `changed`."""

    __slots__ = ("_worked", "arms", "best")

    def __init__(self, arms: dict[str, Arm], best: str) -> None:
        self.arms = arms
        self.best = best
        """The arm with the highest mean. Kept, because ties are broken by chance, and once for all who look. Where it
        is none of `arms`, since it was removed, `adjusted` finds another."""
        self._worked: tuple[Rule, Any] | None = None

    def worked(self, rule: Rule, work: Callable[[State], Any]) -> Any:
        """What a rule makes of this state before it chooses: made once, as long as nothing is learnt."""
        found = self._worked
        if found is None or found[0] is not rule:
            self._worked = found = (rule, work(self))
        return found[1]

    def changed(self) -> None:
        self._worked = None

    def copy(self) -> State:
        return State({name: arm.copy() for name, arm in self.arms.items()}, self.best)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and (self.arms, self.best) == (other.arms, other.best)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State({self.arms}, {self.best!r})"


class Combined(NamedTuple):
    value: float
    confidence: float
    """The share of all weight that has answered."""


class Rule(Protocol):
    """One policy with its parameters. It holds nothing else: one Rule serves all states."""

    def init(self, arms: Sequence[str], rng: Random) -> State:
        """Nothing is known; the best is any. ValueError without arms, or when two have one name."""

    def select(self, state: State, rng: Random) -> Choice:
        """Changes nothing in the state. One arm is always chosen, with probability 1."""

    def combine(self, state: State, answers: Mapping[str, float]) -> Combined:
        """One answer of those that arrived, by arm. ValueError when they are not as many as `select` chose."""

    def observe(self, state: State, arm: str, p: float, reward: float, rng: Random) -> State:
        """Learns in place, and returns the state it was given. `p` is what `select` said when `arm` was chosen.

        An arm that is gone since teaches nothing. ValueError when the reward is not in [0, 1].
        """

    def adjusted(self, state: State, arms: Sequence[str], rng: Random) -> State:
        """For these arms: what is known of one that stays is kept, another is forgotten, a new one has no feedback and
        the average weight. A new State, unless there is nothing to do."""


@lru_cache(maxsize=256)
def policy_of(policy: Policy) -> Rule:
    """ValueError for a name that there is no rule for."""
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


def interval(count: int, total: float) -> tuple[float, float]:
    """Where the mean of rewards lies with 95 % confidence (Wilson's). Wider than it need be for rewards in between, of
    which none vary more than those that are 0 or 1."""
    if count <= 0:
        return 0.0, 1.0
    mean = min(1.0, max(0.0, total / count))
    spread = _Z * _Z / count
    middle = (mean + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (mean * (1 - mean) + spread / 4)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


class _OneArm:
    """What policies that choose one arm have in common."""

    __slots__ = ()

    def init(self, arms: Sequence[str], rng: Random) -> State:
        if not arms or len(set(arms)) != len(arms):
            raise ValueError(f"arms must be some, each with a name of its own, and not {list(arms)}")
        return State({name: Arm() for name in arms}, _any(arms, rng))

    def combine(self, state: State, answers: Mapping[str, float]) -> Combined:
        if len(answers) != 1:
            raise ValueError(f"one arm is asked, and {len(answers)} have answered")
        (value,) = answers.values()
        return Combined(value, 1.0)

    def observe(self, state: State, arm: str, p: float, reward: float, rng: Random) -> State:
        if not 0.0 <= reward <= 1.0:
            raise ValueError(f"a reward must be a number from 0 to 1, not {reward}")
        pulled = state.arms.get(arm)
        if pulled is None:
            return state
        pulled.count += 1
        pulled.total += reward
        self._learn(state, pulled, p, reward)
        state.best = _best(state.arms, rng)
        state.changed()
        return state

    def adjusted(self, state: State, arms: Sequence[str], rng: Random) -> State:
        if state.arms.keys() == set(arms) and state.best in state.arms:
            return state
        kept = {name: state.arms[name].copy() for name in arms if name in state.arms}
        if not kept:
            return self.init(arms, rng)
        _normalise(kept.values())
        known = {name: kept.get(name) or Arm() for name in arms}
        return State(known, state.best if state.best in known else _best(known, rng))

    def _learn(self, state: State, pulled: Arm, p: float, reward: float) -> None:
        """More than its count and sum."""


class _Egreedy(_OneArm):
    """The best, except for a share of epsilon, which goes to the others alike."""

    __slots__ = ("_epsilon",)

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon

    def select(self, state: State, rng: Random) -> Choice:
        best, others = state.worked(self, self._work)
        if others and rng.random() < self._epsilon:
            return others[int(rng.random() * len(others))]  # type: ignore[no-any-return]
        return best  # type: ignore[no-any-return]

    def _work(self, state: State) -> tuple[Choice, list[Choice]]:
        names = [name for name in state.arms if name != state.best]
        if not names:
            return (state.best, 1.0), []
        return (state.best, 1.0 - self._epsilon), [(name, self._epsilon / len(names)) for name in names]


class _Ucb1(_OneArm):
    """Those without feedback first, then the one whose mean may be highest."""

    __slots__ = ("_c",)

    def __init__(self, c: float) -> None:
        self._c = c

    def select(self, state: State, rng: Random) -> Choice:
        highest = state.worked(self, self._work)
        # Ties alone need chance.
        return highest[0] if len(highest) == 1 else highest[int(rng.random() * len(highest))]  # type: ignore[no-any-return]

    def _work(self, state: State) -> list[Choice]:
        untried = [name for name, arm in state.arms.items() if not arm.count]
        names = untried or _highest(self._bounds(state))
        return [(name, 1.0 / len(names)) for name in names]

    def _bounds(self, state: State) -> dict[str, float]:
        wide = self._c * math.log(sum(arm.count for arm in state.arms.values()))
        return {name: arm.total / arm.count + math.sqrt(wide / arm.count) for name, arm in state.arms.items()}


class _Thompson(_OneArm):
    """A draw for each arm from what its mean may be; the highest wins."""

    __slots__ = ()

    def select(self, state: State, rng: Random) -> Choice:
        arms: list[tuple[Choice, _Draw]] = state.worked(self, self._work)
        chosen, random = arms[0][0], rng.random
        if len(arms) == 1:
            return chosen
        highest = -1.0
        for choice, draw in arms:
            value = draw(random)
            if value > highest:
                highest, chosen = value, choice
        return chosen

    def _work(self, state: State) -> list[tuple[Choice, _Draw]]:
        p = 1.0 if len(state.arms) == 1 else 0.0
        return [
            ((name, p), _beta(1.0 + arm.total, 1.0 + max(0.0, arm.count - arm.total)))
            for name, arm in state.arms.items()
        ]


class _Exp3(_OneArm):
    """By weights that losses lower, and a share of gamma for all alike. Follows rewards that change."""

    __slots__ = ("_eta", "_gamma", "_share")

    def __init__(self, eta: float, gamma: float, share: float) -> None:
        self._eta = eta
        self._gamma = gamma
        self._share = share

    def select(self, state: State, rng: Random) -> Choice:
        choices, ends = state.worked(self, self._work)
        return choices[weighted_split.draw(ends, rng.random())]  # type: ignore[no-any-return]

    def _work(self, state: State) -> tuple[list[Choice], list[float]]:
        choices = [(name, self._probability(state, arm)) for name, arm in state.arms.items()]
        ends = [*accumulate(p for _, p in choices)]
        ends[-1] = 1.0  # what rounding left over; none of them is 0
        return choices, ends

    def _probability(self, state: State, arm: Arm) -> float:
        if len(state.arms) == 1:
            return 1.0
        whole = sum(one.weight for one in state.arms.values())
        return (1.0 - self._gamma) * arm.weight / whole + self._gamma / len(state.arms)

    def _learn(self, state: State, pulled: Arm, p: float, reward: float) -> None:
        if not 0.0 < p <= 1.0:  # not known: another policy chose it
            p = self._probability(state, pulled)
        # A p that is told by a client, or is of a time with more arms, must not throw an arm out at one blow.
        p = max(p, self._gamma / len(state.arms), LEAST_PROBABILITY)
        pulled.weight *= math.exp(-self._eta * (1.0 - reward) / p)
        arms = state.arms.values()
        _normalise(arms)
        for arm in arms:
            arm.weight = (1.0 - self._share) * arm.weight + self._share


def _beta(alpha: float, beta: float) -> _Draw:
    """Of a Beta distribution with both parameters at least 1.

    `Random.betavariate` makes two gammas of each draw, and costs four times this: R. C. H. Cheng's BB (Generating Beta
    Variates with Nonintegral Shape Parameters, 1978). With a parameter of 1, it is the inverse of the distribution.
    """
    a, b = min(alpha, beta), max(alpha, beta)
    swapped, whole, log, exp = alpha > beta, a + b, math.log, math.exp
    if a <= 1.0 + 1e-9:  # nearer to 1, what is divided by below is the difference of numbers that are nearly equal

        def inverse(random: Callable[[], float]) -> float:
            value: float = (1.0 - random()) ** (1.0 / b)
            return value if swapped else 1.0 - value

        return inverse
    scale = math.sqrt((whole - 2.0) / (2.0 * a * b - whole))
    slope = a + 1.0 / scale

    def draw(random: Callable[[], float]) -> float:
        while True:
            u = random()
            if not 1e-7 < u < 0.9999999:  # neither end has a logarithm
                continue
            v = scale * log(u / (1.0 - u))
            w = a * exp(v)
            z = u * u * (1.0 - random())
            r = slope * v - 1.3862943611198906  # ln 4
            s = a + r - w
            if s + 2.6094379124341003 < 5.0 * z:  # 1 + ln 5: spares most draws the logarithms below
                t = log(z)
                if s < t and r + whole * log(whole / (b + w)) < t:
                    continue
            return (b if swapped else w) / (b + w)

    return draw


def _best(arms: Mapping[str, Arm], rng: Random) -> str:
    """The highest mean, ties by chance. Those without feedback are among the ties when no mean is above 0."""
    return _any(_highest({name: arm.mean or 0.0 for name, arm in arms.items()}), rng)


def _highest(values: Mapping[str, float]) -> list[str]:
    highest = max(values.values())
    return [name for name, value in values.items() if value == highest]


def _any(names: Sequence[str], rng: Random) -> str:
    return names[int(rng.random() * len(names))]


def _normalise(arms: Iterable[Arm]) -> None:
    """Their mean becomes 1, and none is lost."""
    some = list(arms)
    mean = sum(arm.weight for arm in some) / len(some)
    for arm in some:
        arm.weight = max(LEAST_WEIGHT, arm.weight / mean)

"""Routes of a graph: which children of a node receive a message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, FiniteFloat

from mizzen.errors import Fault
from mizzen.kinds.graph.cascades import Cascade
from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.one_of import at_most_one, exactly_one, present_fields
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Planned, Present
from mizzen.kinds.schema.size_limits import MaxItems

WHOLE = 100
ROUTES = ("split", "mab", "implementation", "cascade")
POLICIES = ("egreedy", "ucb1", "thompson", "exp3", "exp4")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_KEY = re.compile(rf"user|header:{HEADER.pattern}")


class Split(Part):
    """One child for each request, chosen at random by weight."""

    traffic: Annotated[dict[str, int] | None, MaxItems(1000)] = Field(
        None,
        description="The percentage of each child: whole numbers that sum to 100; others get 0. Default: even.",
    )
    key: str | None = Field(
        None, description="`user` or `header:<name>`: equal values always get the same child. Default: random."
    )
    shadow: Annotated[tuple[str, ...], MaxItems(1000)] = Field(
        (), description="Children that receive a copy of each request; their responses are measured and dropped."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        traffic = self.traffic or {}
        for child, share in traffic.items():
            if share < 0:
                yield Fault(f"{at}.traffic.{child}", f"must be at least 0, not {share}")
        if self.traffic is not None and sum(traffic.values()) != WHOLE and context.is_complete(f"{at}.traffic"):
            yield Fault(f"{at}.traffic", f"must sum to {WHOLE}, not {sum(traffic.values())}")
        if self.key is not None and not _KEY.fullmatch(self.key):
            yield Fault(f"{at}.key", f"{self.key[:100]!r} is not a valid key; expected user or header:<name>")
        yield from uniqueness.word_faults(self.shadow, f"{at}.shadow")
        for index, name in enumerate(self.shadow):
            if name in traffic:
                yield Fault(f"{at}.shadow[{index}]", f"'{name}' also has traffic; a shadow has no share of the traffic")


class Ucb1(Part):
    """UCB1: the arm with the highest mean plus a confidence bound, which shrinks with use."""

    c: FiniteFloat = Field(2, gt=0, description="How much to explore: mean + sqrt(c * ln N / n).")


class Thompson(Part):
    """Thompson sampling: one draw from the posterior of each arm; the highest wins."""


class Exp3(Part):
    """Exp3: exponential weights that follow the losses of each arm, with some exploration."""

    eta: FiniteFloat = Field(0.03, gt=0, description="The learning rate.")
    gamma: FiniteFloat = Field(0.05, ge=0, le=1, description="The share of requests that explore all arms equally.")
    share: FiniteFloat = Field(0.001, ge=0, le=1, description="How far each weight moves toward the mean.")


class Exp4(Part):
    """Exp4: all arms run, and one ensemble combines them by weights that follow their losses."""

    eta: FiniteFloat = Field(0.1, gt=0, description="The learning rate.")
    share: FiniteFloat = Field(0.01, ge=0, le=1, description="How far each weight moves toward the mean.")
    threshold: FiniteFloat | None = Field(
        None, description="Same as `threshold` of the ensemble that combines the arms; set one of the two."
    )


class Bandit(Part):
    """A multi-armed bandit: one child for each request, learned from rewards. Exactly one policy."""

    egreedy: FiniteFloat | None = Field(
        None, ge=0, le=1, description="Epsilon-greedy: the share of requests that go to another arm than the best one."
    )
    ucb1: Annotated[Ucb1 | None, Present] = Field(None, description="Upper confidence bound.")
    thompson: Annotated[Thompson | None, Present] = Field(None, description="Thompson sampling.")
    exp3: Annotated[Exp3 | None, Present] = Field(None, description="Exponential weights, one arm a request.")
    exp4: Annotated[Exp4 | None, Present, Planned()] = Field(
        None, description="Exponential weights over all arms at once."
    )
    per_user: bool = Field(False, description="Keep a state for each user, in addition to the shared one.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, POLICIES, at, context)

    @property
    def policy(self) -> str:
        """The name of the policy that is given."""
        return present_fields(self, POLICIES)[0]


class NodeRoute(Part):
    """Which children receive a node's output: at most one field. Without any, all do."""

    split: Annotated[Split | None, Present] = Field(
        None, description="One child, by weight; an empty `split:` is an even split."
    )
    mab: Annotated[Bandit | None, Present] = Field(None, description="One child, by a multi-armed bandit.")
    implementation: Implementation | None = Field(
        None, description="The children that the response of this call names."
    )
    cascade: Annotated[Cascade | None, Present, Planned()] = Field(
        None, description="The edge model, and the cloud model for hard examples."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.empty and context.was_read(at, *ROUTES):
            yield Warn(at, "empty, so every child receives the output; for an even split write 'split: {}'")
        yield from at_most_one(self, ROUTES, at)

    @property
    def empty(self) -> bool:
        return not present_fields(self, ROUTES)

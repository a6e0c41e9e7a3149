"""Routes of a graph's nodes: which of its children a message goes to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, FiniteFloat

from mizzen.errors import Fault
from mizzen.kinds.graph.cascades import Cascade
from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.parts.one_of import at_most_one, exactly_one, given
from mizzen.kinds.parts.typed_properties import repeated
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present
from mizzen.kinds.schema.size_limits import Most

WHOLE = 100
ROUTES = ("split", "mab", "implementation", "cascade")
POLICIES = ("egreedy", "ucb1", "thompson", "exp3", "exp4")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_KEY = re.compile(rf"user|header:{HEADER.pattern}")


class Split(Part):
    """One child for each request, drawn by weight."""

    traffic: Annotated[dict[str, int] | None, Most(1000)] = Field(
        None, description="Per cent by child, whole numbers that sum to 100; a child not named gets 0. Even if absent."
    )
    key: str | None = Field(
        None, description="`user` or `header:<name>`: equal values always take the same child. Random unless said."
    )
    shadow: Annotated[tuple[str, ...], Most(1000)] = Field(
        (), description="Children that get a copy of each request; their answers are measured and dropped."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        traffic = self.traffic or {}
        for child, share in traffic.items():
            if share < 0:
                yield Fault(f"{at}.traffic.{child}", f"must be at least 0, not {share}")
        if self.traffic is not None and sum(traffic.values()) != WHOLE and context.whole(f"{at}.traffic"):
            yield Fault(f"{at}.traffic", f"must sum to {WHOLE}, not {sum(traffic.values())}")
        if self.key is not None and not _KEY.fullmatch(self.key):
            yield Fault(f"{at}.key", f"{self.key[:100]!r} is no key: write user or header:<name>")
        yield from repeated(((f"{at}.shadow[{index}]", name) for index, name in enumerate(self.shadow)), "shadow")
        for index, name in enumerate(self.shadow):
            if name in traffic:
                yield Fault(f"{at}.shadow[{index}]", f"'{name}' has traffic, too; a shadow is outside the {WHOLE}")


class Ucb1(Part):
    """The highest mean plus a bound that shrinks with use."""

    c: FiniteFloat = Field(2, gt=0, description="How much is explored: mean + sqrt(c * ln N / n).")


class Thompson(Part):
    """One draw for each arm from what is known of its rewards; the highest wins."""


class Exp3(Part):
    """Weights of arms that lose by what they served, with some exploration of all."""

    eta: FiniteFloat = Field(0.03, gt=0, description="How fast weights change.")
    gamma: FiniteFloat = Field(0.05, ge=0, le=1, description="Share of requests that go to any arm alike.")
    share: FiniteFloat = Field(0.001, ge=0, le=1, description="How far each weight is drawn to the mean.")


class Exp4(Part):
    """All arms run; one ensemble joins them by weights that follow their losses."""

    eta: FiniteFloat = Field(0.1, gt=0, description="How fast weights change.")
    share: FiniteFloat = Field(0.01, ge=0, le=1, description="How far each weight is drawn to the mean.")
    threshold: FiniteFloat | None = Field(
        None, description="As `threshold` of the ensemble that joins the arms, for those who write it here."
    )


class Bandit(Part):
    """A child for each request, learnt from rewards; exactly one policy."""

    egreedy: FiniteFloat | None = Field(
        None, ge=0, le=1, description="Epsilon: the share of requests that go to another arm than the best."
    )
    ucb1: Annotated[Ucb1 | None, Present] = Field(None, description="Upper confidence bound.")
    thompson: Annotated[Thompson | None, Present] = Field(None, description="Thompson sampling.")
    exp3: Annotated[Exp3 | None, Present] = Field(None, description="Exponential weights, one arm a request.")
    exp4: Annotated[Exp4 | None, Present] = Field(None, description="Exponential weights over all arms at once.")
    per_user: bool = Field(False, description="Keep a state for each user, beside the shared one.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from exactly_one(self, POLICIES, at, context)

    @property
    def policy(self) -> str:
        """The name of the one that is given."""
        return given(self, POLICIES)[0]


class Route(Part):
    """Where a node's output goes: at most one field. None: to all children."""

    split: Annotated[Split | None, Present] = Field(None, description="One child, by weight; `split:` is even.")
    mab: Annotated[Bandit | None, Present] = Field(None, description="One child, by a multi-armed bandit.")
    implementation: Implementation | None = Field(None, description="Those children that this call names.")
    cascade: Annotated[Cascade | None, Present] = Field(None, description="The edge, and the cloud for hard examples.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if self.empty and context.read(at, *ROUTES):
            yield Warn(at, "empty, so every child is taken; for an even split write 'split: {}'")
        yield from at_most_one(self, ROUTES, at)

    @property
    def empty(self) -> bool:
        return not given(self, ROUTES)

"""Nodes of a graph and their merges."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, FiniteFloat

from mizzen.errors import Fault
from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.graph.routes import Route
from mizzen.kinds.parts.one_of import at_most_one, given
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, name_fault
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.serving import CEILING_MS

MERGES = ("ensemble", "implementation")


class MergeImplementation(Implementation):
    """What is called to merge."""

    mode: Literal["once", "incremental"] = Field(
        "once",
        description="`once`: one call with all arrivals, when no more will come; `incremental`: one for each arrival.",
    )


class Ensemble(Part):
    """The mean of what arrived from the dependencies, or their vote."""

    weights: Annotated[dict[str, FiniteFloat] | None, Most(1000)] = Field(
        None, description="Weight by dependency, all of them named. Equal if absent."
    )
    method: Literal["mean", "vote"] = Field(
        "mean", description="`mean`: element by element; `vote`: the label with the most weight."
    )
    partial: bool | None = Field(
        None,
        description="At the deadline, merge what arrived. Unless said, only where the graph has a `defaultOutput`.",
    )
    threshold: FiniteFloat | None = Field(
        None, description="Answer 1 where the mean is at least this, otherwise 0. Unless said, the mean itself."
    )
    implementation: MergeImplementation | None = Field(
        None, description="Read as `merge.implementation`, with a warning: some files write it here."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        weights = self.weights or {}
        for dependency, weight in weights.items():
            if weight < 0:
                yield Fault(f"{at}.weights.{dependency}", f"must be at least 0, not {weight:g}")
        if weights and not any(weights.values()) and context.whole(f"{at}.weights"):
            yield Fault(f"{at}.weights", "must not all be 0")
        if self.threshold is not None and self.method == "vote":
            yield Fault(f"{at}.threshold", "is for method mean; a vote has none")
        if self.implementation is None:
            return
        yield Warn(at, "unknown field 'implementation'; read as merge.implementation")
        beside = sorted(self.model_fields_set - {"implementation"})
        if beside:
            yield Fault(at, f"'implementation' merges as it likes; {' and '.join(beside)} cannot stand beside it")


class Merge(Part):
    """How arrivals become one: at most one field. None: each passes as it arrives."""

    ensemble: Annotated[Ensemble | None, Present] = Field(None, description="Mean or vote; `ensemble:` is the mean.")
    implementation: MergeImplementation | None = Field(None, description="What this call makes of them.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not given(self, MERGES) and context.read(at, *MERGES):
            yield Warn(at, "empty, so traffic passes as it arrives; for the mean write 'ensemble: {}'")
        yield from at_most_one(self, MERGES, at)

    @property
    def call(self) -> tuple[str, MergeImplementation] | None:
        """What is called to merge, and the field that says so."""
        if self.implementation is not None:
            return "implementation", self.implementation
        if self.ensemble is not None and self.ensemble.implementation is not None:
            return "ensemble.implementation", self.ensemble.implementation
        return None

    @property
    def joins(self) -> Ensemble | None:
        """The ensemble, unless it only says what is called."""
        return self.ensemble if self.call is None else None


class GraphNode(Part):
    """One node. It merges what arrives, runs its implementation, and routes the output to its children."""

    name: str = Field(description="The node's name, a DNS label.")
    dependencies: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: () if value is None else value), Most(1000)
    ] = Field((), description="Nodes whose output arrives here. A node without any gets the request.")
    implementation: Implementation | None = Field(
        None,
        description="What the node runs. Unless said, the container of the node's name in `spec.custom`; without one a "
        "node with a route or a merge passes on what it has.",
    )
    route: Annotated[Route | None, Present] = Field(None, description="Which children are taken; all unless said.")
    merge: Annotated[Merge | None, Present] = Field(
        None, description="How arrivals become one. Unless said, the node runs once for each."
    )
    timeout_ms: int | None = Field(
        None, ge=1, le=CEILING_MS, description="Deadline of this node, within that of the request."
    )
    on_error: Literal["fail", "skip"] = Field(
        "fail", description="`fail`: the request fails and names the node; `skip`: this branch is dropped."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        fault = name_fault(self.name, f"{at}.name")
        if fault is not None:
            yield fault

    def calls(self) -> Iterator[tuple[str, Implementation]]:
        """Everything the node says it calls, with the field that says so."""
        if self.merge is not None and self.merge.call is not None:
            field, merging = self.merge.call
            yield f"merge.{field}", merging
        if self.implementation is not None:
            yield "implementation", self.implementation
        if self.route is not None and self.route.implementation is not None:
            yield "route.implementation", self.route.implementation

    def container(self, there: Container[str]) -> str | None:
        """The container that implements the node, if one does; `there` are the containers of `spec.custom`.

        One that the node's own merge or route calls is not its implementation as well: it would be called twice.
        """
        if self.implementation is not None:
            return self.implementation.container
        called = {implementation.container for _, implementation in self.calls()}
        return self.name if self.name in there and self.name not in called else None

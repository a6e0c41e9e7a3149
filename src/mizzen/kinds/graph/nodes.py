"""The nodes of a graph and their merges."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, FiniteFloat

from mizzen.errors import Fault
from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.graph.routes import NodeRoute
from mizzen.kinds.parts.one_of import at_most_one, present_fields
from mizzen.kinds.schema.findings import Context, Finding, Warn
from mizzen.kinds.schema.resource import Part, Present, name_faults
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import CEILING_MS

MERGES = ("ensemble", "implementation")


class MergeImplementation(Implementation):
    """The target that merges the arrivals."""

    mode: Literal["once", "incremental"] = Field(
        "once",
        description="`once`: one call with all arrivals, after the last one; `incremental`: one call for each arrival.",
    )


class Ensemble(Part):
    """The mean, or the majority vote, of the outputs of the dependencies."""

    weights: Annotated[dict[str, FiniteFloat] | None, MaxItems(1000)] = Field(
        None, description="The weight of each dependency; all must be named. Default: equal weights."
    )
    method: Literal["mean", "vote"] = Field(
        "mean", description="`mean`: the mean of each element; `vote`: the label with the highest total weight."
    )
    partial: bool | None = Field(
        None, description="At the deadline, merge what arrived. Default: true if the graph has a `defaultOutput`."
    )
    threshold: FiniteFloat | None = Field(
        None, description="Return 1 where the mean is at least this value, else 0. Default: return the mean itself."
    )
    implementation: MergeImplementation | None = Field(
        None, description="Read as `merge.implementation`, with a warning, since some manifests put it here."
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        weights = self.weights or {}
        for dependency, weight in weights.items():
            if weight < 0:
                yield Fault(f"{at}.weights.{dependency}", f"must be at least 0, not {weight:g}")
        if weights and not any(weights.values()) and context.is_complete(f"{at}.weights"):
            yield Fault(f"{at}.weights", "must not all be 0")
        if self.threshold is not None and self.method == "vote":
            yield Fault(f"{at}.threshold", "is only possible with method mean, not with vote")
        if self.implementation is None:
            return
        yield Warn(at, "unknown field 'implementation'; read as merge.implementation")
        others = sorted(self.model_fields_set - {"implementation"})
        if others:
            yield Fault(at, f"'implementation' decides how to merge, so {' and '.join(others)} cannot be set with it")


class Merge(Part):
    """How a node merges its arrivals: at most one field. Without any, each arrival passes through on its own."""

    ensemble: Annotated[Ensemble | None, Present] = Field(
        None, description="A mean or a vote; an empty `ensemble:` is the mean."
    )
    implementation: MergeImplementation | None = Field(None, description="The target of a call that merges them.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        if not present_fields(self, MERGES) and context.was_read(at, *MERGES):
            yield Warn(at, "empty, so each arrival passes through on its own; for the mean write 'ensemble: {}'")
        yield from at_most_one(self, MERGES, at)

    @property
    def call(self) -> tuple[str, MergeImplementation] | None:
        """The call that merges, and the field that declares it."""
        if self.implementation is not None:
            return "implementation", self.implementation
        if self.ensemble is not None and self.ensemble.implementation is not None:
            return "ensemble.implementation", self.ensemble.implementation
        return None

    @property
    def joins(self) -> Ensemble | None:
        """The ensemble, unless it only declares a call."""
        return self.ensemble if self.call is None else None


class GraphNode(Part):
    """One node. It merges its arrivals, runs its implementation, and routes the output to its children."""

    name: str = Field(description="The name of the node, a DNS label.")
    dependencies: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: () if value is None else value), MaxItems(1000)
    ] = Field(
        (), description="The nodes whose outputs this node receives. A node without dependencies receives the request."
    )
    implementation: Implementation | None = Field(
        None,
        description="What the node calls. Default: the container in `spec.custom` that has the node's name. Without "
        "one, a node with a route or a merge passes its input through.",
    )
    route: Annotated[NodeRoute | None, Present] = Field(
        None, description="Which children receive the output. Default: all."
    )
    merge: Annotated[Merge | None, Present] = Field(
        None, description="How the arrivals are merged. Default: the node runs once for each arrival."
    )
    timeout_ms: int | None = Field(
        None,
        ge=1,
        le=CEILING_MS,
        description="The deadline of this node in milliseconds, within the deadline of the request.",
    )
    on_error: Literal["fail", "skip"] = Field(
        "fail",
        description="`fail`: the request fails, with an error that names the node; `skip`: the branch is dropped.",
    )

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from name_faults(self.name, f"{at}.name")

    def calls(self) -> Iterator[tuple[str, Implementation]]:
        """Every call that the node declares, with the field that declares it."""
        if self.merge is not None and self.merge.call is not None:
            field, merging = self.merge.call
            yield f"merge.{field}", merging
        if self.implementation is not None:
            yield "implementation", self.implementation
        if self.route is not None and self.route.implementation is not None:
            yield "route.implementation", self.route.implementation

    def container(self, there: Container[str]) -> str | None:
        """The container that implements the node, if one does; `there` are the containers of `spec.custom`.

        A container that the node's own merge or route calls is not also its implementation: it would be called twice.
        """
        if self.implementation is not None:
            return self.implementation.container
        called = {implementation.container for _, implementation in self.calls()}
        return self.name if self.name in there and self.name not in called else None

"""MLGraph: a directed acyclic graph of callable nodes with routes and merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.graph import graph_rules, last_applied
from mizzen.kinds.graph.routes import HEADER
from mizzen.kinds.graph.structure import GraphStructure, as_list
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.tensors import TensorMetadata, TensorValue
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Present, Status
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import Feedback, default_output_faults

HOP_HEADERS = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "host", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of a single connection or body, which are set for each call and cannot be forwarded."""


def _dag(spec: Any) -> Any:
    return spec.get("dag") if isinstance(spec, Mapping) else None


class MLGraphSpec(GraphStructure):
    """The nodes, and how messages flow between them.

    A node without dependencies receives the request; the response is the output of the nodes without children.
    """

    default_output: Annotated[tuple[TensorValue, ...] | None, MaxItems(256)] = Field(
        None, description="The response if none arrives within the deadline, or no model is ready."
    )
    inputs: Annotated[tuple[TensorMetadata, ...], MaxItems(256)] = Field(
        (), description="The inputs that a request must have. Default: any."
    )
    headers: Annotated[tuple[str, ...], MaxItems(256)] = Field(
        (), description="Request headers that are forwarded with every call."
    )
    feedback: Annotated[Feedback | None, Present] = Field(
        None, description="Record requests for feedback. A graph with a bandit always does."
    )

    @classmethod
    def normalize(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """As `restore_written`, with `dag` as a list. Pure."""
        found = cls.restore_written(spec, annotations)
        return {**found, "dag": [found["dag"]]} if isinstance(_dag(found), Mapping) else found

    @classmethod
    def restore_written(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """The spec with the nulls of routes and merges that kubectl removed on the way. Pure.

        kubectl sends `route: {}` for `route: {split: }`, and keeps the original in an annotation. If the original,
        without its nulls, equals what arrived, it is what the author meant; otherwise the field was changed since and
        stays as it is. A plane stores the nulls, so that copies, old revisions and other managers mean the same without
        the annotation. A cluster does not, so specs read from one pass through here each time.
        """
        dag = _dag(spec)
        before = as_list(_dag(last_applied.spec(annotations)))
        by_name = {node["name"]: node for node in last_applied.objects(before) if isinstance(node["name"], str)}
        match dag:
            case Mapping():
                return {**spec, "dag": _restore_node(dag, by_name)}
            case list():
                return {**spec, "dag": [_restore_node(node, by_name) for node in dag]}
        return spec

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from graph_rules.findings_of(self, at, context)
        yield from uniqueness.name_faults(self.inputs, f"{at}.inputs", "tensor")
        if self.default_output is not None:
            yield from default_output_faults(self.default_output, (), f"{at}.defaultOutput")
        for index, header in enumerate(self.headers):
            if not HEADER.fullmatch(header):
                yield Fault(f"{at}.headers[{index}]", f"{header[:100]!r} is not a valid header name")
            elif header.lower() in HOP_HEADERS:
                yield Fault(f"{at}.headers[{index}]", f"'{header}' is set for each call and cannot be forwarded")


def _restore_node(node: Any, written: Mapping[str, Mapping[str, Any]]) -> Any:
    if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
        return node
    before = written.get(node["name"], {})
    fields = [field for field in ("route", "merge") if field in node and field in before]
    return {**node, **{field: last_applied.restore(node[field], before[field]) for field in fields}}


Phase = Literal["Pending", "Running", "Failed"]


def phase_of(*, answers: bool, ready: bool) -> Phase:
    """`answers`: a spec of the graph was accepted and serves requests; `ready`: all of its nodes can be called."""
    if ready:
        return "Running"
    return "Pending" if answers else "Failed"


class GraphNodeState(Part):
    """The current state of one node."""

    name: str = Field(description="The node's name.")
    ready: bool = Field(False, description="Whether the node can be called.")
    reason: str = Field("", description="Why it cannot be called, for people.")
    protocol: str = Field("", description="The protocol of the service that it calls, once detected.")


class GraphServing(Part):
    """The spec that serves requests. It stays while a later one is not ready or is invalid."""

    generation: int = Field(description="The generation of the graph that had this spec.")
    spec: dict[str, Any] = Field(description="The spec itself.")
    proven: bool = Field(default=False, description="Whether all its nodes have been ready at the same time once.")
    workloads: dict[str, str] = Field(
        default_factory=dict, description="The Workload of each container that its nodes call."
    )
    protocols: dict[str, str] = Field(
        default_factory=dict, description="The protocol of each service that its nodes call, by address."
    )


class MLGraphStatus(Status):
    """Conditions: `Accepted` (the spec can be compiled), `NodesReady` (each of its nodes can be called), `Ready` (the
    graph serves requests at its url, perhaps by an earlier spec)."""

    phase: Phase | None = Field(None, description="A summary in one word.")
    url: str | None = Field(None, description="Where to send inference requests.")
    nodes: tuple[GraphNodeState, ...] = Field((), description="The state of each node.")
    serving: GraphServing | None = Field(
        None, description="The spec that serves requests now. Absent: no spec has been accepted yet."
    )

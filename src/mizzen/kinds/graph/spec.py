"""MLGraph: a directed acyclic graph of callable nodes with routes and merges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from mizzen.errors import Fault
from mizzen.kinds.graph import graph_rules, last_applied
from mizzen.kinds.graph.implementations import CustomPod, InlinePod
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.routes import HEADER
from mizzen.kinds.graph.topological_order import in_order
from mizzen.kinds.parts import tensors
from mizzen.kinds.parts.pods import PodSpec
from mizzen.kinds.parts.tensors import Tensor, TensorSpec
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part, Present, Spec, Status
from mizzen.kinds.schema.size_limits import Most
from mizzen.kinds.serving import CEILING_MS, Feedback, default_output_faults

OWN_HEADERS = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "host", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that belong to one connection or one body, and are written anew for each call."""


@dataclass(frozen=True, slots=True)
class GraphPod:
    """An entry of `custom` or `inline`: where its pod stands, the pod, and how many are wanted."""

    at: str
    spec: PodSpec
    replicas: int


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, Mapping) else value


def _dag(spec: Any) -> Any:
    return spec.get("dag") if isinstance(spec, Mapping) else None


class MLGraphSpec(Spec):
    """Nodes and how messages go between them.

    A node without dependencies gets the request; the answer is that of the nodes nobody depends on.
    """

    custom: Annotated[tuple[CustomPod, ...] | None, Most(256)] = Field(
        None, description="Pods whose containers implement nodes. Names of containers are unique over all of them."
    )
    inline: Annotated[tuple[InlinePod, ...] | None, Most(256)] = Field(None, description="The later name of `custom`.")
    dag: Annotated[tuple[GraphNode, ...], BeforeValidator(_listed), Most(1000)] = Field(
        description="The nodes; one alone may stand without a list."
    )
    timeout_ms: int | None = Field(None, ge=1, le=CEILING_MS, description="Deadline of a request; the ceiling is 60 s.")
    default_output: Annotated[tuple[Tensor, ...] | None, Most(256)] = Field(
        None, description="The answer when none arrives within the deadline, or no model is ready."
    )
    inputs: Annotated[tuple[TensorSpec, ...], Most(256)] = Field(
        (), description="What a request must hold; any input if absent."
    )
    headers: Annotated[tuple[str, ...], Most(256)] = Field(
        (), description="Headers of the request that are sent on with every call."
    )
    feedback: Annotated[Feedback | None, Present] = Field(
        None, description="Keep records for feedback. A graph with a bandit keeps them anyway."
    )

    @classmethod
    def meant(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """As `written`, with `dag` as a list. Pure."""
        found = cls.written(spec, annotations)
        return {**found, "dag": [found["dag"]]} if isinstance(_dag(found), Mapping) else found

    @classmethod
    def written(cls, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        """With the nulls of routes and merges that kubectl left out on the way. Pure.

        kubectl sends `route: {}` for `route: {split: }`, and keeps what was written in an annotation. Where that,
        without its nulls, is what arrived, it is what was meant; anything else has been changed since, and stands.
        A plane stores the nulls, so that copies, old revisions and other managers mean the same without the
        annotation. On a cluster nobody does, and what is read there goes through here each time.
        """
        dag = _dag(spec)
        before = _listed(_dag(last_applied.spec(annotations)))
        by_name = {node["name"]: node for node in last_applied.objects(before) if isinstance(node["name"], str)}
        match dag:
            case Mapping():
                return {**spec, "dag": _restored(dag, by_name)}
            case list():
                return {**spec, "dag": [_restored(node, by_name) for node in dag]}
        return spec

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        yield from graph_rules.findings_of(self, at, context)
        yield from tensors.repeated(self.inputs, f"{at}.inputs")
        if self.default_output is not None:
            yield from default_output_faults(self.default_output, (), f"{at}.defaultOutput")
        for index, header in enumerate(self.headers):
            if not HEADER.fullmatch(header):
                yield Fault(f"{at}.headers[{index}]", f"{header[:100]!r} is no name of a header")
            elif header.lower() in OWN_HEADERS:
                yield Fault(f"{at}.headers[{index}]", f"'{header}' is written anew for each call and cannot be sent on")

    def children(self) -> dict[str, tuple[str, ...]]:
        """Of each node those that depend on it, both in the order of `dag`."""
        found: dict[str, list[str]] = {node.name: [] for node in self.dag}
        for name, dependencies in self.arrows().items():
            for dependency in dependencies:
                found[dependency].append(name)
        return {name: tuple(names) for name, names in found.items()}

    def arrows(self) -> dict[str, tuple[str, ...]]:
        """Of each node those it depends on, as far as they exist, each once, and not itself."""
        names = {node.name for node in self.dag}
        found: dict[str, tuple[str, ...]] = {}
        for node in self.dag:
            needed = dict.fromkeys(on for on in node.dependencies if on in names and on != node.name)
            found.setdefault(node.name, tuple(needed))
        return found

    def ordered(self) -> tuple[GraphNode, ...]:
        """The nodes, each after all it depends on, otherwise as written."""
        by_name = {node.name: node for node in self.dag}
        return tuple(by_name[name] for name in in_order(self.arrows()))

    @property
    def input_nodes(self) -> tuple[GraphNode, ...]:
        """Those that get the request."""
        return tuple(node for node in self.dag if not node.dependencies)

    @property
    def output_nodes(self) -> tuple[GraphNode, ...]:
        """Those nobody depends on."""
        children = self.children()
        return tuple(node for node in self.dag if not children[node.name])

    def pods(self, at: str = "spec") -> tuple[GraphPod, ...]:
        """The entries of `custom` and `inline` alike."""
        written = (
            *((f"{at}.custom[{index}].spec", pod.spec, pod.replicas) for index, pod in enumerate(self.custom or ())),
            *(
                (f"{at}.inline[{index}].podspec", pod.podspec, pod.replicas)
                for index, pod in enumerate(self.inline or ())
            ),
        )
        return tuple(GraphPod(place, spec, 1 if replicas is None else replicas) for place, spec, replicas in written)


def _restored(node: Any, written: Mapping[str, Mapping[str, Any]]) -> Any:
    if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
        return node
    before = written.get(node["name"], {})
    fields = [field for field in ("route", "merge") if field in node and field in before]
    return {**node, **{field: last_applied.restored(node[field], before[field]) for field in fields}}


Phase = Literal["Pending", "Running", "Failed"]


def phase_of(*, answers: bool, ready: bool) -> Phase:
    """`answers`: some spec of the graph was accepted, and requests go by it; `ready`: all of it can be called."""
    if ready:
        return "Running"
    return "Pending" if answers else "Failed"


class NodeState(Part):
    """One node of the graph as it is now."""

    name: str = Field(description="The node's name.")
    ready: bool = Field(False, description="Whether it can be called.")
    reason: str = Field("", description="Why it cannot, in a person's words.")
    protocol: str = Field("", description="What the service that it calls speaks, once that has answered.")


class GraphServing(Part):
    """The spec that answers, which stays while a later one is not ready, or is refused."""

    generation: int = Field(description="Of the graph, when this was its spec.")
    spec: dict[str, Any] = Field(description="The spec itself.")
    proven: bool = Field(default=False, description="Whether all its nodes were ready at some time.")
    workloads: dict[str, str] = Field(
        default_factory=dict, description="The Workload of each container that its nodes call."
    )
    protocols: dict[str, str] = Field(
        default_factory=dict, description="What each service speaks that its nodes call, by address."
    )


class MLGraphStatus(Status):
    """Conditions: `Accepted` (the spec can be compiled), `NodesReady` (each node of it can be called), `Ready` (the
    graph answers at its url, maybe by an earlier spec)."""

    phase: Phase | None = Field(None, description="All of it in one word.")
    url: str | None = Field(None, description="Where to send inference requests.")
    nodes: tuple[NodeState, ...] = Field((), description="Each node: ready, or the reason why not.")
    serving: GraphServing | None = Field(None, description="What answers now. Absent: no spec was accepted yet.")

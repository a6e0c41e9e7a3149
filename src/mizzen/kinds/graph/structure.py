"""The structure of a graph: its pods, its nodes, and which node depends on which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mizzen.kinds.graph.implementations import CustomPod, InlinePod
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.topological_order import in_order
from mizzen.kinds.parts.pods import PodSpec
from mizzen.kinds.schema.resource import Spec
from mizzen.kinds.schema.size_limits import MaxItems
from mizzen.kinds.serving import CEILING_MS


@dataclass(frozen=True, slots=True)
class GraphPod:
    """An entry of `custom` or `inline`: the path of its pod, the pod, and its number of replicas."""

    at: str
    spec: PodSpec
    replicas: int


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, Mapping) else value


class GraphStructure(Spec):
    """The fields of an MLGraph that its rules look at as a whole. `MLGraphSpec` adds the rest, and the checks."""

    custom: Annotated[tuple[CustomPod, ...] | None, MaxItems(256)] = Field(
        None, description="Pods with containers that implement nodes. Container names must be unique across all pods."
    )
    inline: Annotated[tuple[InlinePod, ...] | None, MaxItems(256)] = Field(
        None, description="The newer form of `custom`."
    )
    dag: Annotated[tuple[GraphNode, ...], BeforeValidator(as_list), MaxItems(1000)] = Field(
        description="The nodes. A single node may be written without a list."
    )
    timeout_ms: int | None = Field(
        None, ge=1, le=CEILING_MS, description="The deadline of a request in milliseconds, at most 60 s."
    )

    def children(self) -> dict[str, tuple[str, ...]]:
        """The children of each node, both in the order of `dag`."""
        found: dict[str, list[str]] = {node.name: [] for node in self.dag}
        for name, dependencies in self.dependencies().items():
            for dependency in dependencies:
                found[dependency].append(name)
        return {name: tuple(names) for name, names in found.items()}

    def dependencies(self) -> dict[str, tuple[str, ...]]:
        """The dependencies of each node that exist, each once, and without itself."""
        names = {node.name for node in self.dag}
        found: dict[str, tuple[str, ...]] = {}
        for node in self.dag:
            needed = dict.fromkeys(on for on in node.dependencies if on in names and on != node.name)
            found.setdefault(node.name, tuple(needed))
        return found

    def nodes_in_order(self) -> tuple[GraphNode, ...]:
        """The nodes in topological order, otherwise as written."""
        by_name = {node.name: node for node in self.dag}
        return tuple(by_name[name] for name in in_order(self.dependencies()))

    def pods(self, at: str = "spec") -> tuple[GraphPod, ...]:
        """The entries of both `custom` and `inline`."""
        written = (
            *((f"{at}.custom[{index}].spec", pod.spec, pod.replicas) for index, pod in enumerate(self.custom or ())),
            *(
                (f"{at}.inline[{index}].podspec", pod.podspec, pod.replicas)
                for index, pod in enumerate(self.inline or ())
            ),
        )
        return tuple(GraphPod(place, spec, 1 if replicas is None else replicas) for place, spec, replicas in written)

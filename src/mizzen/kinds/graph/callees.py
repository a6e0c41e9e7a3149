"""What the nodes of a graph call, in whichever form it is written, and the containers that run for it. Pure.

For specs without faults: invalid names, and containers that do not exist, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.parts.pods import Container, PodSpec
from mizzen.kinds.text import references
from mizzen.kinds.text.references import ModelReference
from mizzen.kinds.workload import WireProtocol

Role = Literal["merge", "implementation", "route"]
NOT_RUN = "is not run by this release"


@dataclass(frozen=True, slots=True)
class DeclaredCall:
    """One call of a node: exactly one of `container`, `served`, `address` and `lacking` is set."""

    node: str
    role: Role
    container: str = ""
    """Its name in `containers_of`."""
    served: ModelReference | None = None
    address: str = ""
    """As written: `addresses.parse` reads it."""
    protocol: WireProtocol | None = None
    """The protocol it speaks, if the spec says so."""
    lacking: str = ""
    """The reason why it cannot be called at all."""


@dataclass(frozen=True, slots=True)
class GraphContainer:
    """A container that at least one node calls."""

    name: str
    """Unique within the graph. An inline container is called `<node>.<role>`: the dot cannot occur in the name of any
    other container."""
    container: Container
    replicas: int
    protocol: WireProtocol | None = None
    """As declared by the first node that declares it."""

    @property
    def command(self) -> tuple[str, ...]:
        """Empty if nothing can be started here."""
        return (*self.container.command, *self.container.args) if self.container.command else ()

    @property
    def missing(self) -> str:
        """The reason why it will never answer; empty if it may."""
        if self.replicas == 0:
            return f"replicas of container '{self.container.name}' is 0"
        if self.command:
            return ""
        if self.container.image:
            return f"container '{self.container.name}' has an image, and this engine runs no containers"
        return f"container '{self.container.name}' has no command to run"


def calls_of(spec: MLGraphSpec) -> dict[str, tuple[DeclaredCall, ...]]:
    """The calls of each node, in the order of `dag`: merge, then implementation, then route."""
    there = {container.name for pod in spec.pods() for container in pod.spec.containers}
    return {node.name: tuple(_calls(node, there)) for node in spec.dag}


def containers_of(spec: MLGraphSpec) -> dict[str, GraphContainer]:
    """The containers that nodes call, by their names within the graph: each once, however many nodes call it."""
    written = {
        container.name: GraphContainer(container.name, container, pod.replicas)
        for pod in spec.pods()
        for container in pod.spec.containers
    }
    written |= {found.name: found for node in spec.dag for found in _in_place(node)}
    called: dict[str, GraphContainer] = {}
    for call in (call for calls in calls_of(spec).values() for call in calls if call.container in written):
        found = called.get(call.container, written[call.container])
        called[call.container] = replace(found, protocol=found.protocol or call.protocol)
    return called


def names_called(spec: MLGraphSpec) -> tuple[str, ...]:
    """The inference names that the graph calls, each once."""
    return tuple(
        dict.fromkeys(
            call.served.name for calls in calls_of(spec).values() for call in calls if call.served is not None
        )
    )


def explain_unsupported(node: GraphNode) -> str:
    """The reason why this release cannot run the node, regardless of its calls; empty if it can."""
    if node.route is None:
        return ""
    if node.route.cascade is not None:
        return f"route.cascade {NOT_RUN}"
    if node.route.mab is not None and node.route.mab.exp4 is not None:
        return f"route.mab.exp4 {NOT_RUN}"
    return ""


def _calls(node: GraphNode, there: set[str]) -> Iterator[DeclaredCall]:
    implementations = _implementations_of(node)
    # Without dependencies there is nothing to merge, so its merge is not called.
    if "merge" in implementations and node.dependencies:
        yield _call(node, "merge", implementations["merge"])
    if "implementation" in implementations:
        yield _call(node, "implementation", implementations["implementation"])
    elif (own := node.container(there)) is not None:
        yield DeclaredCall(node.name, "implementation", container=own)
    if "route" in implementations:
        yield _call(node, "route", implementations["route"])


def _call(node: GraphNode, role: Role, target: Implementation) -> DeclaredCall:
    call = DeclaredCall(node.name, role, protocol=target.protocol)
    if target.container is not None:
        return replace(call, container=target.container)
    if target.served is not None:
        return replace(call, served=references.parse(target.served))
    if target.service is not None:
        return replace(call, address=target.service)
    if target.inline is not None and target.inline.podspec is not None:
        return replace(call, container=f"{node.name}.{role}")
    form = "inline.kfspec" if target.inline is not None else "ref.custom of this kind"
    where = role if role == "implementation" else f"{role}.implementation"
    return replace(call, lacking=f"{where}.{form} {NOT_RUN}")


def _in_place(node: GraphNode) -> Iterator[GraphContainer]:
    """Containers that are defined inline, where they are called."""
    for role, implementation in _implementations_of(node).items():
        inline = implementation.inline
        if inline is not None and inline.podspec is not None and inline.podspec.containers:
            replicas = 1 if inline.replicas is None else inline.replicas
            yield GraphContainer(f"{node.name}.{role}", _container_of(inline.podspec, node.name), replicas)


def _container_of(pod: PodSpec, node: str) -> Container:
    """The container with the node's name, or else the first."""
    return next((container for container in pod.containers if container.name == node), pod.containers[0])


def _implementations_of(node: GraphNode) -> dict[Role, Implementation]:
    return {cast("Role", field.partition(".")[0]): implementation for field, implementation in node.calls()}

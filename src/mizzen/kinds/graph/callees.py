"""What the nodes of a graph call, whichever of its forms says so, and the containers that run for it. Pure.

Of a spec without faults: names that are none, and containers that are not there, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mizzen.kinds.graph.implementations import Implementation
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.parts.pods import Container, PodSpec
from mizzen.kinds.text import references
from mizzen.kinds.text.references import Reference
from mizzen.kinds.workload import Spoken

Role = Literal["merge", "implementation", "route"]
NOT_RUN = "is not run by this release"


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that one node calls; one of `container`, `served`, `address` and `lacking` says what."""

    node: str
    role: Role
    container: str = ""
    """By its name in `containers_of`."""
    served: Reference | None = None
    address: str = ""
    """As written: `addresses.parse` reads it."""
    protocol: Spoken | None = None
    """What it speaks, where the spec says so."""
    lacking: str = ""
    """Why it cannot be called at all."""


@dataclass(frozen=True, slots=True)
class GraphContainer:
    """A container that some node calls."""

    name: str
    """Within the graph. One that is written in place has no name that no other has: `<node>.<role>`, with a dot, which
    no container's own name holds."""
    container: Container
    replicas: int
    protocol: Spoken | None = None
    """As the first node says that says it."""

    @property
    def command(self) -> tuple[str, ...]:
        """Empty when nothing can be started here."""
        return (*self.container.command, *self.container.args) if self.container.command else ()

    @property
    def missing(self) -> str:
        """Why nobody will answer, whatever is started; empty when somebody may."""
        if self.replicas == 0:
            return f"replicas of container '{self.container.name}' is 0"
        if self.command:
            return ""
        if self.container.image:
            return f"container '{self.container.name}' has an image, and this engine runs none"
        return f"container '{self.container.name}' has no command to run"


def calls_of(spec: MLGraphSpec) -> dict[str, tuple[Call, ...]]:
    """Node by node, as written: the call of its merge, then that of its implementation, then that of its route."""
    there = {container.name for pod in spec.pods() for container in pod.spec.containers}
    return {node.name: tuple(_calls(node, there)) for node in spec.dag}


def containers_of(spec: MLGraphSpec) -> dict[str, GraphContainer]:
    """Those that some node calls, by their names within the graph: each once, however many nodes call it."""
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
    """Inference names that it calls, each once."""
    return tuple(
        dict.fromkeys(
            call.served.name for calls in calls_of(spec).values() for call in calls if call.served is not None
        )
    )


def lacking(node: GraphNode) -> str:
    """Why the node cannot run at all here, whatever it calls; empty when it can."""
    if node.route is None:
        return ""
    if node.route.cascade is not None:
        return f"route.cascade {NOT_RUN}"
    if node.route.mab is not None and node.route.mab.exp4 is not None:
        return f"route.mab.exp4 {NOT_RUN}"
    return ""


def _calls(node: GraphNode, there: set[str]) -> Iterator[Call]:
    said = _said(node)
    # Without dependencies there is nothing to merge, and so nothing is called for it.
    if "merge" in said and node.dependencies:
        yield _call(node, "merge", said["merge"])
    if "implementation" in said:
        yield _call(node, "implementation", said["implementation"])
    elif (own := node.container(there)) is not None:
        yield Call(node.name, "implementation", container=own)
    if "route" in said:
        yield _call(node, "route", said["route"])


def _call(node: GraphNode, role: Role, said: Implementation) -> Call:
    call = Call(node.name, role, protocol=said.protocol)
    if said.container is not None:
        return replace(call, container=said.container)
    if said.served is not None:
        return replace(call, served=references.parse(said.served))
    if said.service is not None:
        return replace(call, address=said.service)
    if said.inline is not None and said.inline.podspec is not None:
        return replace(call, container=f"{node.name}.{role}")
    form = "inline.kfspec" if said.inline is not None else "ref.custom of this kind"
    where = role if role == "implementation" else f"{role}.implementation"
    return replace(call, lacking=f"{where}.{form} {NOT_RUN}")


def _in_place(node: GraphNode) -> Iterator[GraphContainer]:
    """Containers that are written where they are called."""
    for role, said in _said(node).items():
        inline = said.inline
        if inline is not None and inline.podspec is not None and inline.podspec.containers:
            replicas = 1 if inline.replicas is None else inline.replicas
            yield GraphContainer(f"{node.name}.{role}", _meant(inline.podspec, node.name), replicas)


def _meant(pod: PodSpec, node: str) -> Container:
    """The one with the node's name, or else the first."""
    return next((container for container in pod.containers if container.name == node), pod.containers[0])


def _said(node: GraphNode) -> Mapping[Role, Implementation]:
    found: dict[Role, Implementation] = {}
    if node.merge is not None and node.merge.call is not None:
        found["merge"] = node.merge.call[1]
    if node.implementation is not None:
        found["implementation"] = node.implementation
    if node.route is not None and node.route.implementation is not None:
        found["route"] = node.route.implementation
    return found

"""What can be wrong with a graph as a whole: names, dependencies, cycles, containers, and routes against children."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mizzen.errors import Fault
from mizzen.kinds.findings import Context, Finding, Warn, close_to, suggestion
from mizzen.kinds.graph.order import cycles
from mizzen.kinds.parts.pods import image_warning, unrunnable_images
from mizzen.kinds.parts.typed import repeated

if TYPE_CHECKING:
    from mizzen.kinds.graph.cascades import Cascade
    from mizzen.kinds.graph.nodes import Ensemble, GraphNode
    from mizzen.kinds.graph.routes import Exp4, Split
    from mizzen.kinds.graph.spec import MLGraphSpec


MOST_FAULTS = 100
"""Then the search ends: what was meant by each of thousands of wrong names would cost minutes, and nobody reads it."""


def findings_of(graph: MLGraphSpec, at: str, context: Context) -> Iterator[Finding]:
    """All that no single part of the graph can say of itself."""
    faults = 0
    for finding in _findings(graph, at, context):
        yield finding
        faults += isinstance(finding, Fault)
        if faults == MOST_FAULTS:
            return


def _findings(graph: MLGraphSpec, at: str, context: Context) -> Iterator[Finding]:
    if not graph.dag:
        yield Fault(f"{at}.dag", "must have at least one node")
    yield from repeated(((f"{at}.dag[{index}].name", node.name) for index, node in enumerate(graph.dag)), "node")
    children = graph.children()
    containers = tuple(container.name for pod in graph.pods(at) for container in pod.spec.containers)
    for index, node in enumerate(graph.dag):
        place = _Place(f"{at}.dag[{index}]", node, children.get(node.name, ()), context)
        yield from _dependencies(place, children)
        yield from _implementations(place, containers)
        yield from _route(place, graph)
        yield from _merge(place)
        if graph.timeout_ms is not None and (node.timeout_ms or 0) > graph.timeout_ms:
            yield Warn(f"{place.at}.timeoutMs", f"longer than the graph's {graph.timeout_ms}, which decides")
    yield from _cycles(graph, at)
    yield from _pods(graph, at, containers, context)


@dataclass(frozen=True, slots=True)
class _Place:
    """One node, where it stands and what follows it."""

    at: str
    node: GraphNode
    children: Sequence[str]
    context: Context


def _dependencies(place: _Place, names: Collection[str]) -> Iterator[Finding]:
    name, at = place.node.name, f"{place.at}.dependencies"
    for index, dependency in enumerate(place.node.dependencies):
        if dependency == name:
            yield Fault(f"{at}[{index}]", f"node '{name}' depends on itself")
        elif dependency not in names:
            others = tuple(other for other in names if other != name)
            yield Fault(f"{at}[{index}]", f"no node '{dependency}'; {suggestion(dependency, others, 'nodes')}")
    yield from repeated(((f"{at}[{index}]", on) for index, on in enumerate(place.node.dependencies)), "dependency")


def _cycles(graph: MLGraphSpec, at: str) -> Iterator[Finding]:
    for cycle in cycles(graph.arrows()):
        yield Fault(f"{at}.dag", f"nodes depend on each other in a cycle: {' -> '.join((*cycle, cycle[0]))}")


def _implementations(place: _Place, containers: Sequence[str]) -> Iterator[Finding]:
    node = place.node
    for field, implementation in node.calls():
        name = implementation.container
        if name is not None and name not in containers:
            there = suggestion(name, containers, "containers") if containers else "there is none"
            where = f"{place.at}.{field}.{implementation.container_field}"
            yield Fault(where, f"no container '{name}' in spec.custom; {there}")
        if implementation.inline is not None and implementation.inline.podspec is not None:
            where = f"{place.at}.{field}.inline.podspec"
            so = f"node '{node.name}' stays not ready"
            yield from unrunnable_images(implementation.inline.podspec, where, place.context, so)
    if any((node.implementation, node.route, node.merge, node.container(containers))) or not node.name:
        return
    if place.context.whole(place.at):
        meant = close_to(node.name, containers)
        hint = f"did you mean '{meant}'?" if meant else "give it an implementation, a route or a merge"
        yield Fault(
            place.at, f"node '{node.name}' has nothing to run, and spec.custom no container of its name; {hint}"
        )


def _route(place: _Place, graph: MLGraphSpec) -> Iterator[Finding]:
    route, at = place.node.route, f"{place.at}.route"
    if route is None or route.empty:
        return
    if not place.children:
        yield Warn(at, f"no node depends on '{place.node.name}', so there is nothing to route to")
    if route.split is not None:
        yield from _split(place, route.split, f"{at}.split")
    if route.cascade is not None:
        yield from _cascade(place, route.cascade, f"{at}.cascade")
    if route.mab is not None and route.mab.exp4 is not None:
        yield from _exp4(place, graph, route.mab.exp4, f"{at}.mab.exp4")


def _no_child(place: _Place, name: str) -> str:
    return f"no child '{name}' of node '{place.node.name}'; {suggestion(name, place.children, 'children')}"


def _split(place: _Place, split: Split, at: str) -> Iterator[Finding]:
    for child in split.traffic or {}:
        if child not in place.children:
            yield Fault(f"{at}.traffic.{child}", _no_child(place, child))
    for index, child in enumerate(split.shadow):
        if child not in place.children:
            yield Fault(f"{at}.shadow[{index}]", _no_child(place, child))
    if place.children and set(place.children) <= set(split.shadow):
        yield Fault(f"{at}.shadow", f"every child of node '{place.node.name}' is a shadow, so none answers")


def _cascade(place: _Place, cascade: Cascade, at: str) -> Iterator[Finding]:
    sides = {"edge": cascade.edge, "cloud": cascade.cloud}
    for side, child in sides.items():
        if child and child not in place.children:
            yield Fault(f"{at}.{side}", _no_child(place, child))
    if not set(sides.values()) <= set(place.children) or cascade.edge == cascade.cloud:
        return
    for child in place.children:
        if child not in sides.values():
            yield Warn(at, f"child '{child}' is neither edge nor cloud, so it is never taken")


def _exp4(place: _Place, graph: MLGraphSpec, exp4: Exp4, at: str) -> Iterator[Finding]:
    joining = [
        node.merge.joins
        for node in graph.dag
        if node.merge and node.merge.joins and not node.merge.joins.weights
        and set(node.dependencies) == set(place.children)
    ]  # fmt: skip
    if place.children and len(joining) != 1:
        arms = ", ".join(place.children)
        yield Fault(at, f"one node must merge by an ensemble without weights, and depend on exactly {arms}")
    elif exp4.threshold is not None and any(ensemble.threshold is not None for ensemble in joining):
        yield Fault(f"{at}.threshold", "its ensemble has a threshold, too")


def _merge(place: _Place) -> Iterator[Finding]:
    merge, at = place.node.merge, f"{place.at}.merge"
    if merge is None or (merge.ensemble is None and merge.implementation is None):
        return
    if not place.node.dependencies:
        yield Warn(at, f"node '{place.node.name}' has no dependencies, so there is nothing to merge")
    if merge.ensemble is not None and merge.ensemble.weights:
        yield from _weights(place, merge.ensemble, f"{at}.ensemble.weights")


def _weights(place: _Place, ensemble: Ensemble, at: str) -> Iterator[Finding]:
    weights, name, dependencies = ensemble.weights or {}, place.node.name, tuple(dict.fromkeys(place.node.dependencies))
    misspelt = set()
    for key in weights:
        if key not in dependencies:
            misspelt.add(close_to(key, dependencies))
            hint = suggestion(key, dependencies, "dependencies")
            yield Fault(f"{at}.{key}", f"no dependency '{key}' of node '{name}'; {hint}")
    for dependency in dependencies:
        if dependency not in weights and dependency not in misspelt and place.context.whole(at):
            yield Fault(at, f"dependency '{dependency}' is left out; give it a weight, if only 0")


def _pods(graph: MLGraphSpec, at: str, containers: Sequence[str], context: Context) -> Iterator[Finding]:
    users = _users(graph, containers)
    places = [
        (f"{pod.at}.containers[{index}]", container)
        for pod in graph.pods(at)
        for index, container in enumerate(pod.spec.containers)
    ]
    yield from repeated(((f"{place}.name", container.name) for place, container in places), "container")
    for place, container in places:
        if container.image and "containers" not in context.capabilities:
            yield image_warning(f"{place}.image", _not_ready(users.get(container.name, ())))


def _users(graph: MLGraphSpec, containers: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Container by container, the nodes that cannot run without it."""
    users: dict[str, list[str]] = {}
    for node in graph.dag:
        called = [implementation.container for _, implementation in node.calls()]
        for container in dict.fromkeys((*called, node.container(containers))):
            if container is not None:
                users.setdefault(container, []).append(node.name)
    return users


def _not_ready(nodes: Sequence[str]) -> str:
    if not nodes:
        return "it is not started, and no node calls it"
    if len(nodes) == 1:
        return f"node '{nodes[0]}' stays not ready"
    quoted = ", ".join(f"'{name}'" for name in nodes)
    return f"nodes {quoted} stay not ready"

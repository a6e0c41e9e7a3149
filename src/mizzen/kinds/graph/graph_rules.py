"""The rules for a graph as a whole: names, dependencies, cycles, containers, and routes to children."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mizzen.errors import Fault
from mizzen.kinds.graph.cascades import Cascade
from mizzen.kinds.graph.nodes import Ensemble, GraphNode
from mizzen.kinds.graph.routes import Exp4, Split
from mizzen.kinds.graph.structure import GraphStructure
from mizzen.kinds.graph.topological_order import cycles
from mizzen.kinds.parts import uniqueness
from mizzen.kinds.parts.pods import Container, image_warning
from mizzen.kinds.schema.findings import Context, Finding, Warn, close_to, suggestion

MOST_RUNS, MOST_RUNS_IN_ALL = 1000, 10_000
"""Runs of one node, and of all nodes together, for one request."""


def findings_of(graph: GraphStructure, at: str, context: Context) -> Iterator[Finding]:
    """The findings that no single part of the graph can make on its own."""
    if not graph.dag:
        yield Fault(f"{at}.dag", "must have at least one node")
    yield from uniqueness.name_faults(graph.dag, f"{at}.dag", "node")
    children = graph.children()
    known = _GraphNames(graph, at, context)
    for index, node in enumerate(graph.dag):
        place = _NodeContext(f"{at}.dag[{index}]", node, dict.fromkeys(children[node.name]), context, known)
        yield from _dependencies(place)
        yield from _implementations(place)
        yield from _route(place)
        yield from _merge(place)
        if graph.timeout_ms is not None and (node.timeout_ms or 0) > graph.timeout_ms:
            yield Warn(f"{place.at}.timeoutMs", f"longer than the graph's {graph.timeout_ms}, which takes precedence")
    yield from _cycles(graph, at)
    yield from _runs(graph, at)
    yield from _pods(graph, at, known.containers, context)


class _GraphNames:
    """The names in the graph that can be referenced, and how certain they are: names that were not read are blank."""

    def __init__(self, graph: GraphStructure, at: str, context: Context) -> None:
        pods = graph.pods(at)
        self.names = dict.fromkeys(node.name for node in graph.dag)
        self.containers = dict.fromkeys(container.name for pod in pods for container in pod.spec.containers)
        filled = all(pod.spec.containers for pod in pods) and all(self.containers)
        self.all_containers = filled and context.was_read(at, "custom", "inline")
        places = {f"{at}.dag[{index}]": node for index, node in enumerate(graph.dag)}
        self._loose = {
            node.name
            for place, node in places.items()
            if not (node.name and context.is_complete(f"{place}.dependencies"))
        }
        self.all_merges = all(
            context.was_read(place, "merge") and context.was_read(f"{place}.merge", "ensemble") for place in places
        )
        self.joining: dict[frozenset[str], list[Ensemble]] = {}
        """Ensembles without weights, by the nodes they merge."""
        for node in graph.dag:
            if node.merge and node.merge.joins and not node.merge.joins.weights:
                self.joining.setdefault(frozenset(node.dependencies), []).append(node.merge.joins)

    @property
    def all_children(self) -> bool:
        return not self._loose

    def may_be_child(self, name: str) -> bool:
        """Whether `name` may be a child of any node: its dependencies, or the name of some node, could not be read."""
        return name in self._loose or ("" in self._loose and name not in self.names)


@dataclass(frozen=True, slots=True)
class _NodeContext:
    """One node, its path and its children."""

    at: str
    node: GraphNode
    children: Collection[str]
    context: Context
    known: _GraphNames

    def lacks(self, child: str) -> bool:
        return child not in self.children and not self.known.may_be_child(child)


def _dependencies(place: _NodeContext) -> Iterator[Finding]:
    name, names, at = place.node.name, place.known.names, f"{place.at}.dependencies"
    for index, dependency in enumerate(place.node.dependencies):
        if dependency == name:
            yield Fault(f"{at}[{index}]", f"node '{name}' depends on itself")
        elif dependency not in names and "" not in names:
            others = tuple(other for other in names if other != name)
            yield Fault(f"{at}[{index}]", f"no node '{dependency}'; {suggestion(dependency, others, 'nodes')}")
    yield from uniqueness.word_faults(place.node.dependencies, at)


def _cycles(graph: GraphStructure, at: str) -> Iterator[Finding]:
    for cycle in cycles(graph.dependencies()):
        yield Fault(f"{at}.dag", f"nodes depend on each other in a cycle: {' -> '.join((*cycle, cycle[0]))}")


def _runs(graph: GraphStructure, at: str) -> Iterator[Finding]:
    """A node without a merge runs once for each arrival; behind several joins the number of runs explodes."""
    arrows = graph.dependencies()
    arrivals: dict[str, int] = {}
    for node in graph.nodes_in_order():
        merged = node.merge is not None and (node.merge.joins or node.merge.call)
        runs = 1 if merged else sum(arrivals.get(on, 1) for on in arrows[node.name]) or 1
        if runs > MOST_RUNS:
            index = next(index for index, each in enumerate(graph.dag) if each.name == node.name)
            yield Fault(
                f"{at}.dag[{index}]",
                f"node '{node.name}' runs once for each arrival, up to {min(runs, 10**9)} times for one request; at "
                "most "
                f"{MOST_RUNS} are allowed: add a merge to it, or to a node before it",
            )
            return
        arrivals[node.name] = runs
    if sum(arrivals.values()) > MOST_RUNS_IN_ALL:
        yield Fault(
            f"{at}.dag",
            f"nodes may run {sum(arrivals.values())} times for one request; at most {MOST_RUNS_IN_ALL} are allowed: "
            "add a merge where several nodes join",
        )


def _implementations(place: _NodeContext) -> Iterator[Finding]:
    node, containers = place.node, place.known.containers
    for field, implementation in node.calls():
        name = implementation.container
        if name is not None and name not in containers and place.known.all_containers:
            there = suggestion(name, containers, "containers") if containers else "there is none"
            where = f"{place.at}.{field}.{implementation.container_field}"
            yield Fault(where, f"no container '{name}' in spec.custom; {there}")
        if implementation.inline is not None and implementation.inline.podspec is not None:
            where = f"{place.at}.{field}.inline.podspec"
            for index, container in enumerate(implementation.inline.podspec.containers):
                yield from _image(f"{where}.containers[{index}]", container, (node.name,), place.context)
    if any((node.implementation, node.route, node.merge, node.container(containers))) or not node.name:
        return
    if place.known.all_containers and place.context.was_read(place.at, "implementation", "route", "merge"):
        meant = close_to(node.name, containers)
        hint = f"did you mean '{meant}'?" if meant else "give it an implementation, a route or a merge"
        yield Fault(
            place.at, f"node '{node.name}' has nothing to run, and spec.custom has no container of that name; {hint}"
        )


def _route(place: _NodeContext) -> Iterator[Finding]:
    route, at = place.node.route, f"{place.at}.route"
    if route is None or route.empty:
        return
    if not place.children and place.known.all_children:
        yield Warn(at, f"no node depends on '{place.node.name}', so there is nothing to route to")
    if route.split is not None:
        yield from _split(place, route.split, f"{at}.split")
    if route.cascade is not None:
        yield from _cascade(place, route.cascade, f"{at}.cascade")
    if route.mab is not None and route.mab.exp4 is not None:
        yield from _exp4(place, route.mab.exp4, f"{at}.mab.exp4")


def _no_child(place: _NodeContext, name: str) -> str:
    return f"no child '{name}' of node '{place.node.name}'; {suggestion(name, place.children, 'children')}"


def _split(place: _NodeContext, split: Split, at: str) -> Iterator[Finding]:
    for child in split.traffic or {}:
        if place.lacks(child):
            yield Fault(f"{at}.traffic.{child}", _no_child(place, child))
    for index, child in enumerate(split.shadow):
        if place.lacks(child):
            yield Fault(f"{at}.shadow[{index}]", _no_child(place, child))
    if place.children and set(place.children) <= set(split.shadow) and place.known.all_children:
        yield Fault(f"{at}.shadow", f"every child of node '{place.node.name}' is a shadow, so none of them answers")


def _cascade(place: _NodeContext, cascade: Cascade, at: str) -> Iterator[Finding]:
    sides = {"edge": cascade.edge, "cloud": cascade.cloud}
    for side, child in sides.items():
        if child and place.lacks(child):
            yield Fault(f"{at}.{side}", _no_child(place, child))
    if not set(sides.values()) <= set(place.children) or cascade.edge == cascade.cloud:
        return
    for child in place.children:
        if child not in sides.values():
            yield Warn(at, f"child '{child}' is neither edge nor cloud, so it is never called")


def _exp4(place: _NodeContext, exp4: Exp4, at: str) -> Iterator[Finding]:
    if not (place.known.all_children and place.known.all_merges):
        return
    joining = place.known.joining.get(frozenset(place.children), [])
    if place.children and len(joining) != 1:
        arms = ", ".join(place.children)
        yield Fault(at, f"exactly one node must merge {arms}, and only those, by an ensemble without weights")
    elif exp4.threshold is not None and any(ensemble.threshold is not None for ensemble in joining):
        yield Fault(f"{at}.threshold", "its ensemble also has a threshold; set one of the two")


def _merge(place: _NodeContext) -> Iterator[Finding]:
    merge, at = place.node.merge, f"{place.at}.merge"
    if merge is None or (merge.ensemble is None and merge.implementation is None):
        return
    if not place.node.dependencies and place.context.was_read(place.at, "dependencies"):
        yield Warn(at, f"node '{place.node.name}' has no dependencies, so there is nothing to merge")
    read = place.context.is_complete(f"{place.at}.dependencies")
    if merge.ensemble is not None and merge.ensemble.weights and read:
        yield from _weights(place, merge.ensemble, f"{at}.ensemble.weights")


def _weights(place: _NodeContext, ensemble: Ensemble, at: str) -> Iterator[Finding]:
    weights, name, dependencies = ensemble.weights or {}, place.node.name, tuple(dict.fromkeys(place.node.dependencies))
    misspelt = set()
    for key in weights:
        if key not in dependencies:
            misspelt.add(close_to(key, dependencies))
            hint = suggestion(key, dependencies, "dependencies")
            yield Fault(f"{at}.{key}", f"no dependency '{key}' of node '{name}'; {hint}")
    for dependency in dependencies:
        if dependency not in weights and dependency not in misspelt:
            yield Fault(at, f"dependency '{dependency}' is missing; give it a weight, 0 if it must not count")


def _pods(graph: GraphStructure, at: str, containers: Collection[str], context: Context) -> Iterator[Finding]:
    users = _users(graph, containers)
    places = [
        (f"{pod.at}.containers[{index}]", container)
        for pod in graph.pods(at)
        for index, container in enumerate(pod.spec.containers)
    ]
    yield from uniqueness.path_faults(((f"{place}.name", container.name) for place, container in places), "container")
    for place, container in places:
        yield from _image(place, container, users.get(container.name, ()), context)


def _image(at: str, container: Container, nodes: Sequence[str], context: Context) -> Iterator[Warn]:
    """A warning for an image that cannot run here. A command can run without it."""
    if container.image and "containers" not in context.capabilities:
        so = "the command runs without it" if container.command and nodes else _not_ready(nodes)
        yield image_warning(f"{at}.image", so)


def _users(graph: GraphStructure, containers: Collection[str]) -> Mapping[str, Sequence[str]]:
    """The nodes that cannot run without each container."""
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

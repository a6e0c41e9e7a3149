"""The import of a KServe InferenceGraph as an MLGraph.

Its nodes are routers that call each other by name and return a response; ours are steps that messages pass through. So
each node is placed where it is called, once for each call, behind the source of its input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.importers import percentages
from mizzen.importers.dag_builder import REQUEST, DagBuilder, MessageSource
from mizzen.importers.dns_labels import join, label
from mizzen.importers.model_names import GraphContext
from mizzen.importers.notes import CannotImport, ImportNotes
from mizzen.importers.source_types import GraphStep, InferenceGraphSpec, Router, read
from mizzen.kinds.serving import CEILING_MS
from mizzen.kinds.text import addresses

ROOT: Final = "root"
CONDITIONS: Final = "mizzen.dev/imported-conditions"
"""Annotation: for each node, the conditions that its router must evaluate, in order."""
DEEPEST: Final = 50

_PROTOCOLS: Final = (
    (re.compile(r"/v1/models/[^/]+:predict"), "v1"),
    (re.compile(r"/v2/models/[^/]+(/versions/[^/]+)?/infer"), "v2"),
    (re.compile(r"(/seldon/[^/]+/[^/]+)?/api/v(0\.1|1\.0)/predictions|/predict"), "seldon"),
)


@dataclass(frozen=True, slots=True)
class ConvertedGraph:
    """The spec of an MLGraph, and its annotations."""

    spec: dict[str, Any]
    annotations: dict[str, str]


def convert(spec: Any, caller: GraphContext) -> ConvertedGraph:
    """Raises CannotImport if no MLGraph is equivalent."""
    notes = caller.notes
    graph = read(InferenceGraphSpec, spec)
    notes.left_out("spec", graph.unknown, "has no equivalent, since gateways run graphs themselves")
    notes.left_out("spec.routerTimeouts", graph.router_timeouts.unknown)
    if ROOT not in graph.nodes:
        raise CannotImport(Fault(f"spec.nodes.{ROOT}", "required: requests start there"))
    each = _milliseconds(graph.router_timeouts.service_client, "spec.routerTimeouts.serviceClient", notes)
    whole = _milliseconds(graph.timeout, "spec.timeout", notes)
    placing = _GraphBuilder(graph, DagBuilder(notes, timeout_ms=each), caller)
    placing.place(ROOT, REQUEST, _CallPath())
    _unreachable(graph, notes)
    annotations = {CONDITIONS: json.dumps(placing.conditions)} if placing.conditions else {}
    return ConvertedGraph({**({"timeoutMs": whole} if whole else {}), "dag": placing.dag.nodes}, annotations)


@dataclass(frozen=True, slots=True)
class _CallPath:
    """The path by which a node is called."""

    trail: tuple[str, ...] = ()
    soft: bool | None = None
    """Within Ensembles: whether it may fail without failing the request. None outside of them."""
    last: bool = True
    """Whether its response is that of the graph."""


class _GraphBuilder:
    def __init__(self, graph: InferenceGraphSpec, dag: DagBuilder, caller: GraphContext) -> None:
        self.graph = graph
        self.dag = dag
        self.caller = caller
        self.notes = caller.notes
        self.conditions: dict[str, list[dict[str, str]]] = {}

    def place(self, name: str, source: MessageSource, way: _CallPath) -> MessageSource:
        """Places the node behind `source`, and returns the source of its response."""
        path = f"spec.nodes.{name}"
        if name in way.trail:
            cycle = " -> ".join((*way.trail[way.trail.index(name) :], name))
            raise CannotImport(Fault("spec.nodes", f"nodes call each other in a cycle: {cycle}"))
        if len(way.trail) == DEEPEST:
            raise CannotImport(Fault(path, f"nodes call each other more than {DEEPEST} deep"))
        router = self.graph.nodes[name]
        self._demand_sound(router, path)
        way = replace(way, trail=(*way.trail, name))
        kinds = {
            "Sequence": self._sequence, "Ensemble": self._ensemble, "Splitter": self._splitter, "Switch": self._switch,
        }  # fmt: skip
        return kinds[router.router_type](name, router, source, way)

    def _step(self, step: GraphStep, source: MessageSource, way: _CallPath, path: str) -> MessageSource:
        if step.node_name:
            return self.place(step.node_name, source, way)
        skip = way.soft if way.soft is not None else not step.hard
        if way.soft is None and skip:
            self.notes.add(
                "spec.nodes",
                "steps without 'dependency: Hard' get 'onError: skip'. When one fails, KServe passes its error on "
                "like a response; here its branch is dropped, and the request fails if no other branch is left",
            )
        if step.service_name:
            meant = f"InferenceService {step.service_name}"
            called = self.caller.name_of(step.service_name, meant, path)
            self.notes.add("spec.nodes", f"deploy '{called}' here: {self.caller.deploy_command(called)}")
            calls: Mapping[str, Any] = {"kfservice": called}
            wanted = step.called
        else:
            calls = _service(step.service_url, f"{path}.serviceUrl", self.notes)
            wanted = step.name or label(addresses.parse(step.service_url).host.partition(".")[0])
        return MessageSource((self.dag.add(wanted, source, path, calls=calls, skip=skip),))

    def _ensemble(self, name: str, router: Router, source: MessageSource, way: _CallPath) -> MessageSource:
        answers: list[MessageSource] = []
        keys: list[str] = []
        for path, step in _steps(name, router):
            inner = replace(way, soft=not step.hard or bool(way.soft))
            answers.append(self._step(step, source, inner, path))
            keys.append(step.name or str(len(keys)))
        found = MessageSource.all_of(answers)
        if way.last and found.nodes != tuple(keys):
            self.notes.add(
                f"spec.nodes.{name}",
                f"its responses are named {', '.join(found.nodes)} here, but {', '.join(keys)} in KServe",
            )
        if len(found.nodes) == 1:
            self.notes.add(f"spec.nodes.{name}", "its only response is returned directly, not as a map with one entry")
        return found

    def _splitter(self, name: str, router: Router, source: MessageSource, way: _CallPath) -> MessageSource:
        node = self.dag.add(name, source, f"spec.nodes.{name}", route={"split": {}})
        children, answers = self._branches(node, name, router, way)
        traffic = _traffic(name, router, self.notes)
        if traffic is not None:
            self.dag.set_route(node, {"split": {"traffic": dict(zip(children, traffic, strict=True))}})
        return MessageSource.any_of(answers)

    def _switch(self, name: str, router: Router, source: MessageSource, way: _CallPath) -> MessageSource:
        node = self._add_router(name, source, f"spec.nodes.{name}")
        children, answers = self._branches(node, name, router, way)
        self.conditions[node] = [
            {"node": child, "condition": step.condition} for child, step in zip(children, router.steps, strict=True)
        ]
        self.notes.add(
            f"spec.nodes.{name}",
            "the first condition that is true wins. If none is, KServe responds 404; here, a router that names no node "
            "returns its input",
        )
        return MessageSource.any_of(answers)

    def _branches(self, node: str, name: str, router: Router, way: _CallPath) -> tuple[list[str], list[MessageSource]]:
        children, answers = [], []
        for path, step in _steps(name, router):
            mark = len(self.dag)
            answer = self._step(step, MessageSource((node,)), way, path)
            child, answer = self.dag.branch(node, mark, answer, step.called, path)
            children.append(child)
            answers.append(answer)
        return children, answers

    def _sequence(self, name: str, router: Router, source: MessageSource, way: _CallPath) -> MessageSource:
        """The response is that of the last step. A step receives the input of the node, or the response before it.

        So steps form chains, and the responses of all chains but the last are dropped.
        """
        chains: list[list[tuple[str, GraphStep]]] = []
        for path, step in _steps(name, router):
            if chains and (step.takes_answer or step.condition):
                if not step.takes_answer:
                    raise CannotImport(_condition_fault(path, chains[-1][-1][1]))
                chains[-1].append((path, step))
                continue
            if chains:
                self._demand_unconditional(chains[-1], path)
                self.notes.add(
                    f"{path}.data", f"'{step.called}' receives the input of node '{name}', not the response before it"
                )
            elif step.condition:
                self.notes.add(f"{path}.condition", "there is no response yet to evaluate; it is left out")
            chains.append([(path, step)])
        *dropped, chain = chains
        copied = [item for item in dropped if len(item) == 1 and not item[0][1].node_name and source.shape == "one"]
        for unused in (item for item in dropped if item not in copied):
            steps = ", ".join(f"'{step.called}'" for _, step in unused)
            self.notes.add(unused[0][0], f"no step uses the response of {steps}; left out")
        if not copied:
            return self._chain(name, chain, source, way)
        node = self.dag.add(name, source, f"spec.nodes.{name}", route={"split": {}})
        self.dag.set_route(node, {"split": {"shadow": [self._shadow(item[0], node) for item in copied]}})
        mark = len(self.dag)
        answer = self._chain(name, chain, MessageSource((node,)), way)
        return self.dag.branch(node, mark, answer, f"{name}-rest", f"spec.nodes.{name}")[1]

    def _demand_unconditional(self, chain: list[tuple[str, GraphStep]], path: str) -> None:
        """Raises CannotImport if the chain has a condition.

        The condition would also decide about the step at `path`, which does not use the chain's response.
        """
        for (_, before), (_, step) in pairwise(chain):
            if step.condition:
                raise CannotImport(_condition_fault(path, before))

    def _shadow(self, item: tuple[str, GraphStep], node: str) -> str:
        path, step = item
        self.notes.add(
            path,
            f"no step uses the response of '{step.called}': it becomes a shadow, which receives a copy and can neither "
            "delay nor fail the request",
        )
        (made,) = self._step(step, MessageSource((node,)), _CallPath(soft=False), path).nodes
        return made

    def _chain(
        self, name: str, chain: list[tuple[str, GraphStep]], source: MessageSource, way: _CallPath
    ) -> MessageSource:
        stopped: list[MessageSource] = []
        current = source
        for place, (path, step) in enumerate(chain):
            inner = replace(way, last=way.last and place == len(chain) - 1)
            if place == 0 or not step.condition:
                current = self._step(step, current, inner, path)
                continue
            node = self._add_router(join("if", label(step.called)), current, path)
            self.notes.add(
                f"{path}.condition", "if it is false, the router names no node, and the response before it is returned"
            )
            mark = len(self.dag)
            answer = self._step(step, MessageSource((node,)), inner, path)
            child, current = self.dag.branch(node, mark, answer, step.called, path)
            self.conditions[node] = [{"node": child, "condition": step.condition}]
            if not way.last:
                # It is returned to another step, not to the caller, so this is also a path to continue on.
                other = self.dag.add(f"{node}-not", MessageSource((node,)), path)
                self.notes.add(
                    f"{path}.condition",
                    f"if it is false, the router must name node '{other}', since node '{name}' is not the last one",
                )
                stopped.append(MessageSource((other,)))
        return MessageSource.any_of((current, *stopped)) if stopped else current

    def _add_router(self, wanted: str, source: MessageSource, path: str) -> str:
        """Adds a node whose router decides which children receive its output."""
        meant = f"router of {self.caller.graph}, {wanted}"
        wanted = label(wanted)
        asked = self.caller.name_of(join(self.caller.graph, wanted), meant, path)
        node = self.dag.add(wanted, source, path, route={"implementation": {"kfservice": asked}})
        self.notes.add(
            path,
            f"conditions have no equivalent: node '{node}' calls '{asked}', a router that you must serve under that "
            "name; "
            f"until then the node is not ready. The annotation {CONDITIONS} lists the conditions to evaluate",
        )
        return node

    def _demand_sound(self, router: Router, path: str) -> None:
        self.notes.left_out(path, router.unknown)
        if not router.steps:
            raise CannotImport(Fault(f"{path}.steps", "must have at least 1 entry"))
        for index, step in enumerate(router.steps):
            at = f"{path}.steps[{index}]"
            self.notes.left_out(at, step.unknown)
            if sum(map(bool, (step.service_name, step.service_url, step.node_name))) != 1:
                raise CannotImport(Fault(at, "must have exactly one of serviceName, serviceUrl and nodeName"))
            if step.node_name and step.node_name not in self.graph.nodes:
                raise CannotImport(Fault(f"{at}.nodeName", f"no node '{step.node_name}'"))
            kind = router.router_type
            if step.data not in ("", "$request", "$response"):
                self.notes.add(f"{at}.data", f"'{step.data}' is read as '$request', as in KServe")
            if step.condition and kind in ("Splitter", "Ensemble"):
                self.notes.add(f"{at}.condition", f"{kind} nodes do not use conditions; it is left out")
            if step.weight is not None and kind != "Splitter":
                self.notes.add(f"{at}.weight", f"{kind} nodes do not use weights; it is left out")


def _steps(name: str, router: Router) -> Iterator[tuple[str, GraphStep]]:
    for index, step in enumerate(router.steps):
        yield f"spec.nodes.{name}.steps[{index}]", step


def _condition_fault(path: str, before: GraphStep) -> Fault:
    return Fault(
        path,
        f"it receives the request if the response of '{before.called}' meets a condition, which no route can express. "
        "A cascade (route.cascade) calls a second model depending on the confidence of the first",
    )


def _traffic(name: str, router: Router, notes: ImportNotes) -> list[int] | None:
    """The percentage of each step; None for an even split."""
    path = f"spec.nodes.{name}.steps"
    weights = [step.weight for step in router.steps]
    if all(weight is None for weight in weights):
        notes.add(path, "no step has a weight; the split is even")
        return None
    for index, weight in enumerate(weights):
        if weight is None:
            notes.add(f"{path}[{index}].weight", "missing; read as 0")
        elif weight < 0:
            raise CannotImport(Fault(f"{path}[{index}].weight", f"must be at least 0, not {weight}"))
    given = [weight or 0 for weight in weights]
    if not any(given):
        raise CannotImport(Fault(path, "every weight is 0, so no step is ever called"))
    return percentages.round_weights(given, "weights sum", path, notes)


def _service(url: str, path: str, notes: ImportNotes) -> Mapping[str, Any]:
    try:
        address = addresses.parse(url)
    except ValueError as error:
        raise CannotImport(Fault(path, str(error))) from error
    protocol = next((name for pattern, name in _PROTOCOLS if pattern.fullmatch(address.path)), None)
    if protocol is None:
        notes.add(
            path,
            "its path does not show its protocol; it is detected (V2, V1 or Seldon), unless you set protocol",
        )
    return {"svc": url, **({"protocol": protocol} if protocol else {})}


def _milliseconds(seconds: int | None, path: str, notes: ImportNotes) -> int | None:
    if seconds is None:
        return None
    if seconds <= 0:
        notes.add(path, f"{seconds} is not a limit; it is left out")
        return None
    if seconds * 1000 > CEILING_MS:
        notes.add(path, f"{seconds} s is above the maximum of {CEILING_MS // 1000} s, which applies")
    return min(seconds * 1000, CEILING_MS)


def _unreachable(graph: InferenceGraphSpec, notes: ImportNotes) -> None:
    seen, ahead = {ROOT}, [ROOT]
    while ahead:
        for step in graph.nodes[ahead.pop()].steps:
            if step.node_name in graph.nodes and step.node_name not in seen:
                seen.add(step.node_name)
                ahead.append(step.node_name)
    for name in graph.nodes:
        if name not in seen:
            notes.add(f"spec.nodes.{name}", "no step calls it; it is left out")

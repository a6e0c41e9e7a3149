"""KServe's InferenceGraph as an MLGraph.

Its nodes are routers that call each other by name and give back an answer; ours are steps that messages go through. So
each node is placed where it is called, once for each call, behind what it gets its input from.
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
from mizzen.importers.dag_builder import REQUEST, Dag, Source
from mizzen.importers.dns_labels import joined, label
from mizzen.importers.model_names import Caller
from mizzen.importers.notes import CannotImport, Notes
from mizzen.importers.source_types import InferenceGraphSpec, Router, Step, read
from mizzen.kinds.serving import CEILING_MS
from mizzen.kinds.text import addresses

ROOT: Final = "root"
CONDITIONS: Final = "mizzen.dev/imported-conditions"
"""Annotation: by node, the conditions that its router is to judge, in their order."""
DEEPEST: Final = 50

_PROTOCOLS: Final = (
    (re.compile(r"/v1/models/[^/]+:predict"), "v1"),
    (re.compile(r"/v2/models/[^/]+(/versions/[^/]+)?/infer"), "v2"),
    (re.compile(r"(/seldon/[^/]+/[^/]+)?/api/v(0\.1|1\.0)/predictions|/predict"), "seldon"),
)


@dataclass(frozen=True, slots=True)
class Turned:
    """The spec of an MLGraph, and annotations that go with it."""

    spec: dict[str, Any]
    annotations: dict[str, str]


def turned(spec: Any, caller: Caller) -> Turned:
    """CannotImport when no MLGraph answers as this one."""
    notes = caller.notes
    graph = read(InferenceGraphSpec, spec)
    notes.left_out("spec", graph.unknown, "has no equal, since gateways run graphs themselves")
    notes.left_out("spec.routerTimeouts", graph.router_timeouts.unknown)
    if ROOT not in graph.nodes:
        raise CannotImport(Fault(f"spec.nodes.{ROOT}", "required: requests begin there"))
    each = _milliseconds(graph.router_timeouts.service_client, "spec.routerTimeouts.serviceClient", notes)
    whole = _milliseconds(graph.timeout, "spec.timeout", notes)
    placing = _Placing(graph, Dag(notes, timeout_ms=each), caller)
    placing.place(ROOT, REQUEST, _Way())
    _unreachable(graph, notes)
    annotations = {CONDITIONS: json.dumps(placing.conditions)} if placing.conditions else {}
    return Turned({**({"timeoutMs": whole} if whole else {}), "dag": placing.dag.nodes}, annotations)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a node came to be called."""

    trail: tuple[str, ...] = ()
    soft: bool | None = None
    """Within Ensembles: may it fail without the request? None outside of them."""
    last: bool = True
    """Its answer is the graph's."""


class _Placing:
    def __init__(self, graph: InferenceGraphSpec, dag: Dag, caller: Caller) -> None:
        self.graph = graph
        self.dag = dag
        self.caller = caller
        self.notes = caller.notes
        self.conditions: dict[str, list[dict[str, str]]] = {}

    def place(self, name: str, source: Source, way: _Way) -> Source:
        """The node behind `source`; where its answer comes from."""
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

    def _step(self, step: Step, source: Source, way: _Way, path: str) -> Source:
        if step.node_name:
            return self.place(step.node_name, source, way)
        skip = way.soft if way.soft is not None else not step.hard
        if way.soft is None and skip:
            self.notes.add(
                "spec.nodes",
                "steps that are not 'dependency: Hard' get 'onError: skip'. When one fails, KServe hands its error on "
                "as if it were an answer; here its branch is dropped, and the request fails if no other is left",
            )
        if step.service_name:
            meant = f"InferenceService {step.service_name}"
            called = self.caller.name_of(step.service_name, meant, path)
            self.notes.add("spec.nodes", f"'{called}' is to be served here: {self.caller.deploying(called)}")
            calls: Mapping[str, Any] = {"kfservice": called}
            wanted = step.called
        else:
            calls = _service(step.service_url, f"{path}.serviceUrl", self.notes)
            wanted = step.name or label(addresses.parse(step.service_url).host.partition(".")[0])
        return Source((self.dag.add(wanted, source, path, calls=calls, skip=skip),))

    def _ensemble(self, name: str, router: Router, source: Source, way: _Way) -> Source:
        answers: list[Source] = []
        keys: list[str] = []
        for path, step in _steps(name, router):
            inner = replace(way, soft=not step.hard or bool(way.soft))
            answers.append(self._step(step, source, inner, path))
            keys.append(step.name or str(len(keys)))
        found = Source.all_of(answers)
        if way.last and found.nodes != tuple(keys):
            self.notes.add(
                f"spec.nodes.{name}",
                f"its answers are named {', '.join(found.nodes)} here, and {', '.join(keys)} by KServe",
            )
        if len(found.nodes) == 1:
            self.notes.add(f"spec.nodes.{name}", "its one answer comes plain, and not as a map of one")
        return found

    def _splitter(self, name: str, router: Router, source: Source, way: _Way) -> Source:
        node = self.dag.add(name, source, f"spec.nodes.{name}", route={"split": {}})
        children, answers = self._branches(node, name, router, way)
        traffic = _traffic(name, router, self.notes)
        if traffic is not None:
            self.dag.set_route(node, {"split": {"traffic": dict(zip(children, traffic, strict=True))}})
        return Source.any_of(answers)

    def _switch(self, name: str, router: Router, source: Source, way: _Way) -> Source:
        node = self._asking(name, source, f"spec.nodes.{name}")
        children, answers = self._branches(node, name, router, way)
        self.conditions[node] = [
            {"node": child, "condition": step.condition} for child, step in zip(children, router.steps, strict=True)
        ]
        self.notes.add(
            f"spec.nodes.{name}",
            "the first condition that holds wins. When none does, KServe answers 404; here a router that names no node "
            "gives back what it got",
        )
        return Source.any_of(answers)

    def _branches(self, node: str, name: str, router: Router, way: _Way) -> tuple[list[str], list[Source]]:
        children, answers = [], []
        for path, step in _steps(name, router):
            mark = len(self.dag)
            answer = self._step(step, Source((node,)), way, path)
            child, answer = self.dag.branch(node, mark, answer, step.called, path)
            children.append(child)
            answers.append(answer)
        return children, answers

    def _sequence(self, name: str, router: Router, source: Source, way: _Way) -> Source:
        """The answer is the last step's. A step gets what the node got, unless it takes the answer before it: so steps
        form chains, and of all chains but the last the answer is dropped."""
        chains: list[list[tuple[str, Step]]] = []
        for path, step in _steps(name, router):
            if chains and (step.takes_answer or step.condition):
                if not step.takes_answer:
                    raise CannotImport(_undecided(path, chains[-1][-1][1]))
                chains[-1].append((path, step))
                continue
            if chains:
                self._demand_unconditional(chains[-1], path)
                self.notes.add(f"{path}.data", f"'{step.called}' gets what node '{name}' got, not the answer before it")
            elif step.condition:
                self.notes.add(f"{path}.condition", "there is no answer yet that it could judge; it is left out")
            chains.append([(path, step)])
        *dropped, chain = chains
        copied = [item for item in dropped if len(item) == 1 and not item[0][1].node_name and source.shape == "one"]
        for unused in (item for item in dropped if item not in copied):
            steps = ", ".join(f"'{step.called}'" for _, step in unused)
            self.notes.add(unused[0][0], f"nobody takes the answer of {steps}; left out")
        if not copied:
            return self._chain(name, chain, source, way)
        node = self.dag.add(name, source, f"spec.nodes.{name}", route={"split": {}})
        self.dag.set_route(node, {"split": {"shadow": [self._shadow(item[0], node) for item in copied]}})
        mark = len(self.dag)
        answer = self._chain(name, chain, Source((node,)), way)
        return self.dag.branch(node, mark, answer, f"{name}-rest", f"spec.nodes.{name}")[1]

    def _demand_unconditional(self, chain: list[tuple[str, Step]], path: str) -> None:
        """Of a chain whose answer the step at `path` does not take: a condition in it decides about that step, too."""
        for (_, before), (_, step) in pairwise(chain):
            if step.condition:
                raise CannotImport(_undecided(path, before))

    def _shadow(self, item: tuple[str, Step], node: str) -> str:
        path, step = item
        self.notes.add(
            path,
            f"nobody takes the answer of '{step.called}': it is a shadow, which gets a copy and can neither delay nor "
            "fail the request",
        )
        (made,) = self._step(step, Source((node,)), _Way(soft=False), path).nodes
        return made

    def _chain(self, name: str, chain: list[tuple[str, Step]], source: Source, way: _Way) -> Source:
        stopped: list[Source] = []
        current = source
        for place, (path, step) in enumerate(chain):
            inner = replace(way, last=way.last and place == len(chain) - 1)
            if place == 0 or not step.condition:
                current = self._step(step, current, inner, path)
                continue
            node = self._asking(joined("if", label(step.called)), current, path)
            self.notes.add(
                f"{path}.condition", "when it does not hold, the router names no node, and the answer is given back"
            )
            mark = len(self.dag)
            answer = self._step(step, Source((node,)), inner, path)
            child, current = self.dag.branch(node, mark, answer, step.called, path)
            self.conditions[node] = [{"node": child, "condition": step.condition}]
            if not way.last:
                # Given back to another step, and not to who asked: so that is a way on, too.
                other = self.dag.add(f"{node}-not", Source((node,)), path)
                self.notes.add(
                    f"{path}.condition", f"here that is the node '{other}', since node '{name}' is not the last"
                )
                stopped.append(Source((other,)))
        return Source.any_of((current, *stopped)) if stopped else current

    def _asking(self, wanted: str, source: Source, path: str) -> str:
        """A node whose children are taken as a router says."""
        meant = f"router of {self.caller.graph}, {wanted}"
        wanted = label(wanted)
        asked = self.caller.name_of(joined(self.caller.graph, wanted), meant, path)
        node = self.dag.add(wanted, source, path, route={"implementation": {"kfservice": asked}})
        self.notes.add(
            path,
            f"conditions have no equal: node '{node}' asks '{asked}', a router that you are to serve under that name, "
            f"and is not ready before. What it is to judge is in the annotation {CONDITIONS}",
        )
        return node

    def _demand_sound(self, router: Router, path: str) -> None:
        self.notes.left_out(path, router.unknown)
        if not router.steps:
            raise CannotImport(Fault(f"{path}.steps", "must have at least 1"))
        for index, step in enumerate(router.steps):
            at = f"{path}.steps[{index}]"
            self.notes.left_out(at, step.unknown)
            if sum(map(bool, (step.service_name, step.service_url, step.node_name))) != 1:
                raise CannotImport(Fault(at, "must have exactly one of serviceName, serviceUrl and nodeName"))
            if step.node_name and step.node_name not in self.graph.nodes:
                raise CannotImport(Fault(f"{at}.nodeName", f"no node '{step.node_name}'"))
            kind = router.router_type
            if step.data not in ("", "$request", "$response"):
                self.notes.add(f"{at}.data", f"KServe reads '{step.data}' as '$request', and so it is read here")
            if step.condition and kind in ("Splitter", "Ensemble"):
                self.notes.add(f"{at}.condition", f"{kind} reads no conditions; it is left out")
            if step.weight is not None and kind != "Splitter":
                self.notes.add(f"{at}.weight", f"{kind} reads no weights; it is left out")


def _steps(name: str, router: Router) -> Iterator[tuple[str, Step]]:
    for index, step in enumerate(router.steps):
        yield f"spec.nodes.{name}.steps[{index}]", step


def _undecided(path: str, before: Step) -> Fault:
    return Fault(
        path,
        f"it takes the request if the answer of '{before.called}' meets a condition, which no route can say. A cascade "
        "(route.cascade) asks a second model by the confidence of the first",
    )


def _traffic(name: str, router: Router, notes: Notes) -> list[int] | None:
    """Per cent for each step; None: all alike."""
    path = f"spec.nodes.{name}.steps"
    weights = [step.weight for step in router.steps]
    if all(weight is None for weight in weights):
        notes.add(path, "no step has a weight; the split is even")
        return None
    for index, weight in enumerate(weights):
        if weight is None:
            notes.add(f"{path}[{index}].weight", "there is none; read as 0")
        elif weight < 0:
            raise CannotImport(Fault(f"{path}[{index}].weight", f"must be at least 0, not {weight}"))
    given = [weight or 0 for weight in weights]
    if not any(given):
        raise CannotImport(Fault(path, "every weight is 0, so no step is ever taken"))
    return percentages.told(given, "weights sum", path, notes)


def _service(url: str, path: str, notes: Notes) -> Mapping[str, Any]:
    try:
        address = addresses.parse(url)
    except ValueError as error:
        raise CannotImport(Fault(path, str(error))) from error
    protocol = next((name for pattern, name in _PROTOCOLS if pattern.fullmatch(address.path)), None)
    if protocol is None:
        notes.add(
            path,
            "what it speaks does not show in its path; it is asked whether V2, V1 or Seldon's; or set protocol",
        )
    return {"svc": url, **({"protocol": protocol} if protocol else {})}


def _milliseconds(seconds: int | None, path: str, notes: Notes) -> int | None:
    if seconds is None:
        return None
    if seconds <= 0:
        notes.add(path, f"{seconds} is no limit; it is left out")
        return None
    if seconds * 1000 > CEILING_MS:
        notes.add(path, f"{seconds} s is above the ceiling of {CEILING_MS // 1000} s, which holds")
    return min(seconds * 1000, CEILING_MS)


def _unreachable(graph: InferenceGraphSpec, notes: Notes) -> None:
    seen, ahead = {ROOT}, [ROOT]
    while ahead:
        for step in graph.nodes[ahead.pop()].steps:
            if step.node_name in graph.nodes and step.node_name not in seen:
                seen.add(step.node_name)
                ahead.append(step.node_name)
    for name in graph.nodes:
        if name not in seen:
            notes.add(f"spec.nodes.{name}", "no step leads there; it is left out")

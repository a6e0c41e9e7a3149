"""The controller of MLGraphs: what it loads, and how it comes to a Decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from mizzen.controllers.graphs import metadata_propagation
from mizzen.controllers.graphs.callees import Neighbours, calls_of_graph, misnested
from mizzen.controllers.graphs.container_workloads import unset_variables
from mizzen.controllers.graphs.facts import GraphFacts, NoProbing, Probed, Probing, Traffic, addresses
from mizzen.controllers.graphs.node_status import needed, questions_of, told
from mizzen.controllers.graphs.spec_switch import (
    Version,
    answered,
    answering,
    asked_for,
    ending,
    joined,
    staying,
    takes_over,
)
from mizzen.graph.compile.plans import graph_mark
from mizzen.kinds import catalog
from mizzen.kinds.graph.spec import GraphServing, MLGraphSpec, MLGraphStatus, phase_of
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.rules.references import CALLABLE
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Ref, Resource
from mizzen.kinds.serving import url_of
from mizzen.kinds.text import references
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.recorder import Note
from mizzen.reconcile.reverse_index import Mentions
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store, Where

LOOK: Final = 0.05
"""Seconds between two looks at whether gateways know what answers now, and have left what did before."""


class Graphs:
    kind = "MLGraph"
    watches: tuple[str | Presence, ...] = ("MLGraph", "InferenceModel", "Model", "Workload")

    def __init__(
        self,
        inference_url: str,
        context: Context,
        *,
        probing: Probing | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`context` tells what the engine of this home can do. `probing` asks services of others; without it, all are
        taken as there. `traffic` tells what gateways know; without it, they know all at once."""
        self._inference_url = inference_url
        self._context = context
        self._probing = probing or NoProbing()
        self._traffic = traffic
        self._named = Mentions()
        """All that a graph calls by name, and what graphs among those call."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        naming = self._named.naming(resource.ref)
        if resource.kind != "InferenceModel":
            return naming
        model = Ref("Model", str(resource.spec.get("modelName")), resource.meta.namespace)
        return dict.fromkeys((*naming, *self._named.naming(model)))

    async def load(self, store: Store, ref: Ref) -> GraphFacts | None:
        resource = await find(store, ref)
        if resource is None or resource.deleting:
            self._probing.forget(ref)
            self._named.forget(ref)
        if resource is None:
            return None
        children = await _children(store, resource)
        if resource.deleting:
            return GraphFacts(resource, children)
        facts = GraphFacts(
            resource,
            children,
            await self._neighbours(store, resource),
            left=frozenset(child.meta.name for child in children if self._has_left(child)),
        )
        return replace(facts, probed=self._probed(facts), reached=self._is_reached(facts))

    async def _neighbours(self, store: Store, graph: Resource) -> Neighbours:
        namespace = graph.meta.namespace
        noted = {Ref(kind, name, namespace) for kind in CALLABLE for name in calls_of_graph(graph)} - {graph.ref}
        objects: dict[Ref, Resource] = {}
        servers: dict[str, tuple[Resource, ...]] = {}
        waiting = sorted(noted)
        # Everything is noted before it is read: what is created in between then wakes this key again.
        self._named.note(graph.ref, noted)
        while waiting:
            ref = waiting.pop()
            found = await find(store, ref)
            if found is None:
                continue
            objects[ref] = found
            further = _further(found) - noted - {graph.ref}
            if further:
                noted |= further
                self._named.note(graph.ref, noted)
                waiting += sorted(further)
            if ref.kind == "Model":
                where = Where(namespace=namespace, fields={"spec.modelName": ref.name})
                servers[ref.name] = await whole(store, "InferenceModel", where)
        return Neighbours(objects, servers)

    def _probed(self, facts: GraphFacts) -> Mapping[str, Probed]:
        """Nothing is asked for what is not accepted, and nothing twice that answered for this spec."""
        resource = facts.resource
        accepted, spec = self._accepted(facts)
        if spec is None or not accepted.true:
            self._probing.forget(resource.ref)
            return {}
        serving = MLGraphStatus.of(resource).serving
        same = serving is not None and serving.generation == resource.meta.generation
        return self._probing.look(resource, questions_of(spec), answered(serving) if same else {})

    def _has_left(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.has_left(addresses(child))

    def _is_reached(self, facts: GraphFacts) -> bool:
        serving = MLGraphStatus.of(facts.resource).serving
        if self._traffic is None:
            return True
        if serving is None or not self._traffic.reaches([graph_mark(facts.resource.meta.uid, serving.generation)]):
            return False
        running = (addresses(child) for name in serving.workloads.values() if (child := facts.child(name)) is not None)
        return all(self._traffic.reaches(found) for found in running if found)

    def _accepted(self, facts: GraphFacts) -> tuple[Condition, MLGraphSpec | None]:
        accepted, findings = catalog.accepted(facts.resource, self._context)
        if findings.faults:
            return accepted, None
        spec = MLGraphSpec.of(facts.resource)
        fault = misnested(facts.resource, facts.neighbours)
        if fault is not None:
            return _not_true("Accepted", "TooDeep" if fault.too_deep else "GraphCycle", fault.message), None
        return catalog.warned(accepted, tuple(unset_variables(spec))), spec

    def decide(self, facts: GraphFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        before = MLGraphStatus.of(facts.resource)
        accepted, spec = self._accepted(facts)
        new = asked_for(facts, spec, before.serving) if spec is not None else None
        old = answering(facts, before.serving, new)
        answers = new if new is not None and takes_over(new, old) else old
        wanted = joined(each for each in (new, old) if each is not None and (each is new or each is answers))
        lingering = staying(facts, before.serving, wanted, now)
        ready = _ready(accepted, answers, new, facts)
        shown = new or answers
        status = MLGraphStatus(
            conditions=(accepted, _nodes_ready(accepted, new), ready),
            phase=phase_of(answers=answers is not None, ready=ready.true),
            url=url_of(self._inference_url, facts.resource.ref) if answers is not None else None,
            nodes=shown.states if shown is not None else (),
            serving=answers.serving if answers is not None else None,
        )
        again = [LOOK] if ready.reason == "Routing" else []
        again += lingering.values()  # and when that time is over, whether gateways have left
        ended = tuple(ending(facts, name, now, seconds) for name, seconds in lingering.items())
        passed = tuple(
            metadata_propagation.passed_on(facts.resource, one, facts.child(one.meta.name)) for one in wanted.values()
        )
        return Decision(
            children=(*passed, *ended),
            status=status,
            notes=tuple(_notes(before.serving, status.serving)),
            again=max(min(again), LOOK) if again else None,
        )


def _ready(accepted: Condition, answers: Version | None, new: Version | None, facts: GraphFacts) -> Condition:
    """It speaks of the generation that answers: who waits for a later one can tell."""
    if answers is None:
        return _not_true("Ready", accepted.reason, accepted.message)
    generation = answers.serving.generation
    if not answers.ready:
        return _not_true("Ready", "NodesNotReady", told(needed(answers.spec, answers.states)))
    before = MLGraphStatus.of(facts.resource)
    said = before.condition("Ready")
    earlier = said.observed_generation if said is not None and said.true else 0
    switched = before.serving is not None and before.serving.generation != generation  # gateways hear of it by this
    reached = facts.reached and not switched
    if not reached and earlier != generation:
        message = f"generation {generation} could answer; gateways are being told"
        if not earlier:
            return _not_true("Ready", "Routing", message)
        return Condition(type="Ready", status="True", reason="Routing", message=message, observed_generation=earlier)
    message = f"generation {generation} answers"
    if new is None or new is not answers:
        why = "is not accepted" if new is None else "is not ready"
        message = f"{message}; the one that is asked for {why}"
    return Condition(type="Ready", status="True", reason="Serving", message=message, observed_generation=generation)


def _nodes_ready(accepted: Condition, new: Version | None) -> Condition:
    if new is None:
        return _not_true("NodesReady", accepted.reason, accepted.message)
    if not new.ready:
        return _not_true("NodesReady", "NodesNotReady", told(needed(new.spec, new.states)))
    skipped = told(new.states)
    message = f"those that are not may be skipped: {skipped}" if skipped else f"{len(new.states)} of {len(new.states)}"
    return Condition(type="NodesReady", status="True", reason="AllReady", message=message)


def _notes(before: GraphServing | None, now: GraphServing | None) -> Iterator[Note]:
    if before is not None and now is not None and before.generation != now.generation:
        yield Note("Switched", f"generation {now.generation} answers instead of generation {before.generation}")


def _further(found: Resource) -> set[Ref]:
    """What else has to be known, to know whether this answers, and whom it calls."""
    namespace = found.meta.namespace
    match found.kind:
        case "MLGraph":
            return {Ref("MLGraph", name, namespace) for name in calls_of_graph(found)}
        case "Model":
            first = ModelStatus.of(found).alias_of
            try:
                return {Ref("Model", references.parse(first).name, namespace)} if first else set()
            except ValueError:
                return set()
    return set()


def _not_true(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="False", reason=reason, message=message)


async def _children(store: Store, resource: Resource) -> tuple[Resource, ...]:
    where = Where(namespace=resource.meta.namespace, owner=resource.meta.uid)
    return await whole(store, "Workload", where)

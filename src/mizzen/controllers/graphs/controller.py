"""The controller of MLGraphs: its facts and its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from mizzen.controllers.graphs.callees import CalledObjects, calls_of_graph, find_nesting_fault
from mizzen.controllers.graphs.container_workloads import warn_unset_variables
from mizzen.controllers.graphs.facts import GraphFacts, NoProber, Prober, ProbeResult
from mizzen.controllers.graphs.metadata_propagation import propagate
from mizzen.controllers.graphs.node_status import probe_requests_of, summarize_unready
from mizzen.controllers.graphs.spec_switch import (
    SpecRevision,
    build_desired,
    build_serving,
    find_draining,
    mark_ending,
    merge_workloads,
    protocols_of,
    should_take_over,
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
from mizzen.reconcile.controller import Decision, Presence, find, find_owners
from mizzen.reconcile.recorder import EventNote
from mizzen.reconcile.reverse_index import ReverseIndex
from mizzen.reconcile.workloads import Traffic, addresses_of, false_condition
from mizzen.stores.all_pages import whole, workloads_of
from mizzen.stores.store import Store, Where

GATEWAY_POLL: Final = 0.05
"""Seconds between two checks of whether gateways use the new spec and no longer route to the old Workloads."""


class Graphs:
    kind = "MLGraph"
    watches: tuple[str | Presence, ...] = ("MLGraph", "InferenceModel", "Model", "Workload")

    def __init__(
        self,
        inference_url: str,
        context: Context,
        *,
        prober: Prober | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`context` lists the capabilities of the engine. `prober` probes external services; without it, all count as
        available. `traffic` knows where gateways route to; without it, gateways count as up to date."""
        self._inference_url = inference_url
        self._context = context
        self._prober = prober or NoProber()
        self._traffic = traffic
        self._named = ReverseIndex()
        """All objects that a graph calls by name, and those that its called graphs call."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return find_owners(resource, self.kind)
        naming = self._named.keys_for(resource.ref)
        if resource.kind != "InferenceModel":
            return naming
        model = Ref("Model", str(resource.spec.get("modelName")), resource.meta.namespace)
        return dict.fromkeys((*naming, *self._named.keys_for(model)))

    async def load(self, store: Store, ref: Ref) -> GraphFacts | None:
        resource = await find(store, ref)
        if resource is None or resource.deleting:
            self._prober.forget(ref)
            self._named.remove(ref)
        if resource is None:
            return None
        children = await workloads_of(store, resource)
        if resource.deleting:
            return GraphFacts(resource, children)
        facts = GraphFacts(
            resource,
            children,
            await self._load_called_objects(store, resource),
            left=frozenset(child.meta.name for child in children if self._has_left(child)),
        )
        return replace(facts, probes=self._probe(facts), reached=self._is_reached(facts))

    async def _load_called_objects(self, store: Store, graph: Resource) -> CalledObjects:
        namespace = graph.meta.namespace
        noted = {Ref(kind, name, namespace) for kind in CALLABLE for name in calls_of_graph(graph)} - {graph.ref}
        objects: dict[Ref, Resource] = {}
        servers: dict[str, tuple[Resource, ...]] = {}
        waiting = sorted(noted)
        # Everything is indexed before it is read: an object created in between then wakes this key again.
        self._named.set(graph.ref, noted)
        while waiting:
            ref = waiting.pop()
            found = await find(store, ref)
            if found is None:
                continue
            objects[ref] = found
            further = _references_of(found) - noted - {graph.ref}
            if further:
                noted |= further
                self._named.set(graph.ref, noted)
                waiting += sorted(further)
            if ref.kind == "Model":
                where = Where(namespace=namespace, fields={"spec.modelName": ref.name})
                servers[ref.name] = await whole(store, "InferenceModel", where)
        return CalledObjects(objects, servers)

    def _probe(self, facts: GraphFacts) -> Mapping[str, ProbeResult]:
        """Probe nothing for a spec that is not accepted, and no service again that responded for this spec."""
        resource = facts.resource
        accepted, spec = self._check_accepted(facts)
        if spec is None or not accepted.true:
            self._prober.forget(resource.ref)
            return {}
        serving = MLGraphStatus.of(resource).serving
        same = serving is not None and serving.generation == resource.meta.generation
        return self._prober.probe(resource, probe_requests_of(spec), protocols_of(serving) if same else {})

    def _has_left(self, child: Resource) -> bool:
        return self._traffic is None or self._traffic.has_left(addresses_of(child))

    def _is_reached(self, facts: GraphFacts) -> bool:
        serving = MLGraphStatus.of(facts.resource).serving
        if self._traffic is None:
            return True
        if serving is None or not self._traffic.reaches([graph_mark(facts.resource.meta.uid, serving.generation)]):
            return False
        running = (
            addresses_of(child) for name in serving.workloads.values() if (child := facts.child(name)) is not None
        )
        return all(self._traffic.reaches(found) for found in running if found)

    def _check_accepted(self, facts: GraphFacts) -> tuple[Condition, MLGraphSpec | None]:
        accepted, findings = catalog.check_accepted(facts.resource, self._context)
        if findings.faults:
            return accepted, None
        spec = MLGraphSpec.of(facts.resource)
        fault = find_nesting_fault(facts.resource, facts.called_objects)
        if fault is not None:
            return false_condition("Accepted", "TooDeep" if fault.too_deep else "GraphCycle", fault.message), None
        return catalog.add_warnings(accepted, tuple(warn_unset_variables(spec))), spec

    def decide(self, facts: GraphFacts, now: datetime) -> Decision:
        if facts.resource.deleting:
            return Decision()
        before = MLGraphStatus.of(facts.resource)
        accepted, spec = self._check_accepted(facts)
        new = build_desired(facts, spec, before.serving) if spec is not None else None
        old = build_serving(facts, before.serving, new)
        answers = new if new is not None and should_take_over(new, old) else old
        wanted = merge_workloads(each for each in (new, old) if each is not None and (each is new or each is answers))
        lingering = find_draining(facts, before.serving, wanted, now)
        ready = _ready_condition(accepted, answers, new, facts)
        reported = new or answers
        status = MLGraphStatus(
            conditions=(accepted, _nodes_ready_condition(accepted, new), ready),
            phase=phase_of(answers=answers is not None, ready=ready.true),
            url=url_of(self._inference_url, facts.resource.ref) if answers is not None else None,
            nodes=reported.states if reported is not None else (),
            serving=answers.serving if answers is not None else None,
        )
        again = [GATEWAY_POLL] if ready.reason == "Routing" else []
        again += lingering.values()  # after that time, check whether gateways have left
        ended = (mark_ending(facts, name, now, seconds) for name, seconds in lingering.items())
        started = (propagate(facts.resource, one, facts.child(one.meta.name)) for one in wanted.values())
        return Decision(
            children=(*started, *ended),
            status=status,
            notes=tuple(_switch_notes(before.serving, status.serving)),
            requeue_after=max(min(again), GATEWAY_POLL) if again else None,
        )


def _ready_condition(
    accepted: Condition, answers: SpecRevision | None, new: SpecRevision | None, facts: GraphFacts
) -> Condition:
    """It names the generation that is serving, so that a client waiting for a later one can tell."""
    if answers is None:
        return false_condition("Ready", accepted.reason, accepted.message)
    generation = answers.serving.generation
    if not answers.ready:
        return false_condition("Ready", "NodesNotReady", answers.unready)
    before = MLGraphStatus.of(facts.resource)
    ready = before.condition("Ready")
    earlier = ready.observed_generation if ready is not None and ready.true else 0
    # A switch reaches gateways only through the status that this decision writes.
    switched = before.serving is not None and before.serving.generation != generation
    reached = facts.reached and not switched
    if not reached and earlier != generation:
        message = f"generation {generation} is ready; gateways do not route to it yet"
        if not earlier:
            return false_condition("Ready", "Routing", message)
        return Condition(type="Ready", status="True", reason="Routing", message=message, observed_generation=earlier)
    message = f"generation {generation} is serving"
    if new is None or new is not answers:
        why = "is not accepted" if new is None else "is not ready"
        message = f"{message}; the latest generation {why}"
    return Condition(type="Ready", status="True", reason="Serving", message=message, observed_generation=generation)


def _nodes_ready_condition(accepted: Condition, new: SpecRevision | None) -> Condition:
    if new is None:
        return false_condition("NodesReady", accepted.reason, accepted.message)
    if not new.ready:
        return false_condition("NodesReady", "NodesNotReady", new.unready)
    skipped = summarize_unready(new.states)
    message = f"only optional nodes are not ready: {skipped}" if skipped else f"{len(new.states)} of {len(new.states)}"
    return Condition(type="NodesReady", status="True", reason="AllReady", message=message)


def _switch_notes(before: GraphServing | None, now: GraphServing | None) -> Iterator[EventNote]:
    if before is not None and now is not None and before.generation != now.generation:
        yield EventNote("Switched", f"switched from generation {before.generation} to generation {now.generation}")


def _references_of(found: Resource) -> set[Ref]:
    """Further objects that determine whether this one is available, and which graphs it calls."""
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

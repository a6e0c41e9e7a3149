"""The switch from one spec of a graph to the next: which one is serving, when the new one may take over, and which
Workloads run until gateways have left the old one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mizzen.controllers.graphs import metadata_propagation
from mizzen.controllers.graphs.container_workloads import wanted_workloads
from mizzen.controllers.graphs.facts import GraphFacts, ProbeResult
from mizzen.controllers.graphs.node_status import find_required, nodes_scaled_to_zero, states_of, summarize_unready
from mizzen.graph.compile.graph import PROTOCOLS, spec_of
from mizzen.kinds.graph.spec import GraphNodeState, GraphServing, MLGraphSpec
from mizzen.kinds.schema.resource import Resource, format_time, parse_time
from mizzen.kinds.serving import CEILING_MS
from mizzen.kinds.workload import WireProtocol
from mizzen.reconcile.workloads import count_ready, is_available

SHORTEST_END: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class SpecRevision:
    """One spec of the graph, with its Workloads and the states of its nodes."""

    spec: MLGraphSpec
    serving: GraphServing
    workloads: Mapping[str, Resource]
    """The desired ones, by the name of the container within the graph."""
    states: tuple[GraphNodeState, ...]
    whole: bool = True
    """All replicas of its containers are ready, not only one of each."""

    @property
    def ready(self) -> bool:
        return all(state.ready for state in find_required(self.spec, self.states))

    @property
    def unready(self) -> str:
        """Why required nodes are not ready, as text for users."""
        return summarize_unready(find_required(self.spec, self.states))

    @property
    def settled(self) -> bool:
        """Ready, apart from nodes whose containers the spec scales to zero."""
        return _is_settled(self.spec, self.states)


def build_desired(facts: GraphFacts, spec: MLGraphSpec, serving: GraphServing | None) -> SpecRevision:
    """The revision of the latest spec. `serving`: the revision that is serving, which may be of the same spec."""
    resource, generation = facts.resource, facts.resource.meta.generation
    workloads = wanted_workloads(resource, spec, facts.children)
    there = {name: child for name, one in workloads.items() if (child := facts.child(one.meta.name)) is not None}
    states = states_of(spec, resource.meta.namespace, facts.called_objects, there, facts.probes)
    proven = serving is not None and serving.generation == generation and serving.proven
    return SpecRevision(
        spec=spec,
        serving=GraphServing(
            generation=generation,
            spec=dict(MLGraphSpec.normalize(resource.spec, resource.meta.annotations)),
            proven=proven or _is_settled(spec, states),
            workloads={name: one.meta.name for name, one in workloads.items()},
            protocols={text: one.protocol for text, one in facts.probes.items() if one.protocol is not None},
        ),
        workloads=workloads,
        states=states,
        whole=all(count_ready(there.get(name)) >= one.spec["replicas"] for name, one in workloads.items()),
    )


def build_serving(facts: GraphFacts, serving: GraphServing | None, new: SpecRevision | None) -> SpecRevision | None:
    """The revision that is serving, if it is not `new`, with its Workloads as they are. Lost ones are recreated."""
    spec = spec_of(serving)
    if serving is None or spec is None or (new is not None and new.serving.generation == serving.generation):
        return None
    lost = wanted_workloads(facts.resource, spec, facts.children)
    workloads, there = {}, {}
    for name, workload in serving.workloads.items():
        found = facts.child(workload)
        if found is not None:
            workloads[name] = there[name] = found
        elif name in lost:
            workloads[name] = replace(lost[name], meta=replace(lost[name].meta, name=workload))
    probes = {text: ProbeResult(protocol) for text, protocol in protocols_of(serving).items()}
    states = states_of(spec, facts.resource.meta.namespace, facts.called_objects, there, probes)
    return SpecRevision(spec, serving, workloads, states)


def should_take_over(new: SpecRevision, old: SpecRevision | None) -> bool:
    """A revision that never had all nodes ready is replaced at once. To replace one that had, the new revision must be
    able to bear the full load from the first moment."""
    return old is None or not old.serving.proven or (new.settled and new.whole)


def _is_settled(spec: MLGraphSpec, states: Iterable[GraphNodeState]) -> bool:
    off = nodes_scaled_to_zero(spec)
    return all(state.ready or state.name in off for state in find_required(spec, states))


def merge_workloads(versions: Iterable[SpecRevision]) -> dict[str, Resource]:
    """The Workloads of one or two revisions, by name. A shared one gets the larger number of replicas."""
    found: dict[str, Resource] = {}
    for workload in (workload for version in versions for workload in version.workloads.values()):
        before = found.get(workload.meta.name, workload)
        most = max(before.spec.get("replicas", 1), workload.spec.get("replicas", 1))
        found[workload.meta.name] = replace(before, spec={**before.spec, "replicas": most})
    return found


def find_draining(
    facts: GraphFacts, serving: GraphServing | None, wanted: Mapping[str, Resource], now: datetime
) -> dict[str, float]:
    """Workloads that were serving until just now, with the seconds they have left. They finish their requests, and stay
    until gateways have left them."""
    spec = spec_of(serving)
    # The timeout of the previous spec: none of its requests takes longer.
    longest = timedelta(milliseconds=(spec.timeout_ms if spec is not None else None) or CEILING_MS)
    served = frozenset(serving.workloads.values()) if serving is not None else frozenset()
    found = {}
    for child in facts.children:
        name, noted = child.meta.name, child.meta.annotations.get(metadata_propagation.ENDS_AFTER)
        if name in wanted or child.deleting or not is_available(child) or not (noted or name in served):
            continue
        ends = _parse_time(noted) or now + max(longest, SHORTEST_END)
        left = (ends - now).total_seconds()
        if left > 0 or name not in facts.left:
            found[name] = left
    return found


def mark_ending(facts: GraphFacts, name: str, now: datetime, seconds: float) -> Resource:
    """The Workload of this name, annotated with the time after which it may end. That time is set only once."""
    child = facts.child(name)
    assert child is not None
    noted = child.meta.annotations.get(metadata_propagation.ENDS_AFTER)
    ends = noted if noted and _parse_time(noted) else format_time(now + timedelta(seconds=seconds))
    return metadata_propagation.propagate(facts.resource, child, child, ends=ends)


def _parse_time(text: str | None) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None


def protocols_of(serving: GraphServing | None) -> dict[str, WireProtocol]:
    """The protocols of services, as recorded in the status; unknown protocols are skipped."""
    recorded = serving.protocols if serving is not None else {}
    return {text: known for text, protocol in recorded.items() for known in PROTOCOLS if known == protocol}

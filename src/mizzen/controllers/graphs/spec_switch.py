"""From one spec of a graph to the next: which one answers now, when the new one may take over, and what runs until the
old one is left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mizzen.controllers.graphs import metadata_propagation
from mizzen.controllers.graphs.container_workloads import wanted_workloads
from mizzen.controllers.graphs.facts import GraphFacts, Probed, is_available
from mizzen.controllers.graphs.node_status import needed, states_of, stopped
from mizzen.graph.compile.graph import SPOKEN, spec_of
from mizzen.kinds.graph.spec import GraphServing, MLGraphSpec, NodeState
from mizzen.kinds.schema.resource import Resource, format_time, parse_time
from mizzen.kinds.serving import CEILING_MS
from mizzen.kinds.workload import Spoken, WorkloadStatus

SHORTEST_END: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Version:
    """One spec of the graph, with what it runs and how its nodes are."""

    spec: MLGraphSpec
    serving: GraphServing
    workloads: Mapping[str, Resource]
    """As wanted, by the name of the container within the graph."""
    states: tuple[NodeState, ...]
    whole: bool = True
    """All replicas of its containers answer, and not only one of each."""

    @property
    def ready(self) -> bool:
        return all(state.ready for state in needed(self.spec, self.states))

    @property
    def settled(self) -> bool:
        """Ready, but for what the spec itself stops."""
        return _is_settled(self.spec, self.states)


def asked_for(facts: GraphFacts, spec: MLGraphSpec, serving: GraphServing | None) -> Version:
    """The spec that is asked for. `serving`: what answers, which may be by the same spec."""
    resource, generation = facts.resource, facts.resource.meta.generation
    workloads = wanted_workloads(resource, spec, facts.children)
    there = {name: child for name, one in workloads.items() if (child := facts.child(one.meta.name)) is not None}
    states = states_of(spec, resource.meta.namespace, facts.neighbours, there, facts.probed)
    proven = serving is not None and serving.generation == generation and serving.proven
    return Version(
        spec=spec,
        serving=GraphServing(
            generation=generation,
            spec=dict(MLGraphSpec.meant(resource.spec, resource.meta.annotations)),
            proven=proven or _is_settled(spec, states),
            workloads={name: one.meta.name for name, one in workloads.items()},
            protocols={text: one.protocol for text, one in facts.probed.items() if one.protocol is not None},
        ),
        workloads=workloads,
        states=states,
        whole=all(_ready_replicas(there.get(name)) >= one.spec["replicas"] for name, one in workloads.items()),
    )


def answering(facts: GraphFacts, serving: GraphServing | None, new: Version | None) -> Version | None:
    """The spec that answers now, when it is another than `new`, with its Workloads as they are; those that were lost
    are made anew."""
    spec = spec_of(serving)
    if serving is None or spec is None or (new is not None and new.serving.generation == serving.generation):
        return None
    anew = wanted_workloads(facts.resource, spec, facts.children)
    workloads, there = {}, {}
    for name, workload in serving.workloads.items():
        found = facts.child(workload)
        if found is not None:
            workloads[name] = there[name] = found
        elif name in anew:
            workloads[name] = replace(anew[name], meta=replace(anew[name].meta, name=workload))
    probed: dict[str, Probed] = {text: Probed(protocol) for text, protocol in answered(serving).items()}
    states = states_of(spec, facts.resource.meta.namespace, facts.neighbours, there, probed)
    return Version(spec, serving, workloads, states)


def takes_over(new: Version, old: Version | None) -> bool:
    """What never had all its nodes ready is replaced at once. In the place of what had, the new one has to bear the
    load from the first moment."""
    return old is None or not old.serving.proven or (new.settled and new.whole)


def _is_settled(spec: MLGraphSpec, states: Iterable[NodeState]) -> bool:
    off = stopped(spec)
    return all(state.ready or state.name in off for state in needed(spec, states))


def joined(versions: Iterable[Version]) -> dict[str, Resource]:
    """Workloads of one spec or of two, by name. One that both want has as many replicas as either asks for."""
    found: dict[str, Resource] = {}
    for workload in (workload for version in versions for workload in version.workloads.values()):
        before = found.get(workload.meta.name, workload)
        most = max(before.spec.get("replicas", 1), workload.spec.get("replicas", 1))
        found[workload.meta.name] = replace(before, spec={**before.spec, "replicas": most})
    return found


def staying(
    facts: GraphFacts, serving: GraphServing | None, wanted: Mapping[str, Resource], now: datetime
) -> dict[str, float]:
    """Workloads that answered until a moment ago, with the seconds they have left: requests that began with them end
    with them, and gateways have to leave them."""
    spec = spec_of(serving)
    # Of the spec before: no request of it takes longer.
    longest = timedelta(milliseconds=(spec.timeout_ms if spec is not None else None) or CEILING_MS)
    served = frozenset(serving.workloads.values()) if serving is not None else frozenset()
    found = {}
    for child in facts.children:
        name, noted = child.meta.name, child.meta.annotations.get(metadata_propagation.ENDS)
        if name in wanted or child.deleting or not is_available(child) or not (noted or name in served):
            continue
        ends = _time(noted) or now + max(longest, SHORTEST_END)
        left = (ends - now).total_seconds()
        if left > 0 or name not in facts.left:
            found[name] = left
    return found


def ending(facts: GraphFacts, name: str, now: datetime, seconds: float) -> Resource:
    """The Workload of this name, with the time after which it may end written on it, once."""
    child = facts.child(name)
    assert child is not None
    noted = child.meta.annotations.get(metadata_propagation.ENDS)
    ends = noted if noted and _time(noted) else format_time(now + timedelta(seconds=seconds))
    return metadata_propagation.passed_on(facts.resource, child, child, ends=ends)


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None


def answered(serving: GraphServing | None) -> dict[str, Spoken]:
    """What services said they speak, as far as that is known to be something."""
    said = serving.protocols if serving is not None else {}
    return {text: spoken for text, word in said.items() for spoken in SPOKEN if spoken == word}


def _ready_replicas(workload: Resource | None) -> int:
    if workload is None:
        return 0
    return sum(replica.state == "ready" for replica in WorkloadStatus.of(workload).replicas)

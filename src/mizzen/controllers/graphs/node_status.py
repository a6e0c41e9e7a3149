"""The state of each node: whether all its callees are available, and if not, why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mizzen.controllers.graphs.callees import CalledObjects, explain_unavailable
from mizzen.controllers.graphs.facts import ProbeRequest, ProbeResult
from mizzen.graph.compile.graph import guess_model_name
from mizzen.kinds.graph import callees
from mizzen.kinds.graph.callees import DeclaredCall, GraphContainer
from mizzen.kinds.graph.spec import GraphNodeState, MLGraphSpec
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.text import addresses
from mizzen.kinds.workload import WorkloadStatus
from mizzen.reconcile.workloads import is_available

MAX_NODES_NAMED: Final = 5
"""Nodes that a message names; the status lists them all."""


def states_of(
    spec: MLGraphSpec,
    namespace: str,
    called_objects: CalledObjects,
    workloads: Mapping[str, Resource],
    probes: Mapping[str, ProbeResult],
) -> tuple[GraphNodeState, ...]:
    """In the order of the spec. `workloads`: the existing ones, by the name of the container within the graph;
    `probes`: results for services, by address."""
    called, containers = callees.calls_of(spec), callees.containers_of(spec)

    def why_not(call: DeclaredCall) -> str:
        if call.lacking:
            return call.lacking
        if call.served is not None:
            return explain_unavailable(call.served, namespace, called_objects)
        if call.address:
            return _explain_service(call, probes.get(call.address))
        container = containers.get(call.container)
        if container is None:
            return f"there is no container '{call.container}'"
        return _explain_container(container, workloads.get(call.container))

    states = []
    for node in spec.dag:
        reasons = [callees.explain_unsupported(node), *map(why_not, called[node.name])]
        reason = next(filter(None, reasons), "")
        protocol = _protocol_of(called[node.name], probes)
        states.append(GraphNodeState(name=node.name, ready=not reason, reason=reason, protocol=protocol))
    return tuple(states)


def probe_requests_of(spec: MLGraphSpec) -> dict[str, ProbeRequest]:
    """The services that the graph calls, by address as written."""
    found: dict[str, ProbeRequest] = {}
    for call in (call for of_node in callees.calls_of(spec).values() for call in of_node if call.address):
        address = addresses.parse(call.address)
        before = found.get(call.address)
        protocol = call.protocol or (before.protocol if before is not None else None)
        model = before.model if before is not None else guess_model_name(address, call.node)
        found[call.address] = ProbeRequest(address, model, protocol)
    return found


def find_required(spec: MLGraphSpec, states: Iterable[GraphNodeState]) -> tuple[GraphNodeState, ...]:
    """The nodes that must be ready: all but shadows and those with `onError: skip`."""
    skipped = {node.name for node in spec.dag if node.on_error == "skip"}
    splits = [node.route.split for node in spec.dag if node.route is not None and node.route.split is not None]
    shadows = {name for split in splits for name in split.shadow}
    return tuple(state for state in states if state.name not in skipped | shadows)


def nodes_scaled_to_zero(spec: MLGraphSpec) -> frozenset[str]:
    """Nodes that are not ready because the spec wants zero replicas of a container they call. A switch ignores them."""
    containers = callees.containers_of(spec)
    return frozenset(
        node
        for node, called in callees.calls_of(spec).items()
        if any(call.container in containers and containers[call.container].replicas == 0 for call in called)
    )


def summarize_unready(states: Iterable[GraphNodeState]) -> str:
    """One message that says why nodes are not ready."""
    waiting = [f"node '{state.name}': {state.reason}" for state in states if not state.ready]
    more = len(waiting) - MAX_NODES_NAMED
    return "; ".join((*waiting[:MAX_NODES_NAMED], f"and {more} more")) if more > 0 else "; ".join(waiting)


def _explain_service(call: DeclaredCall, probe: ProbeResult | None) -> str:
    if probe is None or (probe.protocol is None and not probe.why):
        return f"service '{call.address}' has not responded yet"
    return "" if probe.protocol is not None else f"service '{call.address}' does not respond: {probe.why}"


def _explain_container(container: GraphContainer, workload: Resource | None) -> str:
    if container.missing:
        return container.missing
    name = container.container.name
    if workload is None:
        return f"container '{name}' is not started yet"
    if is_available(workload):
        return ""
    return f"container '{name}' is not ready: {next(_list_messages(workload), 'it was started, but is not ready yet')}"


def _list_messages(workload: Resource) -> Iterator[str]:
    status = WorkloadStatus.of(workload)
    available = status.condition("Available")
    if available is not None and available.message:
        yield available.message
    yield from (replica.message for replica in status.replicas if replica.message)


def _protocol_of(called: Iterable[DeclaredCall], probes: Mapping[str, ProbeResult]) -> str:
    protocols = (probes[call.address].protocol for call in called if call.address in probes)
    return next(filter(None, protocols), "")

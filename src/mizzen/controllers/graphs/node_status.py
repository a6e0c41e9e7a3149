"""The state of each node: can all that it calls be called, and if not, why? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mizzen.controllers.graphs.callees import Neighbours, why_silent
from mizzen.controllers.graphs.facts import Probed, Question, is_available
from mizzen.graph.compile.graph import model_at
from mizzen.kinds.graph import callees
from mizzen.kinds.graph.callees import Call, GraphContainer
from mizzen.kinds.graph.spec import MLGraphSpec, NodeState
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.text import addresses
from mizzen.kinds.workload import WorkloadStatus

MOST_TOLD: Final = 5
"""Nodes that a message names; the status has them all."""


def states_of(
    spec: MLGraphSpec,
    namespace: str,
    neighbours: Neighbours,
    workloads: Mapping[str, Resource],
    probed: Mapping[str, Probed],
) -> tuple[NodeState, ...]:
    """As the nodes are written. `workloads`: those that are there, by the name of the container within the graph;
    `probed`: services, by address."""
    called, containers = callees.calls_of(spec), callees.containers_of(spec)

    def why_not(call: Call) -> str:
        if call.lacking:
            return call.lacking
        if call.served is not None:
            return why_silent(call.served, namespace, neighbours)
        if call.address:
            return _service(call, probed.get(call.address))
        container = containers.get(call.container)
        if container is None:
            return f"there is no container '{call.container}'"
        return _container(container, workloads.get(call.container))

    states = []
    for node in spec.dag:
        reasons = [callees.lacking(node), *map(why_not, called[node.name])]
        reason = next(filter(None, reasons), "")
        states.append(
            NodeState(name=node.name, ready=not reason, reason=reason, protocol=_protocol(called[node.name], probed))
        )
    return tuple(states)


def questions_of(spec: MLGraphSpec) -> dict[str, Question]:
    """What services are asked that the graph calls, by address as written."""
    found: dict[str, Question] = {}
    for call in (call for of_node in callees.calls_of(spec).values() for call in of_node if call.address):
        address = addresses.parse(call.address)
        before = found.get(call.address)
        protocol = call.protocol or (before.protocol if before is not None else None)
        model = before.model if before is not None else model_at(address, call.node)
        found[call.address] = Question(address, model, protocol)
    return found


def needed(spec: MLGraphSpec, states: Iterable[NodeState]) -> tuple[NodeState, ...]:
    """Those that have to be ready: a node that may be skipped does not, and no shadow does."""
    skipped = {node.name for node in spec.dag if node.on_error == "skip"}
    splits = [node.route.split for node in spec.dag if node.route is not None and node.route.split is not None]
    shadows = {name for split in splits for name in split.shadow}
    return tuple(state for state in states if state.name not in skipped | shadows)


def stopped(spec: MLGraphSpec) -> frozenset[str]:
    """Nodes that are not ready because the spec wants no replica of what they call: nobody waits for those."""
    containers = callees.containers_of(spec)
    return frozenset(
        node
        for node, called in callees.calls_of(spec).items()
        if any(call.container in containers and containers[call.container].replicas == 0 for call in called)
    )


def told(states: Iterable[NodeState]) -> str:
    """Why nodes are not ready, in one message."""
    waiting = [f"node '{state.name}': {state.reason}" for state in states if not state.ready]
    more = len(waiting) - MOST_TOLD
    return "; ".join((*waiting[:MOST_TOLD], f"and {more} more")) if more > 0 else "; ".join(waiting)


def _service(call: Call, probed: Probed | None) -> str:
    if probed is None or (probed.protocol is None and not probed.why):
        return f"service '{call.address}' has not answered yet"
    return "" if probed.protocol is not None else f"service '{call.address}' does not answer: {probed.why}"


def _container(container: GraphContainer, workload: Resource | None) -> str:
    if container.missing:
        return container.missing
    name = container.container.name
    if workload is None:
        return f"container '{name}' is not started yet"
    if is_available(workload):
        return ""
    return f"container '{name}' is not ready: {next(_troubles(workload), 'it was started, and has not answered yet')}"


def _troubles(workload: Resource) -> Iterator[str]:
    status = WorkloadStatus.of(workload)
    available = status.condition("Available")
    if available is not None and available.message:
        yield available.message
    yield from (replica.message for replica in status.replicas if replica.message)


def _protocol(called: Iterable[Call], probed: Mapping[str, Probed]) -> str:
    said = (probed[call.address].protocol for call in called if call.address in probed)
    return next(filter(None, said), "")

"""Compiles an MLGraph into a CompiledGraph: its nodes in order, what each calls, and the Services they need. Pure.

Served models and graphs are called by inference name, which a gateway looks up in the same Table. Containers and
external services are called over HTTP. Each is one Service, however many nodes call it. The exception is Seldon's
protocol, which has a different path for each role.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, get_args

from msgspec import structs
from pydantic import ValidationError

from mizzen.graph.compile.plans import addresses_of, constants_of, record_limits_of
from mizzen.graph.table_types import (
    Callee,
    CompiledGraph,
    GraphInput,
    Merging,
    Node,
    Plan,
    Policy,
    Route,
    Routing,
    Service,
)
from mizzen.kinds.graph import callees as graph_callees
from mizzen.kinds.graph.callees import GraphContainer, Role
from mizzen.kinds.graph.nodes import Ensemble, GraphNode
from mizzen.kinds.graph.routes import Bandit, Split
from mizzen.kinds.graph.spec import GraphServing, MLGraphSpec, MLGraphStatus
from mizzen.kinds.graph.topological_order import in_order
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import Feedback
from mizzen.kinds.text import addresses
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import WireProtocol, WorkloadStatus

MAX_DEPTH: Final = 8
"""Levels of graphs that call graphs, including the outermost."""

PROTOCOLS: Final[tuple[WireProtocol, ...]] = get_args(WireProtocol)
_SELDON_PATHS: Final[Mapping[Role, str]] = MappingProxyType(
    {"implementation": "/predict", "route": "/route", "merge": "/aggregate"}
)


@dataclass(frozen=True, slots=True)
class NestingFault:
    """Why a graph cannot call its callees: a cycle, or too many levels."""

    message: str
    too_deep: bool = False


def route_of(graph: Resource, workloads: Mapping[Ref, Resource]) -> tuple[Route, tuple[Service, ...]] | None:
    """Return the graph's route and Services, from the spec that its status says is served; None without such a spec.

    Also None if the status is inconsistent because something else wrote it: the graph's controller will rewrite it.
    """
    serving = MLGraphStatus.of(graph).serving
    spec = spec_of(serving)
    if serving is None or spec is None:
        return None
    namespace, name = graph.meta.namespace, graph.meta.name
    named = {unit: workloads.get(Ref("Workload", name, namespace)) for unit, name in serving.workloads.items()}
    found = {unit: workload for unit, workload in named.items() if workload is not None}
    protocols = {
        address: spoken for address, name in serving.protocols.items() if (spoken := _parse_protocol(name)) is not None
    }
    try:
        compiled, services = compile_graph(graph, spec, found, generation=serving.generation, protocols=protocols)
    except LookupError:  # a missing node, child or container
        return None
    if len(compiled.nodes) < len(spec.dag):  # a cycle, or two nodes with one name
        return None
    compiled = structs.replace(compiled, away=_unreachable_nodes(compiled, graph))
    plan = Plan(
        graph=compiled, default=constants_of(spec.default_output), kept=record_limits_of(graph, _feedback_of(spec))
    )
    version = str(serving.generation)
    return Route(namespace=namespace, name=name, version=version, plan=plan, versions={version: plan}), services


def _unreachable_nodes(compiled: CompiledGraph, graph: Resource) -> dict[str, str]:
    """Return why nodes are unreachable. Only services and containers: gateways cannot know before they call them."""
    status = MLGraphStatus.of(graph)
    if status.observed_generation != compiled.generation:  # the node statuses describe another spec
        return {}
    why = {node.name: node.reason for node in status.nodes if not node.ready}
    return {node.name: why[node.name] for node in compiled.nodes if node.name in why and _calls_service(node)}


def _calls_service(node: Node) -> bool:
    merging = None if node.merge is None else node.merge.call
    routing = None if node.route is None else node.route.call
    return any(call is not None and call.service for call in (node.call, merging, routing))


def spec_of(serving: GraphServing | None) -> MLGraphSpec | None:
    """Return the spec that is served; None if there is none, or it can no longer be parsed."""
    try:
        return None if serving is None else MLGraphSpec.model_validate(serving.spec)
    except ValidationError:
        return None


def compile_graph(
    graph: Resource,
    spec: MLGraphSpec,
    workloads: Mapping[str, Resource],
    *,
    generation: int | None = None,
    protocols: Mapping[str, WireProtocol] | None = None,
) -> tuple[CompiledGraph, tuple[Service, ...]]:
    """Compile a graph. `workloads`: the Workload of each running container, by its name in `containers_of`.
    `generation`: of the spec; default: that of the graph. `protocols`: detected protocols of services, by address."""
    compiler = _Compiler(graph, spec, workloads, protocols or {})
    compiled = CompiledGraph(
        uid=graph.meta.uid,
        generation=graph.meta.generation if generation is None else generation,
        nodes=tuple(map(compiler.compile_node, spec.nodes_in_order())),
        timeout_ms=spec.timeout_ms,
        inputs=tuple(GraphInput(name=one.name, datatype=one.datatype, shape=one.shape) for one in spec.inputs),
        headers=tuple(dict.fromkeys(header.lower() for header in spec.headers)),
    )
    return compiled, tuple(compiler.services[id_] for id_ in sorted(compiler.services))


def find_nesting_faults(calls_by_graph: Mapping[str, Collection[str]]) -> dict[str, NestingFault]:
    """Find the graphs of a namespace that call themselves, directly or through others, or that nest too deep.

    `calls_by_graph`: for each graph the names that it calls; names that are not graphs are ignored. A graph that calls
    into a cycle without being part of it has no fault.
    """
    nested = {
        name: [on for on in dict.fromkeys(called) if on in calls_by_graph] for name, called in calls_by_graph.items()
    }
    found = {name: NestingFault(_cycle_message(cycle)) for name in nested if (cycle := _find_cycle(name, nested))}
    deepest: dict[str, tuple[str, ...]] = {}
    for name in in_order({name: [on for on in called if on != name] for name, called in nested.items()}):
        below = max((deepest[on] for on in nested[name] if on in deepest), key=len, default=())
        deepest[name] = (name, *below)
        if len(deepest[name]) > MAX_DEPTH:
            way = " -> ".join(deepest[name])
            message = f"graphs call each other {len(deepest[name])} levels deep; at most {MAX_DEPTH} are allowed: {way}"
            found.setdefault(name, NestingFault(message, too_deep=True))
    return found


def _cycle_message(cycle: tuple[str, ...]) -> str:
    if len(cycle) == 1:
        return f"graph '{cycle[0]}' calls itself"
    return f"graphs call each other in a cycle: {' -> '.join((*cycle, cycle[0]))}"


def _find_cycle(name: str, nested: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the shortest path from a graph back to itself, each called by the one before; empty if there is none."""
    came: dict[str, str] = {}
    waiting = deque([name])
    while waiting:
        here = waiting.popleft()
        for on in nested[here]:
            if on == name:
                way = [here]
                while way[-1] != name:
                    way.append(came[way[-1]])
                return tuple(reversed(way))
            if on not in came:
                came[on] = here
                waiting.append(on)
    return ()


def _feedback_of(spec: MLGraphSpec) -> Feedback | None:
    """Return the feedback settings. A graph with a bandit always stores records: bandits learn from feedback."""
    bandits = any(node.route is not None and node.route.mab is not None for node in spec.dag)
    return spec.feedback or (Feedback.model_validate({}) if bandits else None)


class _Compiler:
    """Compiles the nodes of one graph and collects the Services that they call."""

    def __init__(
        self, graph: Resource, spec: MLGraphSpec, found: Mapping[str, Resource], protocols: Mapping[str, WireProtocol]
    ) -> None:
        self.services: dict[str, Service] = {}
        self._graph = graph
        self._spec = spec
        self._workloads = found
        self._protocols = protocols
        self._places = {node.name: place for place, node in enumerate(spec.nodes_in_order())}
        self._children = spec.children()
        self._calls = graph_callees.calls_of(spec)
        self._containers = graph_callees.containers_of(spec)

    def compile_node(self, node: GraphNode) -> Node:
        called = {call.role: call for call in self._calls[node.name]}
        lacking = graph_callees.explain_unsupported(node) or next(
            (call.lacking for call in called.values() if call.lacking), ""
        )
        callees = {role: self._callee_of(call) for role, call in called.items() if not call.lacking}
        return Node(
            name=node.name,
            dependencies=tuple(self._places[name] for name in node.dependencies),
            children=tuple(sorted(self._places[name] for name in self._children[node.name])),
            merge=self._compile_merge(node, callees.get("merge")),
            call=callees.get("implementation"),
            route=self._compile_route(node, callees.get("route")),
            timeout_ms=node.timeout_ms,
            skip=node.on_error == "skip",
            lacking=lacking,
        )

    def _compile_merge(self, node: GraphNode, callee: Callee | None) -> Merging | None:
        if node.merge is None or not node.dependencies:
            return None
        if callee is not None and node.merge.call is not None:
            return Merging(kind="call", call=callee, incremental=node.merge.call[1].mode == "incremental")
        return self._compile_ensemble(node, node.merge.joins) if node.merge.joins is not None else None

    def _compile_ensemble(self, node: GraphNode, ensemble: Ensemble) -> Merging:
        weights = ensemble.weights or {}
        implied = self._spec.default_output is not None
        return Merging(
            kind=ensemble.method,
            weights=tuple(weights.get(name, 0.0) for name in node.dependencies) if weights else (),
            partial=implied if ensemble.partial is None else ensemble.partial,
            threshold=ensemble.threshold,
        )

    def _compile_route(self, node: GraphNode, callee: Callee | None) -> Routing | None:
        route, names = node.route, sorted(self._children[node.name], key=self._places.__getitem__)
        if route is None:
            return None
        if callee is not None:
            return Routing(kind="call", children=tuple(map(self._places.__getitem__, names)), call=callee)
        if route.split is not None and names:
            return self._compile_split(route.split, names)
        if route.mab is not None and names:
            policy = _policy_of(route.mab)
            children = tuple(map(self._places.__getitem__, names))
            return Routing(kind="mab", children=children, policy=policy) if policy is not None else None
        return None

    def _compile_split(self, split: Split, names: list[str]) -> Routing:
        open_ = [name for name in names if name not in split.shadow]
        traffic = split.traffic
        mark, _, header = (split.key or "").partition(":")
        return Routing(
            kind="split",
            children=tuple(self._places[name] for name in open_),
            weights=() if traffic is None else tuple(float(traffic.get(name, 0)) for name in open_),
            key=f"{mark}:{header.lower()}" if header else mark,
            shadows=tuple(self._places[name] for name in names if name in split.shadow),
        )

    def _callee_of(self, call: graph_callees.DeclaredCall) -> Callee:
        if call.served is not None:
            return Callee(name=call.served.name, version=call.served.version or call.served.alias)
        service = self._external_service(call) if call.address else self._container_service(call)
        self.services[service.id] = service
        return Callee(service=service.id)

    def _container_service(self, call: graph_callees.DeclaredCall) -> Service:
        """Return the Service of a container of the graph."""
        meta, container = self._graph.meta, self._containers[call.container]
        workload = self._workloads.get(call.container)
        protocol = _protocol_of(container, workload)
        own = protocol == "seldon" and call.role != "implementation"
        there = addresses_of(workload) if workload is not None and not container.missing else ()
        return Service(
            id=f"{meta.namespace}/{meta.name}/{call.container}{f'#{call.role}' if own else ''}",
            addresses=there,
            path=_path_of(protocol, call.role, container.container.name),
            protocol=protocol,
            missing="" if there else container.missing or f"container '{container.container.name}' is not started yet",
        )

    def _external_service(self, call: graph_callees.DeclaredCall) -> Service:
        """Return the Service of an external address."""
        address = addresses.parse(call.address)
        protocol: WireProtocol = call.protocol or self._protocols.get(call.address, "v2")
        path = address.path or _path_of(protocol, call.role, guess_model_name(address, call.node))
        host = f"{address.scheme}://{address.host}:{address.port}"
        return Service(id=f"svc:{host}{path}#{protocol}", addresses=(host,), path=path, protocol=protocol)


def guess_model_name(address: Address, node: str) -> str:
    """Guess the name of the model at an external service: the first label of its host, or the node's name."""
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return node if address.host == "localhost" else address.host.partition(".")[0]
    return node


def _protocol_of(container: GraphContainer, workload: Resource | None) -> WireProtocol:
    if container.protocol is not None:
        return container.protocol
    replicas = WorkloadStatus.of(workload).replicas if workload is not None else ()
    return next((spoken for replica in replicas if (spoken := _parse_protocol(replica.protocol)) is not None), "v2")


def _parse_protocol(text: str) -> WireProtocol | None:
    return next((spoken for spoken in PROTOCOLS if spoken == text), None)


def _path_of(protocol: WireProtocol, role: Role, model: str) -> str:
    match protocol:
        case "v2":
            return f"/v2/models/{model}/infer"
        case "v1":
            return f"/v1/models/{model}:predict"
        case "seldon":
            return _SELDON_PATHS[role]


def _policy_of(bandit: Bandit) -> Policy | None:
    """Return the bandit's policy; None if gateways do not run it."""
    match bandit.policy:
        case "egreedy":
            return Policy(name="egreedy", epsilon=bandit.egreedy or 0.0, per_user=bandit.per_user)
        case "ucb1" if bandit.ucb1 is not None:
            return Policy(name="ucb1", c=bandit.ucb1.c, per_user=bandit.per_user)
        case "thompson":
            return Policy(name="thompson", per_user=bandit.per_user)
        case "exp3" if bandit.exp3 is not None:
            exp3 = bandit.exp3
            return Policy(name="exp3", eta=exp3.eta, gamma=exp3.gamma, share=exp3.share, per_user=bandit.per_user)
    return None

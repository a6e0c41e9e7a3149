"""MLGraph -> Graph: its nodes in order, what each calls, and the Services behind that. Pure.

Something served is called by its inference name, which a gateway looks up in the same Table. Containers and services
are called over HTTP: each is one Service, however many nodes call it, but for what speaks Seldon's protocol, which has
another path for each use of it.
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

from mizzen.graph.compile.plans import addresses_of, constants_of, kept_of
from mizzen.graph.table_types import Callee, Graph, Merging, Node, Plan, Policy, Route, Routing, Service, Tensor
from mizzen.kinds.graph import callees as graph_callees
from mizzen.kinds.graph.callees import Call, GraphContainer, Role
from mizzen.kinds.graph.nodes import Ensemble, GraphNode
from mizzen.kinds.graph.routes import Bandit, Split
from mizzen.kinds.graph.spec import GraphServing, MLGraphSpec, MLGraphStatus
from mizzen.kinds.graph.topological_order import in_order
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import Feedback
from mizzen.kinds.text import addresses
from mizzen.kinds.text.addresses import Address
from mizzen.kinds.workload import Spoken, WorkloadStatus

DEEPEST: Final = 8
"""Graphs within graphs, the outermost counted."""

SPOKEN: Final[tuple[Spoken, ...]] = get_args(Spoken)
_SELDON: Final[Mapping[Role, str]] = MappingProxyType(
    {"implementation": "/predict", "route": "/route", "merge": "/aggregate"}
)


@dataclass(frozen=True, slots=True)
class Misnested:
    """Why a graph cannot call the graphs that it calls: they call it, or they call each other too deep."""

    message: str
    too_deep: bool = False


def route_of(graph: Resource, workloads: Mapping[Ref, Resource]) -> tuple[Route, tuple[Service, ...]] | None:
    """How the graph is answered now, by what its status says is served; None while no spec was accepted.

    None as well when somebody else has written a status that cannot be: its controller writes it anew.
    """
    serving = MLGraphStatus.of(graph).serving
    spec = spec_of(serving)
    if serving is None or spec is None:
        return None
    namespace, name = graph.meta.namespace, graph.meta.name
    named = {unit: workloads.get(Ref("Workload", name, namespace)) for unit, name in serving.workloads.items()}
    found = {unit: workload for unit, workload in named.items() if workload is not None}
    protocols = {address: spoken for address, said in serving.protocols.items() if (spoken := _known(said)) is not None}
    try:
        compiled, services = graph_of(graph, spec, found, generation=serving.generation, protocols=protocols)
    except LookupError:  # a node, a child or a container that is not there
        return None
    if len(compiled.nodes) < len(spec.dag):  # a cycle, or a name that two nodes have
        return None
    compiled = structs.replace(compiled, away=_away(compiled, graph))
    plan = Plan(graph=compiled, default=constants_of(spec.default_output), kept=kept_of(graph, _feedback(spec)))
    version = str(serving.generation)
    return Route(namespace=namespace, name=name, version=version, plan=plan, versions={version: plan}), services


def _away(compiled: Graph, graph: Resource) -> dict[str, str]:
    """Of what gateways cannot know before they ask: services, and containers."""
    status = MLGraphStatus.of(graph)
    if status.observed_generation != compiled.generation:  # what is told of nodes is told of another spec
        return {}
    why = {node.name: node.reason for node in status.nodes if not node.ready}
    return {node.name: why[node.name] for node in compiled.nodes if node.name in why and _calls_service(node)}


def _calls_service(node: Node) -> bool:
    merging = None if node.merge is None else node.merge.call
    routing = None if node.route is None else node.route.call
    return any(call is not None and call.service for call in (node.call, merging, routing))


def spec_of(serving: GraphServing | None) -> MLGraphSpec | None:
    """The spec that answers; None when there is none, or it cannot be read any more."""
    try:
        return None if serving is None else MLGraphSpec.model_validate(serving.spec)
    except ValidationError:
        return None


def graph_of(
    graph: Resource,
    spec: MLGraphSpec,
    found: Mapping[str, Resource],
    *,
    generation: int | None = None,
    protocols: Mapping[str, Spoken] | None = None,
) -> tuple[Graph, tuple[Service, ...]]:
    """`found`: the Workload of each container that runs, by its name in `containers_of`. `generation`: of the spec;
    unless said, that of the graph. `protocols`: what services answered that were asked what they speak, by address."""
    compiler = _Compiler(graph, spec, found, protocols or {})
    compiled = Graph(
        uid=graph.meta.uid,
        generation=graph.meta.generation if generation is None else generation,
        nodes=tuple(map(compiler.node, spec.ordered())),
        timeout_ms=spec.timeout_ms,
        inputs=tuple(Tensor(name=one.name, datatype=one.datatype, shape=one.shape) for one in spec.inputs),
        headers=tuple(dict.fromkeys(header.lower() for header in spec.headers)),
    )
    return compiled, tuple(compiler.services[id_] for id_ in sorted(compiler.services))


def graphs_in(calling: Mapping[str, Collection[str]]) -> dict[str, Misnested]:
    """Graphs of a namespace that call themselves, through however many others, or that go too deep.

    `calling`: of each graph the names that it calls; those that are no graphs do not count. A graph that calls one in a
    cycle is not at fault for that.
    """
    nested = {name: [on for on in dict.fromkeys(called) if on in calling] for name, called in calling.items()}
    found = {name: Misnested(_cyclic(cycle)) for name in nested if (cycle := _cycle(name, nested))}
    deepest: dict[str, tuple[str, ...]] = {}
    for name in in_order({name: [on for on in called if on != name] for name, called in nested.items()}):
        below = max((deepest[on] for on in nested[name] if on in deepest), key=len, default=())
        deepest[name] = (name, *below)
        if len(deepest[name]) > DEEPEST:
            way = " -> ".join(deepest[name])
            message = f"graphs call each other {len(deepest[name])} deep, and at most {DEEPEST} may: {way}"
            found.setdefault(name, Misnested(message, too_deep=True))
    return found


def _cyclic(cycle: tuple[str, ...]) -> str:
    if len(cycle) == 1:
        return f"graph '{cycle[0]}' calls itself"
    return f"graphs call each other in a cycle: {' -> '.join((*cycle, cycle[0]))}"


def _cycle(name: str, nested: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The shortest way from a graph back to itself, each called by the one before; empty when there is none."""
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


def _feedback(spec: MLGraphSpec) -> Feedback | None:
    """A bandit learns from feedback, so a graph with one keeps records anyway."""
    bandits = any(node.route is not None and node.route.mab is not None for node in spec.dag)
    return spec.feedback or (Feedback.model_validate({}) if bandits else None)


class _Compiler:
    """One graph on its way; gathers the Services that its nodes call."""

    def __init__(
        self, graph: Resource, spec: MLGraphSpec, found: Mapping[str, Resource], protocols: Mapping[str, Spoken]
    ) -> None:
        self.services: dict[str, Service] = {}
        self._graph = graph
        self._spec = spec
        self._found = found
        self._protocols = protocols
        self._places = {node.name: place for place, node in enumerate(spec.ordered())}
        self._children = spec.children()
        self._calls = graph_callees.calls_of(spec)
        self._containers = graph_callees.containers_of(spec)

    def node(self, node: GraphNode) -> Node:
        called = {call.role: call for call in self._calls[node.name]}
        lacking = graph_callees.lacking(node) or next((call.lacking for call in called.values() if call.lacking), "")
        callees = {role: self._callee(call) for role, call in called.items() if not call.lacking}
        return Node(
            name=node.name,
            dependencies=tuple(self._places[name] for name in node.dependencies),
            children=tuple(sorted(self._places[name] for name in self._children[node.name])),
            merge=self._merging(node, callees.get("merge")),
            call=callees.get("implementation"),
            route=self._routing(node, callees.get("route")),
            timeout_ms=node.timeout_ms,
            skip=node.on_error == "skip",
            lacking=lacking,
        )

    def _merging(self, node: GraphNode, callee: Callee | None) -> Merging | None:
        if node.merge is None or not node.dependencies:
            return None
        if callee is not None and node.merge.call is not None:
            return Merging(kind="call", call=callee, incremental=node.merge.call[1].mode == "incremental")
        return self._joining(node, node.merge.joins) if node.merge.joins is not None else None

    def _joining(self, node: GraphNode, ensemble: Ensemble) -> Merging:
        weights = ensemble.weights or {}
        implied = self._spec.default_output is not None
        return Merging(
            kind=ensemble.method,
            weights=tuple(weights.get(name, 0.0) for name in node.dependencies) if weights else (),
            partial=implied if ensemble.partial is None else ensemble.partial,
            threshold=ensemble.threshold,
        )

    def _routing(self, node: GraphNode, callee: Callee | None) -> Routing | None:
        route, names = node.route, sorted(self._children[node.name], key=self._places.__getitem__)
        if route is None:
            return None
        if callee is not None:
            return Routing(kind="call", children=tuple(map(self._places.__getitem__, names)), call=callee)
        if route.split is not None and names:
            return self._split(route.split, names)
        if route.mab is not None and names:
            policy = _policy(route.mab)
            children = tuple(map(self._places.__getitem__, names))
            return Routing(kind="mab", children=children, policy=policy) if policy is not None else None
        return None

    def _split(self, split: Split, names: list[str]) -> Routing:
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

    def _callee(self, call: Call) -> Callee:
        if call.served is not None:
            return Callee(name=call.served.name, version=call.served.version or call.served.alias)
        service = self._at(call) if call.address else self._run(call)
        self.services[service.id] = service
        return Callee(service=service.id)

    def _run(self, call: Call) -> Service:
        """A container of the graph."""
        meta, container = self._graph.meta, self._containers[call.container]
        workload = self._found.get(call.container)
        protocol = _spoken(container, workload)
        own = protocol == "seldon" and call.role != "implementation"
        there = addresses_of(workload) if workload is not None and not container.missing else ()
        return Service(
            id=f"{meta.namespace}/{meta.name}/{call.container}{f'#{call.role}' if own else ''}",
            addresses=there,
            path=_path(protocol, call.role, container.container.name),
            protocol=protocol,
            missing="" if there else container.missing or f"container '{container.container.name}' is not started yet",
        )

    def _at(self, call: Call) -> Service:
        """A service of others."""
        address = addresses.parse(call.address)
        protocol: Spoken = call.protocol or self._protocols.get(call.address, "v2")
        path = address.path or _path(protocol, call.role, model_at(address, call.node))
        host = f"{address.scheme}://{address.host}:{address.port}"
        return Service(id=f"svc:{host}{path}#{protocol}", addresses=(host,), path=path, protocol=protocol)


def model_at(address: Address, node: str) -> str:
    """What a model is probably called that a service offers: as its host is, by the first label; or as the node."""
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return node if address.host == "localhost" else address.host.partition(".")[0]
    return node


def _spoken(container: GraphContainer, workload: Resource | None) -> Spoken:
    if container.protocol is not None:
        return container.protocol
    replicas = WorkloadStatus.of(workload).replicas if workload is not None else ()
    return next((spoken for replica in replicas if (spoken := _known(replica.protocol)) is not None), "v2")


def _known(said: str) -> Spoken | None:
    return next((spoken for spoken in SPOKEN if spoken == said), None)


def _path(protocol: Spoken, role: Role, model: str) -> str:
    match protocol:
        case "v2":
            return f"/v2/models/{model}/infer"
        case "v1":
            return f"/v1/models/{model}:predict"
        case "seldon":
            return _SELDON[role]


def _policy(bandit: Bandit) -> Policy | None:
    """None: it is not run here."""
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

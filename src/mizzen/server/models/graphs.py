"""GET /graph/{name}: the current state of a graph, its nodes, and the traffic between them.
GET /graph/{name}/state: the state of its bandits, and the quality of each version at each node.

Both need `read` on the graph.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import Invalid, Unavailable
from mizzen.graph import diversity
from mizzen.graph.bandits import Arm, BanditState, wilson_interval
from mizzen.graph.compile.graph import spec_of
from mizzen.kinds.graph import callees
from mizzen.kinds.graph.callees import DeclaredCall
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.routes import Bandit
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.selection.state_db import Quality
from mizzen.selection.state_reader import LearnedState
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.usage.graph_rates import NodeCounts, sum_over_gateways
from mizzen.usage.sampler import UsageSnapshot

_NO_TRAFFIC = NodeCounts()


def routes() -> list[Route]:
    return [
        Route("/graph/{name}", describe, methods=["GET"]),
        Route("/graph/{name}/state", describe_state, methods=["GET"]),
    ]


async def describe(request: Request) -> Response:
    graph = await _get_graph(request, Query(request, "namespace"))
    status = MLGraphStatus.of(graph)
    shown, generation = _spec_to_show(graph, status)
    ready = status.condition("Ready")
    now = context_of(request).usage.now()
    return JSONResponse({
        "name": graph.meta.name,
        "namespace": graph.meta.namespace,
        "generation": generation,
        "wanted": graph.meta.generation,
        "serving": None if status.serving is None else status.serving.generation,
        "ready": ready is not None and ready.true,
        "message": "" if ready is None else ready.message,
        "url": status.url,
        "seconds": round(now.grown.seconds, 3),
        **({"nodes": [], "edges": []} if shown is None
           else _render_graph(shown, status, _NodeTraffic.of(graph.ref, now))),
    })  # fmt: skip


async def describe_state(request: Request) -> Response:
    query = Query(request, "namespace", "user")
    graph = await _get_graph(request, query)
    user = query.text("user")
    try:
        learnt = await asyncio.to_thread(context_of(request).feedback_state.read, graph.meta.uid, user)
    except sqlite3.Error as error:
        raise Unavailable(f"the state of the bandits cannot be read now: {error}") from error
    spec = spec_of(MLGraphStatus.of(graph).serving) or _parse_spec(graph)
    return JSONResponse({
        "name": graph.meta.name,
        "namespace": graph.meta.namespace,
        "user": user,
        "feedback": learnt.feedback_count,
        "nodes": _render_bandits(spec, learnt) if spec is not None else [],
        "quality": [_render_quality(each) for each in learnt.qualities],
    })  # fmt: skip


async def _get_graph(request: Request, query: Query) -> Resource:
    ref = Ref("MLGraph", request.path_params["name"], query.namespace())
    authorization.require(request, "read", targets.by_name(ref))
    return await context_of(request).store.get(ref)


def _spec_to_show(graph: Resource, status: MLGraphStatus) -> tuple[MLGraphSpec | None, int]:
    """The spec that the status describes, and its generation: the desired one, unless it is not accepted."""
    accepted = status.condition("Accepted")
    if accepted is None or accepted.true:
        spec = _parse_spec(graph)
        if spec is not None:
            return spec, graph.meta.generation
    serving = status.serving
    return spec_of(serving), graph.meta.generation if serving is None else serving.generation


def _parse_spec(graph: Resource) -> MLGraphSpec | None:
    try:
        return MLGraphSpec.of(graph)
    except Invalid:
        return None


# Nodes and edges


@dataclass(frozen=True, slots=True)
class _NodeTraffic:
    """Traffic through the nodes of one graph."""

    seconds: float
    recent: Mapping[str, NodeCounts]
    """In the last seconds, by node."""
    total: Mapping[str, NodeCounts]
    """Since the gateways started."""

    @classmethod
    def of(cls, ref: Ref, now: UsageSnapshot) -> _NodeTraffic:
        place = ref.namespace, ref.name
        lately = {key[2]: passed for key, passed in now.grown.nodes.items() if key[:2] == place}
        return cls(now.grown.seconds or math.inf, lately, sum_over_gateways(now.sample.gateways.values(), *place))

    def rate(self, count: float) -> float | None:
        return _round(count / self.seconds)


def _render_graph(spec: MLGraphSpec, status: MLGraphStatus, passing: _NodeTraffic) -> dict[str, Any]:
    states = {each.name: each for each in status.nodes}
    called, shadows = callees.calls_of(spec), _shadows(spec)
    nodes = []
    for node in spec.nodes_in_order():
        known = states.get(node.name)
        nodes.append({
            "name": node.name,
            "ready": known is not None and known.ready,
            "reason": known.reason if known is not None else "",
            "merge": _merge_method(node),
            "calls": [_render_call(call) for call in called[node.name]],
            "route": _route_method(node),
            "shadow": node.name in shadows,
            **_render_figures(node.name, passing),
        })  # fmt: skip
    return {"nodes": nodes, "edges": _render_edges(spec, passing)}


def _render_figures(name: str, passing: _NodeTraffic) -> dict[str, Any]:
    lately, ever = passing.recent.get(name, _NO_TRAFFIC), passing.total.get(name, _NO_TRAFFIC)
    answered, seconds = lately.answered + lately.shadowed, lately.seconds + lately.shadow_seconds
    chosen = sum(ever.chosen.values())
    compared = ever.agreed + ever.differed
    return {
        "messagesPerSecond": passing.rate(lately.ran),
        "errorsPerSecond": passing.rate(lately.failed),
        "meanMs": _round(1000 * seconds / answered) if answered > 0 else None,
        "selection": {
            "shares": {child: _round(count / chosen) for child, count in ever.chosen.items()},
            "entropy": _round(diversity.normalized_entropy(ever.chosen.values())),
        } if chosen else None,
        "disagreement": [
            {"one": one, "other": other, "count": round(count), "mean": _round(total / count)}
            for (one, other), (count, total) in sorted(ever.disagreed.items()) if count
        ],
        "shadowing": {
            "agreed": round(ever.agreed), "differed": round(ever.differed), "agreement": _round(ever.agreed / compared),
        } if compared else None,
    }  # fmt: skip


def _render_edges(spec: MLGraphSpec, passing: _NodeTraffic) -> list[dict[str, Any]]:
    children, nodes = spec.children(), {node.name: node for node in spec.dag}
    edges = []
    for parent in spec.nodes_in_order():
        split = parent.route.split if parent.route is not None else None
        traffic = split.traffic if split is not None else None
        lately = passing.recent.get(parent.name, _NO_TRAFFIC)
        for child in sorted(children[parent.name], key=list(nodes).index):
            shadow = split is not None and child in split.shadow
            if shadow:
                count = passing.recent.get(child, _NO_TRAFFIC).shadowed
            elif _route_method(parent) is not None:
                count = lately.chosen.get(child, 0.0)
            else:
                count = lately.ran
            share = traffic.get(child, 0) if traffic is not None and not shadow else None
            edges.append({
                "from": parent.name, "to": child, "shadow": shadow, "traffic": share, "perSecond": passing.rate(count),
            })  # fmt: skip
    return edges


def _shadows(spec: MLGraphSpec) -> set[str]:
    splits = (node.route.split for node in spec.dag if node.route is not None and node.route.split is not None)
    return {name for split in splits for name in split.shadow}


def _render_call(call: DeclaredCall) -> dict[str, str]:
    if call.served is not None:
        return {"role": call.role, "kind": "served", "name": str(call.served)}
    if call.address:
        return {"role": call.role, "kind": "service", "name": call.address}
    return {"role": call.role, "kind": "container", "name": call.container}


def _merge_method(node: GraphNode) -> str | None:
    """The merge method in one word; None if the node merges nothing."""
    if node.merge is None or not node.dependencies:
        return None
    if node.merge.call is not None:
        return "call"
    return node.merge.joins.method if node.merge.joins is not None else None


def _route_method(node: GraphNode) -> str | None:
    """The routing method in one word; None if all children are taken."""
    route = node.route
    if route is None or route.empty:
        return None
    if route.mab is not None:
        return route.mab.policy
    return "split" if route.split is not None else "call" if route.implementation is not None else "cascade"


# Bandit state


def _render_bandits(spec: MLGraphSpec, learnt: LearnedState) -> list[dict[str, Any]]:
    children = spec.children()
    routed = ((node.name, node.route.mab) for node in spec.nodes_in_order() if node.route is not None)
    return [_render_bandit(name, mab, children[name], learnt) for name, mab in routed if mab is not None]


def _render_bandit(name: str, bandit: Bandit, children: Sequence[str], learnt: LearnedState) -> dict[str, Any]:
    shared = learnt.nodes.get(name)
    own = learnt.user_states.get(name)
    known = own or (shared.state if shared is not None else BanditState({}, ""))
    arms = {**{child: Arm() for child in children}, **known.arms}
    return {
        "node": name,
        "policy": bandit.policy,
        "parameters": _parameters(bandit),
        "perUser": bandit.per_user,
        "own": own is not None,
        "users": shared.users if shared is not None else 0,
        "feedback": sum(arm.count for arm in arms.values()),
        "arms": [_render_arm(arm, arms[arm], best=arm == known.best) for arm in arms],
    }


def _parameters(bandit: Bandit) -> dict[str, Any]:
    if bandit.policy == "egreedy":
        return {"epsilon": bandit.egreedy}
    parameters: dict[str, Any] = getattr(bandit, bandit.policy).wire()
    return parameters


def _render_arm(name: str, arm: Arm, *, best: bool) -> dict[str, Any]:
    return {
        "arm": name,
        "count": arm.count,
        "mean": _round(arm.mean),
        "interval": [_round(end) for end in wilson_interval(arm.count, arm.total)],
        "weight": _round(arm.weight),
        "best": best,
    }


def _render_quality(quality: Quality) -> dict[str, Any]:
    return {
        "node": quality.node,
        "version": quality.version,
        "rewards": quality.rewards,
        "rewardMean": _round(quality.reward_sum / quality.rewards) if quality.rewards else None,
        "truths": quality.truths,
        "accuracy": _round(quality.accuracy_sum / quality.truths) if quality.truths else None,
    }


def _round(value: float | None) -> float | None:
    """Six digits, as in /usage."""
    return None if value is None else float(f"{value:.6g}")

"""GET /graph/{name}: a graph as it is now, its nodes, and what passes between them. GET /graph/{name}/state: what its
bandits have learnt, and how well each version does at each node.

Whoever may read the graph is told.
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
from mizzen.graph.bandits import Arm, State, interval
from mizzen.graph.compile.graph import spec_of
from mizzen.kinds.graph import callees
from mizzen.kinds.graph.callees import Call
from mizzen.kinds.graph.nodes import GraphNode
from mizzen.kinds.graph.routes import Bandit
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.selection.state_db import Quality
from mizzen.selection.state_reader import Learnt
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.usage.graph_rates import Passed, in_all
from mizzen.usage.sampler import Now

_NONE = Passed()


def routes() -> list[Route]:
    return [
        Route("/graph/{name}", describe, methods=["GET"]),
        Route("/graph/{name}/state", state, methods=["GET"]),
    ]


async def describe(request: Request) -> Response:
    graph = await _found(request, Query(request, "namespace"))
    status = MLGraphStatus.of(graph)
    shown, generation = _shown(graph, status)
    ready = status.condition("Ready")
    now = plane_of(request).usage.now()
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
        **(_drawn(shown, status, _Passing.of(graph.ref, now)) if shown is not None else {"nodes": [], "edges": []}),
    })  # fmt: skip


async def state(request: Request) -> Response:
    query = Query(request, "namespace", "user")
    graph = await _found(request, query)
    user = query.text("user")
    try:
        learnt = await asyncio.to_thread(plane_of(request).learnt.of, graph.meta.uid, user)
    except sqlite3.Error as error:
        raise Unavailable(f"what was learnt cannot be read now: {error}") from error
    spec = spec_of(MLGraphStatus.of(graph).serving) or _asked_for(graph)
    return JSONResponse({
        "name": graph.meta.name,
        "namespace": graph.meta.namespace,
        "user": user,
        "feedback": learnt.given,
        "nodes": _bandits(spec, learnt) if spec is not None else [],
        "quality": [_quality(each) for each in learnt.qualities],
    })  # fmt: skip


async def _found(request: Request, query: Query) -> Resource:
    ref = Ref("MLGraph", request.path_params["name"], query.namespace())
    authorization.require(request, "read", targets.named(ref))
    return await plane_of(request).store.get(ref)


def _shown(graph: Resource, status: MLGraphStatus) -> tuple[MLGraphSpec | None, int]:
    """The spec that the status speaks of, and its generation: what is asked for, unless that is not accepted."""
    accepted = status.condition("Accepted")
    if accepted is None or accepted.true:
        spec = _asked_for(graph)
        if spec is not None:
            return spec, graph.meta.generation
    serving = status.serving
    return spec_of(serving), graph.meta.generation if serving is None else serving.generation


def _asked_for(graph: Resource) -> MLGraphSpec | None:
    try:
        return MLGraphSpec.of(graph)
    except Invalid:
        return None


# Nodes and edges


@dataclass(frozen=True, slots=True)
class _Passing:
    """What passes through the nodes of one graph."""

    seconds: float
    lately: Mapping[str, Passed]
    """In the last seconds, by node."""
    ever: Mapping[str, Passed]
    """Since gateways began."""

    @classmethod
    def of(cls, ref: Ref, now: Now) -> _Passing:
        place = ref.namespace, ref.name
        lately = {key[2]: passed for key, passed in now.grown.nodes.items() if key[:2] == place}
        return cls(now.grown.seconds or math.inf, lately, in_all(now.moment.gateways.values(), *place))

    def rate(self, count: float) -> float:
        return _short(count / self.seconds)


def _drawn(spec: MLGraphSpec, status: MLGraphStatus, passing: _Passing) -> dict[str, Any]:
    states = {each.name: each for each in status.nodes}
    called, shadows = callees.calls_of(spec), _shadows(spec)
    nodes = []
    for node in spec.ordered():
        known = states.get(node.name)
        nodes.append({
            "name": node.name,
            "ready": known is not None and known.ready,
            "reason": known.reason if known is not None else "",
            "merge": _merge(node),
            "calls": [_called(call) for call in called[node.name]],
            "route": _route(node),
            "shadow": node.name in shadows,
            **_figures(node.name, passing),
        })  # fmt: skip
    return {"nodes": nodes, "edges": _edges(spec, passing)}


def _figures(name: str, passing: _Passing) -> dict[str, Any]:
    lately, ever = passing.lately.get(name, _NONE), passing.ever.get(name, _NONE)
    answered, seconds = lately.answered + lately.shadowed, lately.seconds + lately.shadow_seconds
    chosen = sum(ever.chosen.values())
    compared = ever.agreed + ever.differed
    return {
        "messagesPerSecond": passing.rate(lately.ran),
        "errorsPerSecond": passing.rate(lately.failed),
        "meanMs": _short(1000 * seconds / answered) if answered > 0 else None,
        "selection": {
            "shares": {child: _short(count / chosen) for child, count in ever.chosen.items()},
            "entropy": _short_or_none(diversity.entropy(ever.chosen.values())),
        } if chosen else None,
        "disagreement": [
            {"one": one, "other": other, "count": round(count), "mean": _short(total / count)}
            for (one, other), (count, total) in sorted(ever.disagreed.items()) if count
        ],
        "shadowing": {
            "agreed": round(ever.agreed), "differed": round(ever.differed), "agreement": _short(ever.agreed / compared),
        } if compared else None,
    }  # fmt: skip


def _edges(spec: MLGraphSpec, passing: _Passing) -> list[dict[str, Any]]:
    children, nodes = spec.children(), {node.name: node for node in spec.dag}
    edges = []
    for parent in spec.ordered():
        split = parent.route.split if parent.route is not None else None
        traffic = split.traffic if split is not None else None
        lately = passing.lately.get(parent.name, _NONE)
        for child in sorted(children[parent.name], key=list(nodes).index):
            shadow = split is not None and child in split.shadow
            if shadow:
                count = passing.lately.get(child, _NONE).shadowed
            elif _chooses(parent):
                count = lately.chosen.get(child, 0.0)
            else:
                count = lately.ran
            share = traffic.get(child, 0) if traffic is not None and not shadow else None
            edges.append({
                "from": parent.name, "to": child, "shadow": shadow, "traffic": share, "perSecond": passing.rate(count),
            })  # fmt: skip
    return edges


def _shadows(spec: MLGraphSpec) -> set[str]:
    return {
        name for node in spec.dag if node.route is not None and node.route.split for name in node.route.split.shadow
    }


def _called(call: Call) -> dict[str, str]:
    if call.served is not None:
        return {"role": call.role, "kind": "served", "name": str(call.served)}
    if call.address:
        return {"role": call.role, "kind": "service", "name": call.address}
    return {"role": call.role, "kind": "container", "name": call.container}


def _merge(node: GraphNode) -> str | None:
    """How it merges, in a word; None: it does not."""
    if node.merge is None or not node.dependencies:
        return None
    if node.merge.call is not None:
        return "call"
    return node.merge.joins.method if node.merge.joins is not None else None


def _route(node: GraphNode) -> str | None:
    """How it chooses children, in a word; None: it takes all."""
    route = node.route
    if route is None or route.empty:
        return None
    if route.mab is not None:
        return route.mab.policy
    return "split" if route.split is not None else "call" if route.implementation is not None else "cascade"


def _chooses(node: GraphNode) -> bool:
    return _route(node) is not None


# What was learnt


def _bandits(spec: MLGraphSpec, learnt: Learnt) -> list[dict[str, Any]]:
    children = spec.children()
    routed = ((node.name, node.route.mab) for node in spec.ordered() if node.route is not None)
    return [_bandit(name, mab, children[name], learnt) for name, mab in routed if mab is not None]


def _bandit(name: str, bandit: Bandit, children: Sequence[str], learnt: Learnt) -> dict[str, Any]:
    shared = learnt.nodes.get(name)
    own = learnt.own.get(name)
    known = own or (shared.state if shared is not None else State({}, ""))
    arms = {**{child: Arm() for child in children}, **known.arms}
    return {
        "node": name,
        "policy": bandit.policy,
        "parameters": _parameters(bandit),
        "perUser": bandit.per_user,
        "own": own is not None,
        "users": shared.users if shared is not None else 0,
        "feedback": sum(arm.count for arm in arms.values()),
        "arms": [_arm(arm, arms[arm], best=arm == known.best) for arm in arms],
    }


def _parameters(bandit: Bandit) -> dict[str, Any]:
    if bandit.policy == "egreedy":
        return {"epsilon": bandit.egreedy}
    given: dict[str, Any] = getattr(bandit, bandit.policy).wire()
    return given


def _arm(name: str, arm: Arm, *, best: bool) -> dict[str, Any]:
    mean = arm.mean
    return {
        "arm": name,
        "count": arm.count,
        "mean": None if mean is None else _short(mean),
        "interval": [_short(end) for end in interval(arm.count, arm.total)],
        "weight": _short(arm.weight),
        "best": best,
    }


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "node": quality.node,
        "version": quality.version,
        "rewards": quality.rewards,
        "rewardMean": _short(quality.reward_sum / quality.rewards) if quality.rewards else None,
        "truths": quality.truths,
        "accuracy": _short(quality.accuracy_sum / quality.truths) if quality.truths else None,
    }


def _short(value: float) -> float:
    """Six digits, as figures of /usage have."""
    return float(f"{value:.6g}")


def _short_or_none(value: float | None) -> float | None:
    return None if value is None else _short(value)

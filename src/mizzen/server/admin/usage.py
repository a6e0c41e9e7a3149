"""GET /usage: live figures of served models and of the plane's processes. GET /usage/history: figures of past hours.

Figures of a model need `read` or `predict` on it; those of the plane's own processes need any right on the plane.
"""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.kinds.schema.resource import Ref, format_time
from mizzen.selection.state_db import Quality
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.usage.history import COARSE_POINTS, COARSE_SECONDS, FINE_POINTS, FINE_SECONDS, Point
from mizzen.usage.inventory import Inventory, Key
from mizzen.usage.rates import Figures, Totals, compute_totals
from mizzen.usage.sampler import UsageSnapshot

DEFAULT_MINUTES = FINE_POINTS * FINE_SECONDS // 60
MOST_MINUTES = COARSE_POINTS * COARSE_SECONDS // 60
MOST_SERIES = 20
"""Per response; callers get others by name."""

COLUMNS = (
    "time", "requestsPerSecond", "errorsPerSecond", "p50", "p95", "p99", "inFlight", "waiting", "callsPerBatch",
    "replicasReady", "memoryBytes", "cpu",
)  # fmt: skip

NO_FEEDBACK = Quality("", "", 0, 0.0, 0, 0.0)


def routes() -> list[Route]:
    return [Route("/usage", get_usage, methods=["GET"]), Route("/usage/history", get_history, methods=["GET"])]


async def get_usage(request: Request) -> Response:
    authorization.require(request, "read", targets.PLANE)
    query = Query(request, "namespace")
    namespace = query.namespace(default="")
    context = context_of(request)
    found = context.usage.now()
    judged = await asyncio.to_thread(read_qualities, context, found.sample.inventory)
    keys = [key for key in found.served if namespace in ("", key[0]) and can_see(request, key)]
    return JSONResponse({
        "time": format_time(datetime.fromtimestamp(found.sample.at, UTC)),
        "seconds": round(found.grown.seconds, 3),
        "total": _render_total(compute_totals(found.grown, keys)),
        "models": [_render_model(key, found.served[key], found, judged.get(key, NO_FEEDBACK)) for key in keys],
        "processes": _render_processes(found),
    })  # fmt: skip


async def get_history(request: Request) -> Response:
    query = Query(request, "name", "namespace", "minutes")
    namespace, name = query.namespace(), query.text("name")
    minutes = query.number("minutes", low=1, high=MOST_MINUTES) or DEFAULT_MINUTES
    target = targets.model(Ref("Model", name, namespace)) if name else targets.all_of("Model", namespace)
    is_allowed = authorization.is_allowed if name else authorization.is_any_allowed
    require = authorization.require if name else authorization.require_any
    only_calls = not is_allowed(request, "read", target) and is_allowed(request, "predict", target)
    require(request, "predict" if only_calls else "read", target)
    context = context_of(request)
    recorded, since = context.usage.history, context.now().timestamp() - 60 * minutes
    fine = minutes <= DEFAULT_MINUTES
    keys = [key for key in recorded.keys(namespace, name) if name or can_see(request, key)][:MOST_SERIES]
    series = [(key, recorded.points_of(key, since, fine=fine)) for key in keys]
    head = {"seconds": FINE_SECONDS if fine else COARSE_SECONDS, "columns": COLUMNS}
    # In a thread: there may be some hundred thousand numbers.
    return await asyncio.to_thread(_render_history, head, [(key, points) for key, points in series if points])


def can_see(request: Request, key: Key) -> bool:
    """Whether the caller may read or call the model; gateways filter their /metrics by the same rule."""
    namespace, model, _ = key
    target = targets.model(Ref("Model", model, namespace))
    return authorization.is_allowed(request, "read", target) or authorization.is_allowed(request, "predict", target)


def _render_total(of: Totals) -> dict[str, Any]:
    return {
        "requestsPerSecond": _round(of.requests), "errorsPerSecond": _round(of.errors), "p50": _round(of.p50),
        "p95": _round(of.p95), "p99": _round(of.p99),
    }  # fmt: skip


def read_qualities(context: ServerContext, known: Inventory) -> dict[Key, Quality]:
    """As `quality_by_version`; empty if the state of feedback cannot be read, as all else works without it."""
    try:
        return quality_by_version(context.feedback_state.qualities(), known)
    except sqlite3.Error:
        return {}


def quality_by_version(learnt: Iterable[tuple[str, Quality]], known: Inventory) -> dict[Key, Quality]:
    """The quality of each version by feedback, over all nodes of all graphs where it answered."""
    found: dict[Key, Quality] = {}
    for uid, quality in learnt:
        target = known.feedback_targets.get((uid, quality.node))
        if target is not None:
            key = *target, quality.version
            before = found.get(key, NO_FEEDBACK)
            found[key] = quality._replace(
                rewards=quality.rewards + before.rewards,
                reward_sum=quality.reward_sum + before.reward_sum,
                truths=quality.truths + before.truths,
                accuracy_sum=quality.accuracy_sum + before.accuracy_sum,
            )
    return found


def _render_model(key: Key, figures: Figures, found: UsageSnapshot, judged: Quality) -> dict[str, Any]:
    namespace, name, version = key
    known = found.sample.inventory
    there = known.served.get(key)
    return {
        "namespace": namespace,
        "name": name,
        "version": version,
        "servers": list(there.servers) if there is not None else [],
        "requestsPerSecond": _round(figures.requests),
        "errorsPerSecond": _round(figures.errors),
        "codesPerSecond": {str(code): _round(rate) for code, rate in figures.codes.items()},
        "p50": _round(figures.p50),
        "p95": _round(figures.p95),
        "p99": _round(figures.p99),
        "inFlight": figures.in_flight,
        "waiting": figures.waiting,
        "callsPerBatch": _round(figures.batch),
        "shedPerSecond": _round(figures.shed),
        "expiredPerSecond": _round(figures.expired),
        "retriedPerSecond": _round(figures.retried),
        "replicasReady": figures.ready,
        "replicasWanted": figures.wanted,
        "memoryBytes": figures.memory,
        "cpu": _round(figures.cpu),
        "accuracy": _round(judged.accuracy_sum / judged.truths) if judged.truths else None,
        "reward": _round(judged.reward_sum / judged.rewards) if judged.rewards else None,
    }


def _render_processes(found: UsageSnapshot) -> list[dict[str, Any]]:
    """The processes that are not replicas."""
    seconds = found.grown.seconds or math.inf
    return [
        {
            "name": name,
            "memoryBytes": process.resident_bytes,
            "cpu": _round(found.grown.cpu.get(name, 0.0) / seconds),
            "restarts": process.restarts,
        }
        for name, process in plane_processes(found)
    ]


def plane_processes(found: UsageSnapshot) -> Iterable[tuple[str, Any]]:
    """The plane's own processes: gateways, plane, supervisor."""
    named = ((name, process) for name, process in found.sample.processes.items() if "." not in name)
    return sorted(named, key=lambda item: item[0])


def _render_history(head: dict[str, Any], series: list[tuple[Key, list[tuple[float, Point]]]]) -> Response:
    rows = [
        {"namespace": namespace, "name": name, "version": version, "points": list(map(_render_point, points))}
        for (namespace, name, version), points in series
    ]
    content = json.dumps({**head, "series": rows}, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, media_type="application/json")


def _render_point(timed: tuple[float, Point]) -> list[float | None]:
    at, point = timed
    values = (
        point.requests, point.errors, point.p50, point.p95, point.p99, point.in_flight, point.waiting, point.batch,
        point.ready, point.memory, point.cpu,
    )  # fmt: skip
    return [round(at, 3), *(None if math.isnan(value) else _round(value) for value in values)]


def _round(value: float | None) -> float | None:
    """Six digits: more would show only rounding of single precision, not the measurement."""
    return None if value is None else float(f"{value:.6g}")

"""GET /usage: how what is served is doing, and what it and the plane use. GET /usage/history: how that was for hours.

Whoever may read or call a model is told of it; whoever has any right here is told of the plane's own processes.
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
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.usage.history import COARSE_POINTS, COARSE_SECONDS, FINE_POINTS, FINE_SECONDS, Point
from mizzen.usage.inventory import Key, Known
from mizzen.usage.rates import Figures, Whole, whole
from mizzen.usage.sampler import Now

DEFAULT_MINUTES = FINE_POINTS * FINE_SECONDS // 60
MOST_MINUTES = COARSE_POINTS * COARSE_SECONDS // 60
MOST_SERIES = 20
"""Of one answer: who wants more asks for them by name."""

COLUMNS = (
    "time", "requestsPerSecond", "errorsPerSecond", "p50", "p95", "p99", "inFlight", "waiting", "callsPerBatch",
    "replicasReady", "memoryBytes", "cpu",
)  # fmt: skip

_UNJUDGED = Quality("", "", 0, 0.0, 0, 0.0)


def routes() -> list[Route]:
    return [Route("/usage", now, methods=["GET"]), Route("/usage/history", history, methods=["GET"])]


async def now(request: Request) -> Response:
    authorization.require(request, "read", targets.PLANE)
    query = Query(request, "namespace")
    namespace = query.namespace(default="")
    plane = plane_of(request)
    found = plane.usage.now()
    judged = judgements(await asyncio.to_thread(_learnt, plane), found.moment.known)
    keys = [key for key in found.served if namespace in ("", key[0]) and sees(request, key)]
    return JSONResponse({
        "time": _time(found.moment.at),
        "seconds": round(found.grown.seconds, 3),
        "total": _total(whole(found.grown, keys)),
        "models": [_model(key, found.served[key], found, judged.get(key, _UNJUDGED)) for key in keys],
        "processes": _processes(found),
    })  # fmt: skip


async def history(request: Request) -> Response:
    query = Query(request, "name", "namespace", "minutes")
    namespace, name = query.namespace(), query.text("name")
    minutes = query.number("minutes", low=1, high=MOST_MINUTES) or DEFAULT_MINUTES
    if name:
        target = targets.model(Ref("Model", name, namespace))
        only_calls = not authorization.may(request, "read", target) and authorization.may(request, "predict", target)
        authorization.require(request, "predict" if only_calls else "read", target)
    else:
        all_models = targets.all_of("Model", namespace)
        only_calls = not authorization.may_some(request, "read", all_models) and authorization.may_some(
            request, "predict", all_models
        )
        authorization.require_some(request, "predict" if only_calls else "read", all_models)
    plane = plane_of(request)
    kept, since = plane.usage.history, plane.now().timestamp() - 60 * minutes
    fine = minutes <= DEFAULT_MINUTES
    keys = [key for key in kept.keys(namespace, name) if name or sees(request, key)][:MOST_SERIES]
    series = [(key, kept.of(key, since, fine=fine)) for key in keys]
    head = {"seconds": FINE_SECONDS if fine else COARSE_SECONDS, "columns": COLUMNS}
    # In a thread: it may be some hundred thousand numbers.
    return await asyncio.to_thread(_written, head, [(key, points) for key, points in series if points])


def sees(request: Request, key: Key) -> bool:
    """Whoever may read or call it: just so a gateway decides of whom its /metrics tell."""
    namespace, model, _ = key
    target = targets.model(Ref("Model", model, namespace))
    return authorization.may(request, "read", target) or authorization.may(request, "predict", target)


def _total(of: Whole) -> dict[str, Any]:
    return {
        "requestsPerSecond": _short(of.requests),
        "errorsPerSecond": _short(of.errors),
        "p50": _short(of.p50),
        "p95": _short(of.p95),
        "p99": _short(of.p99),
    }


def judgements(learnt: Iterable[tuple[str, Quality]], known: Known) -> dict[Key, Quality]:
    """What feedback says of each version, at whatever nodes of whatever graphs it answered."""
    found: dict[Key, Quality] = {}
    for uid, quality in learnt:
        whose = known.judged.get((uid, quality.node))
        if whose is not None:
            key = *whose, quality.version
            before = found.get(key, _UNJUDGED)
            found[key] = quality._replace(
                rewards=quality.rewards + before.rewards,
                reward_sum=quality.reward_sum + before.reward_sum,
                truths=quality.truths + before.truths,
                accuracy_sum=quality.accuracy_sum + before.accuracy_sum,
            )
    return found


def _learnt(plane: Plane) -> list[tuple[str, Quality]]:
    try:
        return plane.learnt.qualities()
    except sqlite3.Error:  # all else can be told without it
        return []


def _model(key: Key, figures: Figures, found: Now, judged: Quality) -> dict[str, Any]:
    namespace, name, version = key
    known = found.moment.known
    there = known.served.get(key)
    return {
        "namespace": namespace,
        "name": name,
        "version": version,
        "servers": list(there.servers) if there is not None else [],
        "requestsPerSecond": _short(figures.requests),
        "errorsPerSecond": _short(figures.errors),
        "codesPerSecond": {str(code): _short(rate) for code, rate in figures.codes.items()},
        "p50": _short(figures.p50),
        "p95": _short(figures.p95),
        "p99": _short(figures.p99),
        "inFlight": figures.in_flight,
        "waiting": figures.waiting,
        "callsPerBatch": _short(figures.batch),
        "shedPerSecond": _short(figures.shed),
        "expiredPerSecond": _short(figures.expired),
        "retriedPerSecond": _short(figures.retried),
        "replicasReady": figures.ready,
        "replicasWanted": figures.wanted,
        "memoryBytes": figures.memory,
        "cpu": _short(figures.cpu),
        "accuracy": _short(judged.accuracy_sum / judged.truths) if judged.truths else None,
        "reward": _short(judged.reward_sum / judged.rewards) if judged.rewards else None,
    }


def _processes(found: Now) -> list[dict[str, Any]]:
    """Those that are no replicas."""
    seconds = found.grown.seconds or math.inf
    return [
        {
            "name": name,
            "memoryBytes": process.resident_bytes,
            "cpu": _short(found.grown.cpu.get(name, 0.0) / seconds),
            "restarts": process.restarts,
        }
        for name, process in own(found)
    ]


def own(found: Now) -> Iterable[tuple[str, Any]]:
    """The plane's own processes: gateways, plane, supervisor."""
    named = ((name, process) for name, process in found.moment.processes.items() if "." not in name)
    return sorted(named, key=lambda item: item[0])


def _written(head: dict[str, Any], series: list[tuple[Key, list[tuple[float, Point]]]]) -> Response:
    told = [
        {"namespace": key[0], "name": key[1], "version": key[2], "points": [_row(at, point) for at, point in points]}
        for key, points in series
    ]
    content = json.dumps({**head, "series": told}, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, media_type="application/json")


def _row(at: float, point: Point) -> list[float | None]:
    values = (
        point.requests, point.errors, point.p50, point.p95, point.p99, point.in_flight, point.waiting, point.batch,
        point.ready, point.memory, point.cpu,
    )  # fmt: skip
    return [round(at, 3), *(None if math.isnan(value) else _short(value) for value in values)]


def _short(value: float | None) -> float | None:
    """Six digits: more would say something of single precision, and nothing of what was measured."""
    return None if value is None else float(f"{value:.6g}")


def _time(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))

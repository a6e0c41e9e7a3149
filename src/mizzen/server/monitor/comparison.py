"""Versions compared: what their jobs logged, by step, and how those that are served do now; as JSON and as a page."""

from __future__ import annotations

import asyncio
import html
import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, MizzenError
from mizzen.kinds.monitor import SCALARS, path_of, tool_path
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.text.versions import normal_version
from mizzen.runs.paths import UNVERSIONED
from mizzen.runs.scalars.curve import KEPT, Point
from mizzen.runs.scalars.reader import Job, Read, Scalars, Series, Wanted, version_order
from mizzen.selection.state_db import Quality
from mizzen.server.admin import usage
from mizzen.server.admission import model_family
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.monitor import lifecycle, sign_in
from mizzen.stores.store import Present
from mizzen.usage.inventory import Key
from mizzen.usage.sampler import Now

POINTS: Final = 500
"""Of a series, when the caller names no number of their own."""
MOST_JOBS: Final = 200
"""Whose progress reports are looked at: the newest."""
PAGE: Final = Path(__file__).with_name("page.html").read_text("utf-8")

_UNJUDGED: Final = Quality("", "", 0, 0.0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    scalars: Scalars

    def routes(self) -> list[Route]:
        return [
            Route(f"{prefix}/{name}", method, methods=["GET"])
            for prefix in sign_in.PREFIXES
            for name, method in (("scalars", self.told), ("page", self.page))
        ]

    async def told(self, request: Request) -> Response:
        named = () if "namespace" in request.path_params else ("namespace",)
        query = Query(request, "tag", "version", "job", "points", *named)
        model = sign_in.place(request, query)
        sign_in.require(request, model)
        plane = plane_of(request)
        wanted = Wanted(
            query.text("tag"),
            _version(query.text("version")),
            query.text("job"),
            query.number("points", low=4, high=KEPT) or POINTS,
        )
        jobs, now = await _jobs(plane, model), plane.usage.now()

        def written() -> Response:
            # In a thread: it reads files, and may tell some hundred thousand numbers.
            read = self.scalars.read(model.namespace, model.name, wanted, jobs)
            said = {**_told(read), "live": live(model, now, _judged(plane, now))}
            content = json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})

        return await asyncio.to_thread(written)

    async def page(self, request: Request) -> Response:
        named = () if "namespace" in request.path_params else ("namespace",)
        model = sign_in.place(request, Query(request, *named))
        try:
            sign_in.require(request, model)
            monitor = await lifecycle.there(plane_of(request).store, model)
        except MizzenError as error:
            return sign_in.answered(request, model, error)
        tool = "" if monitor.status.get("tool") in (None, SCALARS) else tool_path(model)
        about = {"model": model.name, "namespace": model.namespace, "at": path_of(model), "tool": tool}
        content = PAGE.replace("%MODEL%", html.escape(model.name)).replace("%ABOUT%", html.escape(json.dumps(about)))
        return HTMLResponse(content, headers=sign_in.guarded(content, "'self'"))


def live(model: Ref, now: Now, judged: Mapping[Key, Quality]) -> list[dict[str, Any]]:
    """How each version that is served is doing."""
    rows = []
    for key in sorted(now.served, key=lambda key: version_order(key[2])):
        if key[:2] != (model.namespace, model.name):
            continue
        figures, quality = now.served[key], judged.get(key, _UNJUDGED)
        there = now.moment.known.served.get(key)
        rows.append({
            "version": key[2],
            "server": ", ".join(there.servers) if there is not None else "",
            "requests": _short(figures.requests),
            "errorRate": _short(figures.errors / figures.requests) if figures.requests else None,
            "p50": _short(figures.p50),
            "p99": _short(figures.p99),
            "accuracy": _short(quality.accuracy_sum / quality.truths) if quality.truths else None,
            "reward": _short(quality.reward_sum / quality.rewards) if quality.rewards else None,
        })  # fmt: skip
    return rows


def _told(read: Read) -> dict[str, Any]:
    return {
        "tags": list(read.tags),
        "series": [_series(each) for each in read.series],
        "leftOut": read.left_out,
        "behind": read.behind,
        "words": list(read.words),
    }


def _series(series: Series) -> dict[str, Any]:
    run = series.run
    return {
        "version": run.version, "job": run.job, "replica": run.replica, "tag": series.tag, "source": series.source,
        "points": [_point(point) for point in series.points],
    }  # fmt: skip


def _point(point: Point) -> list[float | None]:
    step, value, time = point
    return [step, _short(value), round(time, 3)]


def _short(value: float | None) -> float | None:
    """Eight digits, which is all that single precision holds; JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.8g}")


def _version(text: str) -> str:
    try:
        return text if text in ("", UNVERSIONED) else normal_version(text)
    except ValueError as error:
        raise BadRequest(f"version={text[:40]!r}: {error}") from error


def _judged(plane: Plane, now: Now) -> Mapping[Key, Quality]:
    try:
        return usage.judgements(plane.learnt.qualities(), now.moment.known)
    except sqlite3.Error:  # all else can be told without it
        return {}


async def _jobs(plane: Plane, model: Ref) -> list[Job]:
    """The newest ones. NotFound when there is no such model."""
    found: list[Job] = []

    def look(now: Present) -> None:
        now.get(model)
        jobs = now.newest("TrainingJob", model, MOST_JOBS)
        found.extend(Job(each.meta.name, each.meta.uid, model_family.version_of(each)) for each in jobs)

    async with plane.store.snapshot() as moment:
        await moment.check(look)
    return found

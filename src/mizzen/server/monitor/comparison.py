"""Comparison of versions: scalars that jobs logged by step, and live figures of served versions; as JSON and a page."""

from __future__ import annotations

import asyncio
import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, MizzenError
from mizzen.kinds.monitor import SCALARS, path_of, tool_path
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text.versions import normal_version
from mizzen.runs.paths import UNVERSIONED
from mizzen.runs.scalars.curve import KEPT, Point
from mizzen.runs.scalars.reader import MonitoredJob, Read, ScalarQuery, Scalars, Series, version_order
from mizzen.selection.state_db import Quality
from mizzen.server.admin import usage
from mizzen.server.admission import model_family
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.monitor import lifecycle, sign_in
from mizzen.stores.store import Present
from mizzen.usage.inventory import Key
from mizzen.usage.sampler import UsageSnapshot

POINTS: Final = 500
"""Points of a series if the caller gives no number."""
MOST_JOBS: Final = 200
"""The newest jobs, whose progress reports are read."""
PAGE: Final = Path(__file__).with_name("page.html").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class VersionComparison:
    scalars: Scalars

    def routes(self) -> list[Route]:
        return [
            Route(f"{prefix}/{name}", method, methods=["GET"])
            for prefix in sign_in.PREFIXES
            for name, method in (("scalars", self.get_scalars), ("page", self.get_page))
        ]

    async def get_scalars(self, request: Request) -> Response:
        named = () if "namespace" in request.path_params else ("namespace",)
        query = Query(request, "tag", "version", "job", "points", *named)
        model = sign_in.model_in_path(request, query)
        sign_in.require(request, model)
        context = context_of(request)
        wanted = ScalarQuery(
            query.text("tag"),
            _parse_version(query.text("version")),
            query.text("job"),
            query.number("points", low=4, high=KEPT) or POINTS,
        )
        jobs, now = await _list_jobs(context, model), context.usage.now()

        def render() -> Response:
            # In a thread: it reads files, and may render some hundred thousand numbers.
            read = self.scalars.read(model.namespace, model.name, wanted, jobs)
            live = render_live(model, now, usage.read_qualities(context, now.sample.inventory))
            fields = {**_render_scalars(read), "live": live}
            content = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})

        return await asyncio.to_thread(render)

    async def get_page(self, request: Request) -> Response:
        named = () if "namespace" in request.path_params else ("namespace",)
        model = sign_in.model_in_path(request, Query(request, *named))
        try:
            sign_in.require(request, model)
            monitor = await lifecycle.get_monitor(context_of(request).store, model)
        except MizzenError as error:
            return sign_in.respond_to_error(request, model, error)
        tool = "" if monitor.status.get("tool") in (None, SCALARS) else tool_path(model)
        about = {"model": model.name, "namespace": model.namespace, "at": path_of(model), "tool": tool}
        content = PAGE.replace("%MODEL%", html.escape(model.name)).replace("%ABOUT%", html.escape(json.dumps(about)))
        return HTMLResponse(content, headers=sign_in.security_headers(content, "'self'"))


def render_live(model: Ref, now: UsageSnapshot, judged: Mapping[Key, Quality]) -> list[dict[str, Any]]:
    """Live figures of each served version."""
    rows = []
    for key in sorted(now.served, key=lambda key: version_order(key[2])):
        if key[:2] != (model.namespace, model.name):
            continue
        figures, quality = now.served[key], judged.get(key, usage.NO_FEEDBACK)
        there = now.sample.inventory.served.get(key)
        rows.append({
            "version": key[2],
            "server": ", ".join(there.servers) if there is not None else "",
            "requests": _round(figures.requests),
            "errorRate": _round(figures.errors / figures.requests) if figures.requests else None,
            "p50": _round(figures.p50),
            "p99": _round(figures.p99),
            "accuracy": _round(quality.accuracy_sum / quality.truths) if quality.truths else None,
            "reward": _round(quality.reward_sum / quality.rewards) if quality.rewards else None,
        })  # fmt: skip
    return rows


def _render_scalars(read: Read) -> dict[str, Any]:
    return {
        "tags": list(read.tags),
        "series": [_render_series(each) for each in read.series],
        "leftOut": read.left_out,
        "behind": read.behind,
        "words": list(read.words),
    }


def _render_series(series: Series) -> dict[str, Any]:
    run = series.run
    return {
        "version": run.version, "job": run.job, "replica": run.replica, "tag": series.tag, "source": series.source,
        "points": [_render_point(point) for point in series.points],
    }  # fmt: skip


def _render_point(point: Point) -> list[float | None]:
    step, value, time = point
    return [step, _round(value), round(time, 3)]


def _round(value: float | None) -> float | None:
    """Eight digits, which is the limit of single precision. None for NaN and infinity, which JSON lacks."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.8g}")


def _parse_version(text: str) -> str:
    try:
        return text if text in ("", UNVERSIONED) else normal_version(text)
    except ValueError as error:
        raise BadRequest(f"version={text[:40]!r}: {error}") from error


async def _list_jobs(context: ServerContext, model: Ref) -> list[MonitoredJob]:
    """The newest jobs. Raises NotFound if the model does not exist."""

    def read(now: Present) -> tuple[Resource, ...]:
        now.get(model)
        return now.newest("TrainingJob", model, MOST_JOBS)

    async with context.store.snapshot() as moment:
        jobs = await model_family.read_at_once(moment, read)
    return [MonitoredJob(each.meta.name, each.meta.uid, model_family.version_of(each)) for each in jobs]

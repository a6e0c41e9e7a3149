"""CustomResourceDefinitions: our kinds as a cluster would tell of them, for clients that look there for kinds.

They are those of deploy/crds, made by `make gen` from the kinds. Nobody changes them but a newer Mizzen.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.text import selectors
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import until_stopped
from mizzen.server.kubernetes.discovery import DEFINITIONS
from mizzen.server.resources import watch
from mizzen.server.resources.watch import Beginning

ROOT = f"/apis/{DEFINITIONS}/customresourcedefinitions"
FILE = Path(__file__).with_name("crds.json")
QUERY = ("resourceVersion", "pretty", "timeout")
LISTING = (
    *QUERY, "resourceVersionMatch", "limit", "labelSelector", "fieldSelector", "watch", "timeoutSeconds",
    "allowWatchBookmarks", "sendInitialEvents",
)  # fmt: skip
"""A limit is no promise that there are pages: here all come at once."""
KIND = "CustomResourceDefinition"
VERSION = "1"
"""The resourceVersion of all of them: they never change while a plane lives."""
NAME = "metadata.name"


def routes() -> list[Route]:
    items, each = _read()
    listing = {"kind": f"{KIND}List", "apiVersion": DEFINITIONS, "metadata": {"resourceVersion": VERSION}}

    async def listed(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        query = Query(request, *LISTING)
        query.limit(len(items))
        begin, wanted = watch.asked(query), [*filter(_selected(query), items)]
        if begin is None:
            return JSONResponse({**listing, "items": wanted})
        lines = until_stopped(_lines(wanted, begin), plane_of(request).stopping, begin.seconds)
        return StreamingResponse(lines, media_type="application/json")

    async def read(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, *QUERY)
        name = str(request.path_params["name"])
        if name not in each:
            raise NotFound(f"{KIND}/{name[:200]} does not exist", hint=f"there are {', '.join(each)}")
        return Response(each[name], media_type="application/json")

    return [Route(ROOT, listed, methods=["GET"]), Route(f"{ROOT}/{{name}}", read, methods=["GET"])]


@functools.cache
def _read() -> tuple[list[dict[str, Any]], dict[str, bytes | memoryview]]:
    """All definitions, and by name the answer for each: read and written once in a process."""
    items = json.loads(FILE.read_bytes())
    return items, {item["metadata"]["name"]: JSONResponse(item).body for item in items}


def _selected(query: Query) -> Callable[[Mapping[str, Any]], bool]:
    labels, alike, unlike = query.selector(), query.fields(), query.unlike()
    for path in (*alike, *(path for path, _ in sorted(unlike))):
        if path != NAME:
            raise BadRequest(f"fieldSelector: {KIND} cannot be selected by '{path}'", hint=f"valid is {NAME}")

    def selected(item: Mapping[str, Any]) -> bool:
        metadata = item["metadata"]
        name = metadata["name"]
        return (
            selectors.holds(labels, metadata.get("labels") or {})
            and alike.get(NAME, name) == name
            and (NAME, name) not in unlike
        )

    return selected


async def _lines(items: Iterable[Mapping[str, Any]], begin: Beginning) -> AsyncGenerator[bytes, None]:
    """All there is, when that is asked for; after it nothing happens any more."""
    if not (begin.since or begin.only_new):
        for item in items:
            yield watch.encoded("ADDED", item)
    if begin.marked:
        metadata = {"resourceVersion": VERSION, "annotations": {watch.INITIAL_END: "true"}}
        yield watch.encoded("BOOKMARK", {"kind": KIND, "apiVersion": DEFINITIONS, "metadata": metadata})
    await asyncio.Event().wait()

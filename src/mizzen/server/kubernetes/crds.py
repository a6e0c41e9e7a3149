"""CustomResourceDefinitions: our kinds in the form that a cluster lists them, for clients that discover kinds there.

They equal those in deploy/crds; `make gen` generates them from the kinds. They change only with the Mizzen version.
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
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import until_stopped
from mizzen.server.kubernetes.discovery import DEFINITIONS
from mizzen.server.resources import watch
from mizzen.server.resources.watch import WatchOptions

ROOT = f"/apis/{DEFINITIONS}/customresourcedefinitions"
FILE = Path(__file__).with_name("crds.json")
QUERY = ("resourceVersion", "pretty", "timeout")
LIST_QUERY = (
    *QUERY, "resourceVersionMatch", "limit", "labelSelector", "fieldSelector", "watch", "timeoutSeconds",
    "allowWatchBookmarks", "sendInitialEvents",
)  # fmt: skip
"""`limit` is accepted, but the server always returns all definitions at once."""
KIND = "CustomResourceDefinition"
VERSION = "1"
"""The resourceVersion of all definitions, which never change while a plane runs."""
NAME = "metadata.name"


def routes() -> list[Route]:
    items, each = _read()
    listing = {"kind": f"{KIND}List", "apiVersion": DEFINITIONS, "metadata": {"resourceVersion": VERSION}}

    async def list_or_watch(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        query = Query(request, *LIST_QUERY)
        query.limit(len(items))
        begin, wanted = watch.parse_watch(query), [*filter(_selector_of(query), items)]
        if begin is None:
            return JSONResponse({**listing, "items": wanted})
        lines = until_stopped(_watch_lines(wanted, begin), context_of(request).stopping, begin.seconds)
        return StreamingResponse(lines, media_type="application/json")

    async def read(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, *QUERY)
        name = str(request.path_params["name"])
        if name not in each:
            raise NotFound(f"{KIND}/{name[:200]} does not exist", hint=f"valid names: {', '.join(each)}")
        return Response(each[name], media_type="application/json")

    return [Route(ROOT, list_or_watch, methods=["GET"]), Route(f"{ROOT}/{{name}}", read, methods=["GET"])]


@functools.cache
def _read() -> tuple[list[dict[str, Any]], dict[str, bytes | memoryview]]:
    """All definitions, and the response for each by name: read and rendered once per process."""
    items = json.loads(FILE.read_bytes())
    return items, {item["metadata"]["name"]: JSONResponse(item).body for item in items}


def _selector_of(query: Query) -> Callable[[Mapping[str, Any]], bool]:
    labels, alike, unlike = query.selector(), query.fields(), query.excluded_fields()
    for path in (*alike, *(path for path, _ in sorted(unlike))):
        if path != NAME:
            raise BadRequest(
                f"fieldSelector: {KIND} cannot be selected by '{path}'", hint=f"the only valid field is {NAME}"
            )

    def matches(item: Mapping[str, Any]) -> bool:
        metadata = item["metadata"]
        name = metadata["name"]
        return (
            selectors.holds(labels, metadata.get("labels") or {})
            and alike.get(NAME, name) == name
            and (NAME, name) not in unlike
        )

    return matches


async def _watch_lines(items: Iterable[Mapping[str, Any]], begin: WatchOptions) -> AsyncGenerator[bytes, None]:
    """The initial events, if the client wants them; there are no later ones."""
    if not (begin.since or begin.only_new):
        for item in items:
            yield watch.encode_line("ADDED", item)
    if begin.marked:
        metadata = {"resourceVersion": VERSION, "annotations": {watch.INITIAL_END: "true"}}
        yield watch.encode_line("BOOKMARK", {"kind": KIND, "apiVersion": DEFINITIONS, "metadata": metadata})
    await asyncio.Event().wait()

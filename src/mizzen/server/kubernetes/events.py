"""Events at the door: what happened to objects, as `kubectl events` and `kubectl describe` ask for it.

Only to be read: `controllers/events.py` writes them. Who may read an object may read what happened to it; an Event
that a reader may not see is to them as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.errors import BadRequest
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import Ref
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import until_stopped
from mizzen.server.resources import representation, request_path, watch
from mizzen.server.resources import routes as resources_routes
from mizzen.stores import name_errors
from mizzen.stores.store import Where

KIND = catalog.BY_NAME["Event"]
EVERYWHERE = f"/api/{CORE_VERSION}/events"
WITHIN = f"/api/{CORE_VERSION}/namespaces/{{namespace}}/events"

FIELDS = {
    **{path: path for path in ("metadata.name", "metadata.namespace")},
    **{path.removeprefix("spec."): path for path in KIND.indexed},
}
"""What field selectors name, and where the store has it."""


def routes() -> list[Route]:
    return [
        Route(EVERYWHERE, list_or_watch, methods=["GET"]),
        Route(WITHIN, list_or_watch, methods=["GET"]),
        Route(f"{WITHIN}/{{name}}", read, methods=["GET"]),
    ]


async def list_or_watch(request: Request) -> Response:
    namespace = request_path.namespace_of(request)
    visible = authorization.require_some(request, "read", targets.all_of(KIND.name, namespace))
    query = Query(request, *resources_routes.LISTING)
    plane, form = plane_of(request), representation.of(request, KIND, query)
    fields = {_path(path): value for path, value in query.fields().items()}
    unlike = frozenset((_path(path), value) for path, value in query.unlike())
    where = Where(namespace=namespace or None, labels=query.selector(), fields=fields, unlike=unlike)
    limit, token, begin = query.limit(resources_routes.MOST_AT_ONCE), query.text("continue"), watch.asked(query)
    if begin is None:
        listing = await plane.pages.listing(plane.store, KIND.name, where, visible, limit=limit, token=token)
        return await form.answered(listing, KIND, lambda item: wire(item.wire()), CORE_VERSION)
    lines = watch.lines(plane.store, KIND.name, where, begin, visible, forms=form.watched(wire))
    return StreamingResponse(until_stopped(lines, plane.stopping, begin.seconds), media_type="application/json")


async def read(request: Request) -> Response:
    namespace, name = request_path.namespace_of(request), request.path_params["name"]
    visible = authorization.require_some(request, "read", targets.all_of(KIND.name, namespace))
    form = representation.of(request, KIND, Query(request, "includeObject", "resourceVersion", "pretty", "timeout"))
    ref = Ref(KIND.name, name, namespace)
    event = await plane_of(request).store.get(ref)
    if not visible(event):
        raise name_errors.missing(ref)
    return JSONResponse(form.single(wire(event.wire())))


def wire(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The wire form of Kubernetes, from that of the store."""
    head = {"kind": KIND.name, "apiVersion": CORE_VERSION, "metadata": stored["metadata"]}
    return {**head, **stored["spec"], "eventTime": None}


def _path(said: str) -> str:
    if said not in FIELDS:
        raise BadRequest(f"fieldSelector: events cannot be selected by '{said}'", hint=f"valid are {', '.join(FIELDS)}")
    return FIELDS[said]

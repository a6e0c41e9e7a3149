"""Events of objects, for `kubectl events` and `kubectl describe`.

They are read-only here: `controllers/events.py` writes them. Callers that may read an object may read its Events; the
API does not reveal the existence of any others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import Ref
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.resources import representation, request_path
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
"""Fields that selectors may name, with their paths in the store."""


def routes() -> list[Route]:
    return [
        Route(EVERYWHERE, list_or_watch, methods=["GET"]),
        Route(WITHIN, list_or_watch, methods=["GET"]),
        Route(f"{WITHIN}/{{name}}", read, methods=["GET"]),
    ]


async def list_or_watch(request: Request) -> Response:
    namespace = request_path.namespace_of(request)
    visible = authorization.require_any(request, "read", targets.all_of(KIND.name, namespace))
    query = Query(request, *resources_routes.LISTING)
    fields = {_to_stored_path(path): value for path, value in query.fields().items()}
    unlike = frozenset((_to_stored_path(path), value) for path, value in query.excluded_fields())
    where = Where(namespace=namespace or None, labels=query.selector(), fields=fields, unlike=unlike)
    return await representation.list_or_watch(request, KIND, query, where, visible, wire=to_wire, version=CORE_VERSION)


async def read(request: Request) -> Response:
    namespace, name = request_path.namespace_of(request), request.path_params["name"]
    visible = authorization.require_any(request, "read", targets.all_of(KIND.name, namespace))
    query = Query(request, "includeObject", "resourceVersion", "pretty", "timeout")
    form = representation.negotiate(request, KIND, query)
    ref = Ref(KIND.name, name, namespace)
    event = await context_of(request).store.get(ref)
    if not visible(event):
        raise name_errors.missing(ref)
    return JSONResponse(form.render(to_wire(event.wire())))


def to_wire(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Kubernetes' wire form of a stored Event."""
    head = {"kind": KIND.name, "apiVersion": CORE_VERSION, "metadata": stored["metadata"]}
    return {**head, **stored["spec"], "eventTime": None}


def _to_stored_path(path: str) -> str:
    if path not in FIELDS:
        raise BadRequest(
            f"fieldSelector: events cannot be selected by '{path}'", hint=f"valid fields: {', '.join(FIELDS)}"
        )
    return FIELDS[path]

"""The resource API in the Kubernetes conventions: every kind of the catalog under /apis/mizzen.dev/v1alpha1.

This module has the routes, and reads, watches and deletes. `write` has the rest; `server.kubernetes` the endpoints that
only Kubernetes clients use.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.kinds.schema.resource import API_VERSION, Resource
from mizzen.server.admission import decode
from mizzen.server.auth import authorization, targets
from mizzen.server.deletion import cascade, guards
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.resources import representation, request_path, scale, status, workload_logs, write
from mizzen.server.resources.delete_options import DeleteOptions
from mizzen.server.resources.representation import Representation
from mizzen.stores.store import Guard, Where

ROOT = f"/apis/{API_VERSION}"

SELECTING = ("labelSelector", "fieldSelector")
LISTING = (
    *SELECTING, "limit", "continue", "watch", "resourceVersion", "resourceVersionMatch", "timeoutSeconds",
    "allowWatchBookmarks", "sendInitialEvents", "includeObject", "pretty", "timeout",
)  # fmt: skip


def routes() -> list[Route]:
    everywhere, within = f"{ROOT}/{{plural}}", f"{ROOT}/namespaces/{{namespace}}/{{plural}}"
    one = f"{within}/{{name}}"
    return [
        Route(everywhere, list_or_watch, methods=["GET"]),
        Route(within, list_or_watch, methods=["GET"]),
        Route(within, write.create, methods=["POST"]),
        Route(within, delete_all, methods=["DELETE"]),
        Route(one, read, methods=["GET"]),
        Route(one, write.replace, methods=["PUT"]),
        Route(one, write.patch, methods=["PATCH"]),
        Route(one, delete, methods=["DELETE"]),
        Route(f"{one}/log", workload_logs.log, methods=["GET"]),
        *status.routes(f"{one}/status"),
        *scale.routes(f"{one}/scale"),
    ]


async def list_or_watch(request: Request) -> Response:
    kind, namespace = request_path.kind_of(request), request_path.namespace_of(request)
    visible = authorization.require_any(request, "read", targets.all_of(kind.name, namespace))
    query = Query(request, *LISTING)
    where = select(query, namespace)
    return await representation.list_or_watch(request, kind, query, where, visible)


def select(query: Query, namespace: str = "") -> Where:
    """Returns the selection of a query, in one namespace or in all."""
    unlike = query.excluded_fields()
    return Where(namespace=namespace or None, labels=query.selector(), fields=query.fields(), unlike=unlike)


async def read(request: Request) -> Response:
    query = Query(request, "includeObject", "resourceVersion", "pretty", "timeout")
    form = representation.negotiate(request, request_path.kind_of(request), query)
    return JSONResponse(form.render((await request_path.find_object(request, "read")).wire()))


async def delete(request: Request) -> Response:
    resource = await request_path.find_object(request, "write")
    wish = await DeleteOptions.of(request)
    wish.refuse_other(resource)
    left = await _delete(request, resource, wish)
    if left is not None:
        return JSONResponse(left.wire())  # 200, as in Kubernetes: some clients ignore the body of a 202
    details = {"name": resource.meta.name, "kind": request_path.kind_of(request).plural, "uid": resource.meta.uid}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return JSONResponse(body)


async def delete_all(request: Request) -> Response:
    """Deletes all selected objects that the caller may delete. Stops at the first refusal; earlier ones are gone."""
    kind, namespace = request_path.kind_of(request), request_path.namespace_of(request)
    visible = authorization.require_any(request, "write", targets.all_of(kind.name, namespace))
    decode.refuse_internal(kind)
    wish = await DeleteOptions.of(request, *SELECTING, "limit", "continue", "resourceVersion", "resourceVersionMatch")
    context = context_of(request)
    where = select(wish.query, namespace)
    limit, token = wish.query.limit(representation.MOST_AT_ONCE), wish.query.text("continue")
    listing = await context.pages.list_page(context.store, kind.name, where, visible, limit=limit, token=token)
    for resource in listing.items:
        await _delete(request, resource, wish)
    return await Representation(None, context.now).list_response(listing, kind, Resource.wire)


async def _delete(request: Request, resource: Resource, options: DeleteOptions) -> Resource | None:
    """Returns None if the object is gone; else the object: it goes when nothing holds it. A dry run also returns it."""
    actor = request_path.require_write(request, resource, resource)
    context = context_of(request)
    if options.dry_run:
        await write.check_guard(context, _delete_guard(resource))
        return resource
    return await cascade.remove(context, resource.ref, actor, uid=resource.meta.uid, cascade=options.cascade)


def _delete_guard(resource: Resource) -> Guard | None:
    match resource.kind:
        case "Model":
            return guards.require_removable(resource.ref)
        case "ModelVersion":
            return guards.require_unused_version(resource)
    return None

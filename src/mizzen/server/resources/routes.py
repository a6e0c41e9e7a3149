"""The resource API in the Kubernetes conventions: every kind of the catalog under /apis/mizzen.dev/v1alpha1.

Here: its routes, and reading, watching and deleting. `writing` has the rest; `door/` what only Kubernetes' clients ask.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.kinds.schema.resource import API_VERSION, Resource
from mizzen.server.admission import create_guards, decode
from mizzen.server.auth import authorization, targets
from mizzen.server.deletion import cascade
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import until_stopped
from mizzen.server.resources import representation, request_path, scale, status, watch, workload_logs, write
from mizzen.server.resources.delete_options import Deletion
from mizzen.server.resources.representation import Shown
from mizzen.server.training import checkpoints
from mizzen.stores.store import Guard, Where

ROOT = f"/apis/{API_VERSION}"
MOST_AT_ONCE = 1000
"""A page, when the caller names no limit of their own: one answer must not hold a store of any size."""

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
    visible = authorization.require_some(request, "read", targets.all_of(kind.name, namespace))
    query = Query(request, *LISTING)
    plane, form = plane_of(request), representation.of(request, kind, query)
    where = Where(namespace=namespace or None, labels=query.selector(), fields=query.fields(), unlike=query.unlike())
    limit, token, begin = query.limit(MOST_AT_ONCE), query.text("continue"), watch.asked(query)
    if begin is None:
        listing = await plane.pages.listing(plane.store, kind.name, where, visible, limit=limit, token=token)
        return await form.answered(listing, kind, Resource.wire)
    lines = watch.lines(plane.store, kind.name, where, begin, visible, forms=form.watched())
    return StreamingResponse(until_stopped(lines, plane.stopping, begin.seconds), media_type="application/json")


async def read(request: Request) -> Response:
    query = Query(request, "includeObject", "resourceVersion", "pretty", "timeout")
    form = representation.of(request, request_path.kind_of(request), query)
    return JSONResponse(form.single((await request_path.found(request, "read")).wire()))


async def delete(request: Request) -> Response:
    resource = await request_path.found(request, "write")
    wish = await Deletion.of(request)
    wish.refuse_other(resource)
    left = await _deleted(request, resource, wish)
    if left is not None:
        return JSONResponse(left.wire())  # as in Kubernetes: some of its clients read nothing of a 202
    details = {"name": resource.meta.name, "kind": request_path.kind_of(request).plural, "uid": resource.meta.uid}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return JSONResponse(body)


async def delete_all(request: Request) -> Response:
    """Everything that is selected, as far as the caller may. What is refused ends it; those before are gone."""
    kind, namespace = request_path.kind_of(request), request_path.namespace_of(request)
    visible = authorization.require_some(request, "write", targets.all_of(kind.name, namespace))
    decode.refuse_internal(kind)
    wish = await Deletion.of(request, *SELECTING, "limit", "continue", "resourceVersion", "resourceVersionMatch")
    plane = plane_of(request)
    where = Where(
        namespace=namespace, labels=wish.query.selector(), fields=wish.query.fields(), unlike=wish.query.unlike()
    )
    limit, token = wish.query.limit(MOST_AT_ONCE), wish.query.text("continue")
    listing = await plane.pages.listing(plane.store, kind.name, where, visible, limit=limit, token=token)
    for resource in listing.items:
        await _deleted(request, resource, wish)
    return await Shown(None, plane.now).answered(listing, kind, Resource.wire)


async def _deleted(request: Request, resource: Resource, wish: Deletion) -> Resource | None:
    """None: gone. Else the object: it goes when nothing holds it, or would."""
    actor = request_path.require_write(request, resource, resource)
    plane = plane_of(request)
    if wish.dry_run:
        await write.check(plane, _may_go(resource))
        return resource
    left = await cascade.remove(plane.store, resource.ref, actor, uid=resource.meta.uid, cascade=wish.cascade)
    if left is None and resource.kind in ("Model", "ModelVersion"):
        await checkpoints.go_with(plane, resource.ref)
    return left


def _may_go(resource: Resource) -> Guard | None:
    match resource.kind:
        case "Model":
            return create_guards.free_to_go(resource.ref)
        case "ModelVersion":
            return create_guards.unneeded(resource)
    return None

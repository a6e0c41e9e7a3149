"""The resource API in the Kubernetes conventions: every kind of the catalog under /apis/mizzen.dev/v1alpha1."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.access.policy import Actor, Target
from mizzen.errors import Conflict, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.meta import API_VERSION, Ref, Resource
from mizzen.server import admission, guards, registration, removal, watching
from mizzen.server.admission import Draft
from mizzen.server.auth import require
from mizzen.server.bodies import read_object
from mizzen.server.fields import suggestion
from mizzen.server.plane import Plane, plane_of
from mizzen.server.query import Query
from mizzen.server.streams import closing, until_stopped
from mizzen.stores.store import Listing, Where

ROOT = f"/apis/{API_VERSION}"
DAY = 24 * 60 * 60


def routes() -> list[Route]:
    everywhere, within = f"{ROOT}/{{plural}}", f"{ROOT}/namespaces/{{namespace}}/{{plural}}"
    return [
        Route(everywhere, list_or_watch, methods=["GET"]),
        Route(within, list_or_watch, methods=["GET"]),
        Route(within, create, methods=["POST"]),
        Route(f"{within}/{{name}}", read, methods=["GET"]),
        Route(f"{within}/{{name}}", replace, methods=["PUT"]),
        Route(f"{within}/{{name}}", delete, methods=["DELETE"]),
        Route(f"{within}/{{name}}/log", log, methods=["GET"]),
    ]


async def list_or_watch(request: Request) -> Response:
    kind, target = _kind(request), _target(request)
    require(request, "read", target)
    query = Query(request, "limit", "continue", "labelSelector", "watch", "resourceVersion", "timeoutSeconds")
    plane = plane_of(request)
    where = Where(namespace=target.namespace or None, labels=query.labels())
    if not query.flag("watch"):
        listing = await plane.store.list(
            kind.name, where, limit=query.number("limit", low=1), after=query.text("continue") or None
        )
        return JSONResponse(_list_body(kind, listing))
    seconds = query.number("timeoutSeconds", low=1, high=DAY)
    since = query.number("resourceVersion", high=10**18)
    lines = watching.lines(plane.store, kind.name, where, str(since) if since else "")
    return StreamingResponse(until_stopped(lines, plane.stopping, seconds), media_type="application/json")


async def create(request: Request) -> Response:
    kind, target = _kind(request), _target(request)
    # A version is code that will run here, so it is for the admin alone, as at the other door.
    actor = require(request, "admin" if kind is registration.KIND else "write", target)
    admission.refuse_internal(kind)
    Query(request)
    draft = admission.decode(kind, await read_object(request), namespace=target.namespace)
    stored = await _created(plane_of(request), kind, draft, target.namespace, actor)
    return JSONResponse(stored.wire(), 201, headers={"Location": f"{request.url.path}/{stored.meta.name}"})


async def read(request: Request) -> Response:
    require(request, "read", _target(request))
    Query(request)
    return JSONResponse((await plane_of(request).store.get(_ref(request))).wire())


async def replace(request: Request) -> Response:
    kind, target = _kind(request), _target(request)
    actor = require(request, "write", target)
    admission.refuse_internal(kind)
    Query(request)
    draft = admission.decode(kind, await read_object(request), namespace=target.namespace, name=target.name)
    store = plane_of(request).store
    while True:
        old = await store.get(_ref(request))
        if draft.resource_version not in ("", old.meta.resource_version):
            raise Conflict(f"{old.ref} changed since it was read", hint="read it again and repeat the change")
        said = registration.kept(draft, old) if kind is registration.KIND else draft
        try:
            stored = await store.update(admission.updated(kind, said, old, actor), actor.name)
        except Conflict:
            # Somebody wrote between our read and our write. Writing without a check would undo what a controller did to
            # the finalizers; so look again. A draft that names its version is refused above.
            continue
        return JSONResponse(stored.wire())


async def delete(request: Request) -> Response:
    kind = _kind(request)
    actor = require(request, "write", _target(request))
    admission.refuse_internal(kind)
    Query(request)
    left = await removal.remove(plane_of(request).store, _ref(request), actor)
    if left is not None:
        return JSONResponse(left.wire(), 202)
    details = {"name": request.path_params["name"], "kind": kind.plural}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return JSONResponse(body)


async def log(request: Request) -> Response:
    if request.path_params["plural"] != "inferencemodels":
        raise NotFound(f"{request.path_params['plural']} have no log", hint="inferencemodels have one")
    at = _target(request)
    require(request, "read", Target(at.namespace, at.kind, at.name, "logs"))
    query = Query(request, "tail", "follow")
    tail, follow = query.number("tail"), query.flag("follow")
    plane = plane_of(request)
    resource = await plane.store.get(_ref(request))
    chunks = until_stopped(_chunks(plane, resource, tail=tail, follow=follow), plane.stopping)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")


async def _created(plane: Plane, kind: Kind, draft: Draft, namespace: str, actor: Actor) -> Resource:
    if kind is registration.KIND:
        return await registration.register(plane, draft, namespace, actor)
    resource = admission.created(kind, draft, namespace, actor)
    return await plane.store.create(resource, actor.name, guard=guards.admits(resource))


async def _chunks(plane: Plane, server: Resource, *, tail: int | None, follow: bool) -> AsyncGenerator[bytes, None]:
    """What the server's workloads printed, one after the other; following goes on with the last one."""
    where = Where(namespace=server.meta.namespace, owner=server.meta.uid)
    workloads = (await plane.store.list("Workload", where)).items
    for workload in workloads:
        last = workload is workloads[-1]
        async with closing(plane.logs(workload, tail=tail, follow=follow and last)) as chunks:
            async for chunk in chunks:
                yield chunk


def _kind(request: Request) -> Kind:
    plural = request.path_params["plural"]
    plurals = {kind.plural: kind for kind in catalog.KINDS}
    if plural not in plurals:
        raise NotFound(f"no kind has the plural '{plural}'", hint=suggestion(plural, plurals))
    return plurals[plural]


def _target(request: Request) -> Target:
    at = request.path_params
    return Target(at.get("namespace", ""), _kind(request).name, at.get("name", ""))


def _ref(request: Request) -> Ref:
    at = request.path_params
    return Ref(_kind(request).name, at["name"], at["namespace"])


def _list_body(kind: Kind, listing: Listing) -> dict[str, Any]:
    metadata = {"resourceVersion": listing.resource_version, "continue": listing.next or ""}
    items = [item.wire() for item in listing.items]
    return {"kind": f"{kind.name}List", "apiVersion": API_VERSION, "metadata": metadata, "items": items}

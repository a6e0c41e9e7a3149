"""/api/v1/namespaces: namespaces as clients of Kubernetes see, make, label and delete them.

Made and changed by those who administer what is in them, and by writing something into one that is not there. Seen by
whoever has any right in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.errors import AlreadyExists, BadRequest, Conflict, Forbidden, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, DEFAULT_NAMESPACE, Resource, format_time
from mizzen.patches import json_patch, merge_patch
from mizzen.patches.managed_fields import Manager
from mizzen.server.admission import create_guards, field_managers, field_validation, namespaced_store
from mizzen.server.auth import authorization, targets
from mizzen.server.http import warning_headers
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import RESOURCE_LIMIT, Sent, beside, read_patch, weight
from mizzen.server.http.streaming import until_stopped
from mizzen.server.kubernetes import namespace_wire, protobuf, strategic_merge
from mizzen.server.resources import representation, watch, write
from mizzen.server.resources import routes as resources_routes
from mizzen.server.resources.delete_options import Deletion
from mizzen.stores.store import Where

ROOT = f"/api/{CORE_VERSION}/namespaces"
KIND = catalog.BY_NAME[namespaced_store.KIND]
PATCHES = (*write.PATCHES, strategic_merge.MEDIA_TYPE)
MOST_COUNTED = 1000
"""Of one kind, when somebody asks what keeps a namespace from going."""

Wanted = Callable[[Resource], tuple[Any, tuple[Manager, ...] | None]]
"""Of the namespace as it is: what it is to be, and who owns which field then; None: whoever writes what they change."""


def routes() -> list[Route]:
    one = f"{ROOT}/{{name}}"
    return [
        Route(ROOT, list_or_watch, methods=["GET"]),
        Route(ROOT, create, methods=["POST"]),
        Route(one, read, methods=["GET"]),
        Route(one, replace_one, methods=["PUT"]),
        Route(one, patch, methods=["PATCH"]),
        Route(one, delete, methods=["DELETE"]),
    ]


async def list_or_watch(request: Request) -> Response:
    visible = authorization.require_some(request, "read", targets.namespace())
    query = Query(request, *resources_routes.LISTING)
    plane, form = plane_of(request), representation.of(request, KIND, query)
    where = Where(labels=query.selector(), fields=query.fields(), unlike=query.unlike())
    limit, token, begin = query.limit(resources_routes.MOST_AT_ONCE), query.text("continue"), watch.asked(query)
    if begin is None:
        listing = await plane.pages.listing(plane.store, KIND.name, where, visible, limit=limit, token=token)
        return await form.answered(listing, KIND, lambda item: namespace_wire.wire(item.wire()), CORE_VERSION)
    lines = watch.lines(plane.store, KIND.name, where, begin, visible, forms=form.watched(namespace_wire.wire))
    return StreamingResponse(until_stopped(lines, plane.stopping, begin.seconds), media_type="application/json")


async def read(request: Request) -> Response:
    form = representation.of(request, KIND, Query(request, "includeObject", "resourceVersion", "pretty", "timeout"))
    authorization.require(request, "read", targets.namespace(_name(request)))
    found = await plane_of(request).store.get(namespaced_store.ref(_name(request)))
    body = namespace_wire.wire(found.wire())
    if found.meta.deleted is not None:
        # Only here, where somebody asks why it takes so long: it is looked up for them, and kept nowhere.
        body["status"] |= namespace_wire.remaining(await _left(request), format_time(found.meta.deleted))
    return JSONResponse(form.single(body))


async def create(request: Request) -> Response:
    authorization.require_some(request, "admin", targets.namespace())  # before anything they sent is read
    query = Query(request, *write.QUERY)
    return await _made(request, await protobuf.read(request, RESOURCE_LIMIT), None, query)


async def replace_one(request: Request) -> Response:
    authorization.require(request, "admin", targets.namespace(_name(request)))
    query = Query(request, *write.QUERY)
    body = await protobuf.read(request, RESOURCE_LIMIT)
    return await _changed(request, lambda _old: (body, None), query)


async def patch(request: Request) -> Response:
    """As its media type says. Only an apply may be of a namespace that is not there yet."""
    authorization.require(request, "admin", targets.namespace(_name(request)))
    query = Query(request, *write.QUERY, "force")
    sent = await read_patch(request, PATCHES)
    if sent.media_type == write.APPLY:
        return await _apply(request, sent, query)
    if query.text("force"):
        raise BadRequest("force is for apply")
    kinds = {
        write.MERGE: merge_patch.merged,
        write.JSON: json_patch.patched,
        strategic_merge.MEDIA_TYPE: strategic_merge.merged,
    }
    make = kinds[sent.media_type]
    return await _changed(
        request, lambda old: (make(namespace_wire.wire(old.wire()), sent.body), None), query, sent.size
    )


async def delete(request: Request) -> Response:
    """It goes by itself, once all in it is gone."""
    name = _name(request)
    actor = authorization.require(request, "admin", targets.namespace(name))
    wish = await Deletion.of(request)
    if name == DEFAULT_NAMESPACE:
        raise Forbidden(f"namespace {name} cannot be deleted: what names no namespace is in it")
    store = plane_of(request).store
    found = await store.get(namespaced_store.ref(name))
    wish.refuse_other(found)
    if not wish.dry_run:
        found = await store.delete(found.ref, actor.name, uid=found.meta.uid) or found
    return JSONResponse(namespace_wire.wire(found.wire()), 200 if wish.dry_run else 202)


async def _apply(request: Request, sent: Sent, query: Query) -> Response:
    said = query.text("fieldManager")
    if not said:
        raise BadRequest("an apply needs fieldManager: who owns what is applied", hint="?fieldManager=<your tool>")
    by, force, now = field_managers.name_of(request, said), query.flag("force"), plane_of(request).now
    document = namespace_wire.document(sent.body, _name(request))

    def wanted(old: Resource | None) -> tuple[Any, tuple[Manager, ...]]:
        return field_managers.applied(old and namespace_wire.bare(old), document, by, now(), force=force)

    while True:
        try:
            return await _changed(request, wanted, query, sent.size)
        except NotFound:
            if namespace_wire.metadata_of(document).get("resourceVersion"):
                raise
        try:
            return await _made(request, *await beside(request, sent.size, partial(wanted, None)), query)
        except AlreadyExists:
            continue  # somebody else made it meanwhile: then it is changed


async def _made(request: Request, body: Any, owners: tuple[Manager, ...] | None, query: Query) -> Response:
    plane, form = plane_of(request), representation.of(request, KIND, query)
    by = field_managers.name_of(request, query.text("fieldManager"))
    said = namespace_wire.metadata_of(body).get("name")
    name = request.state.called = said if isinstance(said, str) else ""
    actor = authorization.require(request, "admin", targets.namespace(name))
    strictness, path_says = field_validation.of(query), request.path_params.get("name")
    draft = await beside(request, weight(body), partial(namespace_wire.decode, body, strictness, path_says))
    annotations = {**draft.meta.annotations, ACTOR_ANNOTATION: actor.name}
    new = replace(draft.resource, meta=replace(draft.meta, annotations=annotations))
    new = (
        field_managers.after_update(None, new, by, plane.now())
        if owners is None
        else field_managers.with_managers(new, owners)
    )
    new = namespaced_store.new(new.meta.name, new.meta)
    if query.dry_run():
        await write.check(plane, create_guards.absent(new.ref))
        stored = new
    else:
        stored = await plane.store.create(new, actor.name)
    answer = JSONResponse(
        form.single(namespace_wire.wire(stored.wire())), 201, headers={"Location": f"{ROOT}/{stored.meta.name}"}
    )
    return warning_headers.attach(answer, draft.warnings)


async def _changed(request: Request, wanted: Wanted, query: Query, size: int = 0) -> Response:
    plane, form, name = plane_of(request), representation.of(request, KIND, query), _name(request)
    strictness = field_validation.of(query)
    by, actor = field_managers.name_of(request, query.text("fieldManager")), authorization.actor_of(request)
    while True:
        old = await plane.store.get(namespaced_store.ref(name))
        body, owners = await beside(request, size + weight(old.meta.annotations), partial(wanted, old))
        draft = await beside(request, weight(body), partial(namespace_wire.decode, body, strictness, name))
        _refuse_stale(draft.meta.resource_version, draft.meta.uid, old)
        before = namespace_wire.bare(old)
        new = namespace_wire.updated(before, draft, actor.name)
        new = (
            field_managers.after_update(before, new, by, plane.now()) if owners is None
            else field_managers.with_managers(new, owners)
        )  # fmt: skip
        new = namespace_wire.dressed(new, old)
        if not query.dry_run():
            try:
                new = await plane.store.update(new, actor.name)
            except Conflict:
                if draft.meta.resource_version or (old.deleting and _added(old, new)):
                    raise
                continue  # somebody wrote meanwhile; look again
        return warning_headers.attach(JSONResponse(form.single(namespace_wire.wire(new.wire()))), draft.warnings)


async def _left(request: Request) -> list[Resource]:
    """What is still in it, as far as the caller may see that; of much of a kind, some."""
    where = Where(namespace=_name(request))
    async with plane_of(request).store.snapshot() as moment:
        pages = [await moment.list(kind, where, limit=MOST_COUNTED) for kind in namespaced_store.INHABITANTS]
    return [item for page in pages for item in page.items if authorization.may(request, "read", targets.of(item))]


def _added(old: Resource, new: Resource) -> bool:
    return not set(new.meta.finalizers) <= set(old.meta.finalizers)


def _refuse_stale(version: str, uid: str, old: Resource) -> None:
    if version not in ("", old.meta.resource_version):
        raise Conflict(f"{old.ref} changed since it was read", hint="read it again and repeat the change")
    if uid not in ("", old.meta.uid):
        raise Conflict(f"{old.ref} is another object than the one that was read", hint="read it again")


def _name(request: Request) -> str:
    return str(request.path_params["name"])

"""/api/v1/namespaces: read, create, label and delete namespaces as Kubernetes clients do.

Creating and changing one needs `admin` in it; the first write into a namespace also creates it. Callers with any right
in a namespace see it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import AlreadyExists, BadRequest, Conflict, Forbidden, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import CORE_VERSION
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, DEFAULT_NAMESPACE, Resource, format_time
from mizzen.patches.managed_fields import Manager
from mizzen.server.admission import create_guards, field_managers, field_validation, namespaced_store
from mizzen.server.auth import authorization, targets
from mizzen.server.http import warning_headers
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import RESOURCE_LIMIT, PatchBody, read_patch, run_in_worker, size_hint
from mizzen.server.kubernetes import namespace_wire, protobuf, strategic_merge
from mizzen.server.resources import representation, write
from mizzen.server.resources import routes as resources_routes
from mizzen.server.resources.delete_options import DeleteOptions
from mizzen.stores.store import Where

ROOT = f"/api/{CORE_VERSION}/namespaces"
KIND = catalog.BY_NAME[namespaced_store.KIND]
PATCHES = (*write.PATCHES, strategic_merge.MEDIA_TYPE)
MOST_COUNTED = 1000
"""The most objects of one kind that are counted to explain why a namespace still exists."""

Change = Callable[[Resource], tuple[Any, tuple[Manager, ...] | None]]
"""From the namespace as it is to its new content and field owners. None: the writer owns the fields they change."""


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
    visible = authorization.require_any(request, "read", targets.namespace())
    query = Query(request, *resources_routes.LISTING)
    where, wire = resources_routes.select(query), namespace_wire.to_wire
    return await representation.list_or_watch(request, KIND, query, where, visible, wire=wire, version=CORE_VERSION)


async def read(request: Request) -> Response:
    query = Query(request, "includeObject", "resourceVersion", "pretty", "timeout")
    form = representation.negotiate(request, KIND, query)
    authorization.require(request, "read", targets.namespace(_name(request)))
    found = await context_of(request).store.get(namespaced_store.ref_of(_name(request)))
    body = namespace_wire.to_wire(found.wire())
    if found.meta.deleted is not None:
        # Computed on demand, for clients that ask why the deletion takes so long; it is stored nowhere.
        left = await _list_remaining(request)
        body["status"] |= namespace_wire.render_remaining(left, format_time(found.meta.deleted))
    return JSONResponse(form.render(body))


async def create(request: Request) -> Response:
    authorization.require_any(request, "admin", targets.namespace())  # before the body is read
    query = Query(request, *write.QUERY)
    return await _create(request, await protobuf.read_body(request, RESOURCE_LIMIT), None, query)


async def replace_one(request: Request) -> Response:
    authorization.require(request, "admin", targets.namespace(_name(request)))
    query = Query(request, *write.QUERY)
    body = await protobuf.read_body(request, RESOURCE_LIMIT)
    return await _update(request, lambda _old: (body, None), query)


async def patch(request: Request) -> Response:
    """Patch as the media type says. Only an apply may create the namespace."""
    authorization.require(request, "admin", targets.namespace(_name(request)))
    query = Query(request, *write.QUERY, "force")
    sent = await read_patch(request, PATCHES)
    if sent.media_type == write.APPLY:
        return await _apply(request, sent, query)
    if query.text("force"):
        raise BadRequest("force is valid only for an apply")
    make = strategic_merge.merge if sent.media_type == strategic_merge.MEDIA_TYPE else write.patcher_of(sent)

    def change(old: Resource) -> tuple[Any, None]:
        return make(namespace_wire.to_wire(old.wire()), sent.body), None

    return await _update(request, change, query, sent.size)


async def delete(request: Request) -> Response:
    """Mark it for deletion; it disappears once everything in it is gone."""
    name = _name(request)
    actor = authorization.require(request, "admin", targets.namespace(name))
    options = await DeleteOptions.of(request)
    if name == DEFAULT_NAMESPACE:
        raise Forbidden(f"namespace {name} cannot be deleted: objects without a namespace belong to it")
    store = context_of(request).store
    found = await store.get(namespaced_store.ref_of(name))
    options.refuse_other(found)
    if not options.dry_run:
        found = await store.delete(found.ref, actor.name, uid=found.meta.uid) or found
    return JSONResponse(namespace_wire.to_wire(found.wire()), 200 if options.dry_run else 202)


async def _apply(request: Request, sent: PatchBody, query: Query) -> Response:
    by, force, now = field_managers.apply_manager(request, query), query.flag("force"), context_of(request).now
    document = namespace_wire.to_apply_document(sent.body, _name(request))

    def change(old: Resource | None) -> tuple[Any, tuple[Manager, ...]]:
        return field_managers.apply(old and namespace_wire.without_server_fields(old), document, by, now(), force=force)

    while True:
        try:
            return await _update(request, change, query, sent.size)
        except NotFound:
            if namespace_wire.metadata_of(document).get("resourceVersion"):
                raise
        try:
            return await _create(request, *await run_in_worker(request, sent.size, partial(change, None)), query)
        except AlreadyExists:
            continue  # another client created it meanwhile, so change it


async def _create(request: Request, body: Any, owners: tuple[Manager, ...] | None, query: Query) -> Response:
    context, form = context_of(request), representation.negotiate(request, KIND, query)
    by = field_managers.manager_name(request, query.text("fieldManager"))
    sent_name = namespace_wire.metadata_of(body).get("name")
    name = request.state.object_name = sent_name if isinstance(sent_name, str) else ""
    actor = authorization.require(request, "admin", targets.namespace(name))
    strictness, path_says = field_validation.strictness_of(query), request.path_params.get("name")
    draft = await run_in_worker(request, size_hint(body), partial(namespace_wire.decode, body, strictness, path_says))
    annotations = {**draft.meta.annotations, ACTOR_ANNOTATION: actor.name}
    new = replace(draft.resource, meta=replace(draft.meta, annotations=annotations))
    new = field_managers.record(None, new, owners, by, context.now())
    new = namespaced_store.build_namespace(new.meta.name, new.meta)
    if query.dry_run():
        await write.check_guard(context, create_guards.require_absent(new.ref))
        stored = new
    else:
        stored = await context.store.create(new, actor.name)
    body, location = form.render(namespace_wire.to_wire(stored.wire())), f"{ROOT}/{stored.meta.name}"
    return warning_headers.attach(JSONResponse(body, 201, headers={"Location": location}), draft.warnings)


async def _update(request: Request, change: Change, query: Query, size: int = 0) -> Response:
    context, form, name = context_of(request), representation.negotiate(request, KIND, query), _name(request)
    strictness = field_validation.strictness_of(query)
    by, actor = field_managers.manager_name(request, query.text("fieldManager")), authorization.actor_of(request)
    while True:
        old = await context.store.get(namespaced_store.ref_of(name))
        body, owners = await run_in_worker(request, size + size_hint(old.meta.annotations), partial(change, old))
        draft = await run_in_worker(request, size_hint(body), partial(namespace_wire.decode, body, strictness, name))
        write.refuse_stale(draft.meta.resource_version, draft.meta.uid, old)
        before = namespace_wire.without_server_fields(old)
        new = namespace_wire.merge_draft(before, draft, actor.name)
        new = field_managers.record(before, new, owners, by, context.now())
        new = namespace_wire.with_server_fields(new, old)
        if not query.dry_run():
            try:
                new = await context.store.update(new, actor.name)
            except Conflict:
                if draft.meta.resource_version or (old.deleting and _adds_finalizer(old, new)):
                    raise
                continue  # another write came first; try again
        return warning_headers.attach(JSONResponse(form.render(namespace_wire.to_wire(new.wire()))), draft.warnings)


async def _list_remaining(request: Request) -> list[Resource]:
    """Objects still in it that the caller may read, up to MOST_COUNTED of a kind."""
    where = Where(namespace=_name(request))
    async with context_of(request).store.snapshot() as moment:
        pages = [await moment.list(kind, where, limit=MOST_COUNTED) for kind in namespaced_store.NAMESPACED_KINDS]
    items = (item for page in pages for item in page.items)
    return [item for item in items if authorization.is_allowed(request, "read", targets.of(item))]


def _adds_finalizer(old: Resource, new: Resource) -> bool:
    return not set(new.meta.finalizers) <= set(old.meta.finalizers)


def _name(request: Request) -> str:
    return str(request.path_params["name"])

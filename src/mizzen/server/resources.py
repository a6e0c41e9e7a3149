"""The resource API in the Kubernetes conventions: every kind of the catalog under /apis/mizzen.dev/v1alpha1."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mizzen.access.policy import Actor, Verb
from mizzen.errors import Conflict, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.catalog import Kind
from mizzen.kinds.findings import Context, Warn, suggestion
from mizzen.kinds.meta import API_VERSION, Meta, Ref, Resource, name_fault
from mizzen.server import (
    admission,
    answers,
    auth,
    bindings,
    changes,
    guards,
    references,
    registration,
    removal,
    targets,
    trust,
    warnings,
    watching,
)
from mizzen.server.admission import Draft
from mizzen.server.bodies import RESOURCE_LIMIT, beside, read_object
from mizzen.server.plane import Plane, plane_of
from mizzen.server.query import Query
from mizzen.server.streams import closing, until_stopped, while_wanted
from mizzen.stores.store import Guard, Where
from mizzen.stores.whole import whole

ROOT = f"/apis/{API_VERSION}"
DAY = 24 * 60 * 60
MOST_AT_ONCE = 1000
"""A page, when the caller names no limit of their own: one answer must not hold a store of any size."""


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
    kind, namespace = _kind(request), _namespace(request)
    visible = auth.require_some(request, "read", targets.all_of(kind.name, namespace))
    query = Query(
        request, "limit", "continue", "labelSelector", "fieldSelector", "watch", "resourceVersion", "timeoutSeconds"
    )
    plane = plane_of(request)
    where = Where(namespace=namespace or None, labels=query.selector(), fields=query.fields())
    if not query.flag("watch"):
        limit = query.limit(MOST_AT_ONCE)
        token = query.text("continue")
        listing = await plane.pages.listing(plane.store, kind.name, where, visible, limit=limit, token=token)
        metadata = {"resourceVersion": listing.resource_version, "continue": listing.next or ""}
        around = {"kind": f"{kind.name}List", "apiVersion": API_VERSION}
        return await answers.listed(listing.items, Resource.wire, metadata, **around)
    seconds = query.number("timeoutSeconds", low=1, high=DAY)
    since = query.number("resourceVersion", high=10**18)
    lines = watching.lines(plane.store, kind.name, where, str(since) if since else "", visible)
    return StreamingResponse(until_stopped(lines, plane.stopping, seconds), media_type="application/json")


async def create(request: Request) -> Response:
    kind, namespace = _kind(request), request.path_params["namespace"]
    auth.require_some(request, "write", targets.all_of(kind.name, namespace))  # before anything they sent is read
    admission.refuse_internal(kind)
    query = _tried(request, "assume")
    body = await read_object(request)
    sent = _as_sent(kind, body, namespace)
    actor = _require_write(request, sent)
    await trust.require_names(request, sent)
    plane = plane_of(request)
    draft = await _decoded(request, kind, body, namespace=namespace)
    new = admission.created(kind, draft, namespace, actor)
    trust.require(request, new)
    odd = await while_wanted(request, _examined(plane, new, query.assumed()))
    stored = await _created(request, plane, draft, new, query)
    location = {"Location": f"{request.url.path}/{stored.meta.name}"}
    return warnings.attach(JSONResponse(stored.wire(), 201, headers=location), (*draft.warnings, *odd))


async def read(request: Request) -> Response:
    Query(request)
    return JSONResponse((await _found(request, "read")).wire())


async def replace(request: Request) -> Response:
    kind = _kind(request)
    await _found(request, "write")
    query = _tried(request, "assume")
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    plane = plane_of(request)
    body = await read_object(request)
    draft = await _decoded(request, kind, body, namespace=namespace, name=name)
    while True:
        old = await plane.store.get(_ref(request))
        if draft.resource_version not in ("", old.meta.resource_version):
            raise Conflict(f"{old.ref} changed since it was read", hint="read it again and repeat the change")
        if draft.uid not in ("", old.meta.uid):
            raise Conflict(f"{old.ref} is another object than the one that was read", hint="read it again")
        actor = _require_write(request, old)
        said = registration.kept(draft, old) if kind is registration.KIND else draft
        new = admission.updated(kind, said, old, actor)
        await trust.require_names(request, new)
        _require_write(request, new)
        trust.require(request, new, old)
        odd = await while_wanted(request, _examined(plane, new, query.assumed()))
        guard = changes.guard(old, new)
        if query.dry_run():
            await _check(plane, guard)
            stored = _as_it_would_be(old, new)
        else:
            try:
                stored = await plane.store.update(new, actor.name, guard=guard)
            except Conflict:
                # Somebody wrote between our read and our write. Writing without a check would undo what a controller
                # did to the finalizers; so look again. A draft that names its version is refused above.
                if (await plane.store.get(old.ref)).meta.resource_version == old.meta.resource_version:
                    raise  # nobody did: it was the guard
                continue
        return warnings.attach(JSONResponse(stored.wire()), (*draft.warnings, *odd))


async def delete(request: Request) -> Response:
    kind = _kind(request)
    resource = await _found(request, "write")
    dry_run = _tried(request).dry_run()
    actor = _require_write(request, resource)
    plane = plane_of(request)
    if dry_run:
        await _check(plane, _may_go(resource))
        left: Resource | None = resource
    else:
        left = await removal.remove(plane.store, resource.ref, actor, uid=resource.meta.uid)
    if left is not None:
        return JSONResponse(left.wire(), 202)
    details = {"name": request.path_params["name"], "kind": kind.plural}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return JSONResponse(body)


async def log(request: Request) -> Response:
    if request.path_params["plural"] != "inferencemodels":
        raise NotFound(f"{request.path_params['plural']} have no log", hint="inferencemodels have one")
    resource = await _found(request, "read", subresource="logs")
    query = Query(request, "tail", "follow")
    tail, follow = query.number("tail"), query.flag("follow")
    plane = plane_of(request)
    chunks = until_stopped(_chunks(plane, resource, tail=tail, follow=follow), plane.stopping)
    return StreamingResponse(chunks, media_type="text/plain; charset=utf-8")


async def _found(request: Request, verb: Verb, subresource: str = "") -> Resource:
    """The object, when the caller may do this with it. Who may not even read it does not learn whether it is there."""
    ref = _ref(request)
    named = targets.named(ref, subresource=subresource)
    auth.require_some(request, verb, named)
    if verb != "read":
        admission.refuse_internal(_kind(request))
    try:
        resource = await plane_of(request).store.get(ref)
    except NotFound:
        auth.require(request, verb, named)
        raise
    auth.require(request, verb, targets.of(resource, subresource=subresource), named=named)
    return resource


def _tried(request: Request, *known: str) -> Query:
    """The query of what may be asked for as a dry run, which is no change for the audit."""
    query = Query(request, "dryRun", *known)
    request.state.tried = query.dry_run()
    return query


def _require_write(request: Request, resource: Resource) -> Actor:
    """Who may grant rights is asked of each right: a RoleBinding is for those who administer what it speaks of."""
    if resource.kind == "RoleBinding":
        return auth.require(request, "admin", bindings.target_of(resource))
    for called in targets.called_by(resource):
        auth.require(request, "predict", called)
    return auth.require(request, "write", targets.of(resource))


async def _created(request: Request, plane: Plane, draft: Draft, new: Resource, query: Query) -> Resource:
    if new.kind == registration.KIND.name:
        return await registration.register(
            request, draft, new.meta.namespace, dry_run=query.dry_run(), assumed=query.assumed()
        )
    guard = guards.admits(new)
    if not query.dry_run():
        return await plane.store.create(new, auth.actor_of(request).name, guard=guard)
    await _check(plane, guards.absent(new.ref))
    await _check(plane, guard)
    return new


async def _check(plane: Plane, guard: Guard | None) -> None:
    """For a change that is only tried."""
    if guard is not None:
        async with plane.store.snapshot() as moment:
            await moment.check(guard)


def _may_go(resource: Resource) -> Guard | None:
    match resource.kind:
        case "Model":
            return guards.free_to_go(resource.ref)
        case "ModelVersion":
            return guards.unneeded(resource)
    return None


def _as_it_would_be(old: Resource, new: Resource) -> Resource:
    generation = old.meta.generation + (not admission.same(old.spec, new.spec))
    return dataclasses.replace(new, meta=dataclasses.replace(new.meta, generation=generation))


async def _examined(plane: Plane, resource: Resource, assumed: frozenset[tuple[str, str]]) -> tuple[Warn, ...]:
    findings = await references.examine(plane, resource, assumed)
    references.refuse(resource, findings)
    return findings.warnings


async def _chunks(plane: Plane, server: Resource, *, tail: int | None, follow: bool) -> AsyncGenerator[bytes, None]:
    """What the server's workloads printed, one after the other; following goes on with the last one."""
    where = Where(namespace=server.meta.namespace, owner=server.meta.uid)
    workloads = await whole(plane.store, "Workload", where)
    for workload in workloads:
        last = workload is workloads[-1]
        async with closing(plane.logs(workload, tail=tail, follow=follow and last)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _decoded(
    request: Request, kind: Kind, body: Mapping[str, Any], *, namespace: str, name: str | None = None
) -> Draft:
    known = Context(capabilities=plane_of(request).capabilities)
    length = request.headers.get("content-length", "")
    size = int(length[:20]) if length.isdecimal() else RESOURCE_LIMIT
    return await beside(
        request, size, lambda: admission.decode(kind, body, namespace=namespace, name=name, known=known)
    )


def _kind(request: Request) -> Kind:
    plural = request.path_params["plural"]
    if plural not in catalog.BY_PLURAL:
        raise NotFound(f"no kind has the plural '{plural}'", hint=suggestion(plural, catalog.BY_PLURAL))
    return catalog.BY_PLURAL[plural]


def _ref(request: Request) -> Ref:
    return Ref(_kind(request).name, request.path_params["name"], _namespace(request))


def _namespace(request: Request) -> str:
    """Empty when the path names none. Invalid."""
    namespace = str(request.path_params.get("namespace", ""))
    fault = name_fault(namespace, "metadata.namespace") if namespace else None
    if fault:
        raise Invalid.of("the path", (fault,))
    return namespace


def _as_sent(kind: Kind, body: Mapping[str, Any], namespace: str) -> Resource:
    """For the decision whether it may be sent at all: what it says, whether or not that makes sense."""
    metadata, spec = body.get("metadata"), body.get("spec")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return Resource(
        kind.name, Meta(name if isinstance(name, str) else "", namespace), spec if isinstance(spec, Mapping) else {}
    )

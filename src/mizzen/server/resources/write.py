"""Objects as people write them out: create, replace, patch and apply, which are one way into the store.

Each says what the whole object is to be. That is decoded strictly, and all that may speak against it is asked: rights,
names, references, and, within the write itself, a guard. Field managers are kept with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mizzen.errors import BadRequest, Conflict, NotFound
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.patches import json_patch, merge_patch
from mizzen.patches.managed_fields import Manager
from mizzen.server.admission import (
    create_guards,
    decode,
    field_managers,
    field_validation,
    namespaced_store,
    privileged_fields,
    reference_checks,
    update_guards,
)
from mizzen.server.admission.decode import Draft
from mizzen.server.auth import authorization, targets
from mizzen.server.http import warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import Sent, beside, read_object, read_patch, weight
from mizzen.server.http.streaming import while_wanted
from mizzen.server.resources import representation, request_path
from mizzen.server.versions import registration
from mizzen.stores.store import Guard

QUERY = ("dryRun", "assume", "fieldManager", "fieldValidation", "includeObject", "pretty", "timeout")

MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
PATCHES = (MERGE, JSON, APPLY)

CLIENT_SIDE = "kubectl-client-side-apply"
"""kubectl when it applies by itself: it leaves out nulls that are in the file."""
EMPTY = Warn("spec", "what is empty is read as in the file applied last, nulls and all; to say otherwise leave it out")
"""For all others, who may have meant what they said."""
OWNERS = Warn("metadata.ownerReferences", "not kept: only controllers make objects that belong to others")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants an object to be, in the wire form."""

    document: Mapping[str, Any]
    owners: tuple[Manager, ...] | None = None
    """Who owns which field then; None: whoever writes owns what they change."""
    warnings: tuple[Warn, ...] = ()


Wanted = Callable[[Resource], Wish]
"""Asked anew of each state of the object that is met."""


async def create(request: Request) -> Response:
    kind, namespace = request_path.kind_of(request), request_path.namespace_of(request)
    authorization.require_some(
        request, "write", targets.all_of(kind.name, namespace)
    )  # before anything they sent is read
    decode.refuse_internal(kind)
    query = Query(request, *QUERY)
    return await made(request, kind, Wish(await read_object(request)), query)


async def replace(request: Request) -> Response:
    await request_path.found(request, "write")
    query = Query(request, *QUERY)
    body = _whole(await read_object(request))
    return await changed(request, lambda _old: Wish(body), query)


async def patch(request: Request) -> Response:
    """As its media type says. Only an apply may be of an object that is not there yet."""
    query = Query(request, *QUERY, "force")
    sent = await _sent_patch(request)
    if sent.media_type == APPLY:
        return await _apply(request, sent, query)
    await request_path.found(request, "write")
    if query.text("force"):
        raise BadRequest("force is for apply")
    make = merge_patch.merged if sent.media_type == MERGE else json_patch.patched
    return await changed(request, lambda old: Wish(_whole(make(old.wire(), sent.body))), query, size=sent.size)


async def made(request: Request, kind: Kind, wish: Wish, query: Query) -> Response:
    """A new object. AlreadyExists."""
    namespace = request_path.namespace_of(request)
    request_path.tried(request, query)
    sent = _as_sent(kind, wish.document, namespace)
    request.state.called = sent.meta.name
    actor = request_path.require_write(request, sent)
    await privileged_fields.require_names(request, sent)
    plane = plane_of(request)
    form, by = representation.of(request, kind, query), field_managers.name_of(request, query.text("fieldManager"))
    draft = await _decoded(request, kind, wish.document, query, namespace=namespace)
    draft = privileged_fields.marked(request, kind, draft, namespace)
    new = decode.created(kind, draft, namespace, actor)
    privileged_fields.require(request, new)
    new = await _managed(request, wish, None, new, by)
    odd = await while_wanted(request, _examined(plane, new, query))
    stored = await _created(request, plane, draft, new, query)
    location = {"Location": f"{_collection(request)}/{stored.meta.name}"}
    told = (*draft.warnings, *_disowned(wish.document), *odd)
    return warning_headers.attach(JSONResponse(form.single(stored.wire()), 201, headers=location), told)


async def changed(
    request: Request,
    wanted: Wanted,
    query: Query,
    show: Callable[[Resource], dict[str, Any]] | None = None,
    *,
    size: int = 0,
) -> Response:
    """The object of the path, changed. Conflict, also when what is wanted names a state that is not the present one.

    `size`: bytes that `wanted` works on beside the object itself.
    """
    plane, kind = plane_of(request), request_path.kind_of(request)
    dry_run = request_path.tried(request, query)
    form, by = representation.of(request, kind, query), field_managers.name_of(request, query.text("fieldManager"))
    while True:
        old = await plane.store.get(request_path.ref_of(request))
        actor = request_path.require_write(request, old, old)
        wish = await beside(request, size + weight(old.spec), partial(wanted, old))
        draft = await _decoded(request, kind, wish.document, query, namespace=old.meta.namespace, name=old.meta.name)
        _refuse_stale(draft, old)
        said = registration.kept(draft, old) if kind is registration.KIND else draft
        said = privileged_fields.marked(request, kind, said, old.meta.namespace, old)
        new = decode.updated(kind, said, old, actor)
        await privileged_fields.require_names(request, new)
        request_path.require_write(request, new, old)
        privileged_fields.require(request, new, old)
        new = await _managed(request, wish, old, new, by)
        odd = await while_wanted(request, _examined(plane, new, query))
        if decode.same(old.spec, new.spec):
            odd = ()  # was told when it was written
        guard = update_guards.guard(old, new)
        if dry_run:
            await check(plane, guard)
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
        body = show(stored) if show is not None else form.single(stored.wire())
        told = (*wish.warnings, *draft.warnings, *_disowned(wish.document, old), *odd)
        return warning_headers.attach(JSONResponse(body), told)


async def check(plane: Plane, guard: Guard | None) -> None:
    """For a change that is only tried."""
    if guard is not None:
        async with plane.store.snapshot() as moment:
            await moment.check(guard)


async def _apply(request: Request, sent: Sent, query: Query) -> Response:
    kind = request_path.kind_of(request)
    by = query.text("fieldManager")
    if not by:
        raise BadRequest("an apply needs fieldManager: who owns what is applied", hint="?fieldManager=<your tool>")
    by = field_managers.name_of(request, by)
    force, now = query.flag("force"), plane_of(request).now
    document = _object(sent.body)
    named = {**document, "metadata": {**_metadata(document), "name": request.path_params["name"]}}

    def wanted(old: Resource | None) -> Wish:
        whole, owners = field_managers.applied(old, named if old is None else document, by, now(), force=force)
        return Wish(whole, owners)

    while True:
        try:
            await request_path.found(request, "write")
        except NotFound:
            if _metadata(document).get("resourceVersion"):
                raise
        else:
            return await changed(request, wanted, query, size=sent.size)
        _refuse_other_name(request, document)
        try:
            return await made(request, kind, await beside(request, sent.size, partial(wanted, None)), query)
        except Conflict:
            # Somebody else made it meanwhile: then it is changed.
            await request_path.found(request, "write")


async def _sent_patch(request: Request) -> Sent:
    authorization.require_some(request, "write", targets.named(request_path.ref_of(request)))  # before anything is read
    decode.refuse_internal(request_path.kind_of(request))
    return await read_patch(request, PATCHES)


def _whole(document: Any) -> Mapping[str, Any]:
    """What is said of the whole object: finalizers that are not in it are taken away, but for ours."""
    metadata = _object(document).get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("finalizers") is not None:
        return _object(document)
    return {**document, "metadata": {**metadata, "finalizers": []}}


def _object(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise BadRequest("what the patch makes is no object")
    return document


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _disowned(document: Mapping[str, Any], old: Resource | None = None) -> tuple[Warn, ...]:
    """A word to who names owners; not to who sends back what they got."""
    said = _metadata(document).get("ownerReferences")
    kept = [] if old is None else [owner.wire() for owner in old.meta.owners]
    return () if not said or decode.same(said, kept) else (OWNERS,)


def _refuse_other_name(request: Request, document: Mapping[str, Any]) -> None:
    said, name = _metadata(document).get("name"), request.path_params["name"]
    if said not in (None, name):
        raise BadRequest(f"metadata.name must be '{name}', as the path says, not '{said}'")


def _refuse_stale(draft: Draft, old: Resource) -> None:
    if draft.resource_version not in ("", old.meta.resource_version):
        raise Conflict(f"{old.ref} changed since it was read", hint="read it again and repeat the change")
    if draft.uid not in ("", old.meta.uid):
        raise Conflict(f"{old.ref} is another object than the one that was read", hint="read it again")


async def _created(request: Request, plane: Plane, draft: Draft, new: Resource, query: Query) -> Resource:
    if new.kind == registration.KIND.name:
        return await registration.register(
            request, draft, new.meta.namespace, managed=new.meta.managed, dry_run=query.dry_run(),
            assumed=query.assumed(),
        )  # fmt: skip
    guard = create_guards.admits(new)
    if not query.dry_run():
        return await plane.store.create(new, authorization.actor_of(request).name, guard=guard)
    await check(plane, namespaced_store.stands(new.meta.namespace))
    await check(plane, create_guards.absent(new.ref))
    await check(plane, guard)
    return new


def _as_it_would_be(old: Resource, new: Resource) -> Resource:
    generation = old.meta.generation + (not decode.same(old.spec, new.spec))
    return dataclasses.replace(new, meta=dataclasses.replace(new.meta, generation=generation))


async def _examined(plane: Plane, resource: Resource, query: Query) -> tuple[Warn, ...]:
    findings = await reference_checks.examine(plane, resource, query.assumed())
    reference_checks.refuse(resource, findings)
    return findings.warnings


async def _decoded(
    request: Request, kind: Kind, body: Mapping[str, Any], query: Query, *, namespace: str, name: str | None = None
) -> Draft:
    known = Context(capabilities=plane_of(request).capabilities)
    strictness = field_validation.of(query)
    draft = await beside(
        request,
        weight(body),
        lambda: field_validation.decode(strictness, kind, body, namespace=namespace, name=name, known=known),
    )
    if not draft.restored or query.text("fieldManager") == CLIENT_SIDE:
        return draft
    return dataclasses.replace(draft, warnings=(*draft.warnings, EMPTY))


async def _managed(request: Request, wish: Wish, old: Resource | None, new: Resource, by: str) -> Resource:
    """With who owns what, as is wished or as follows from the change."""
    owners, now = wish.owners, plane_of(request).now()
    if owners is not None:
        return await beside(request, weight(new.spec), lambda: field_managers.with_managers(new, owners))
    return await beside(request, weight(new.spec), lambda: field_managers.after_update(old, new, by, now))


def _as_sent(kind: Kind, body: Mapping[str, Any], namespace: str) -> Resource:
    """For the decision whether it may be sent at all: what it says, whether or not that makes sense."""
    spec, name = body.get("spec"), _metadata(body).get("name")
    return Resource(
        kind.name, Meta(name if isinstance(name, str) else "", namespace), spec if isinstance(spec, Mapping) else {}
    )


def _collection(request: Request) -> str:
    """The path of the list that the object is in."""
    path = request.url.path
    return path.rpartition("/")[0] if "name" in request.path_params else path

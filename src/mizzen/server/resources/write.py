"""Writes of whole objects: create, replace, patch and apply share one way into the store.

Each results in a desired object. It is decoded strictly, and then checked: rights, names, references, and, within the
write itself, a guard. Field managers are recorded with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mizzen.access.policy import Actor
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
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import PatchBody, read_object, read_patch, run_in_worker, size_hint
from mizzen.server.http.streaming import run_while_connected
from mizzen.server.resources import representation, request_path
from mizzen.stores.store import Guard

QUERY = ("dryRun", "assume", "fieldManager", "fieldValidation", "includeObject", "pretty", "timeout")

MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
PATCHES = (MERGE, JSON, APPLY)

CLIENT_SIDE = "kubectl-client-side-apply"
"""kubectl's client-side apply, which omits nulls of the file."""
EMPTY_WARNING = Warn(
    "spec", "empty fields are read as the last applied file has them, with nulls; to reset one, omit it"
)
"""For all other clients, which may have meant the empty field."""
OWNERS_WARNING = Warn("metadata.ownerReferences", "ignored: only controllers create objects with owners")


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """An object as the caller wants it, in wire form."""

    document: Mapping[str, Any]
    owners: tuple[Manager, ...] | None = None
    """The managers of its fields; None: the writer owns the fields that it changes."""
    warnings: tuple[Warn, ...] = ()


MakeDesired = Callable[[Resource], DesiredObject]
"""Called again for each state of the object that a retry meets."""


class CreateHook(Protocol):
    async def __call__(
        self,
        request: Request,
        draft: Draft,
        namespace: str,
        *,
        managed: tuple[Mapping[str, Any], ...],
        dry_run: bool,
        assumed: frozenset[tuple[str, str]],
    ) -> Resource: ...


@dataclass(frozen=True, slots=True)
class WriteHooks:
    """How one kind is written differently from the others; `app.state.write_hooks` has them by kind."""

    create: CreateHook
    """Creates the object, instead of the store alone."""
    keep: Callable[[Draft, Resource], Draft]
    """For an update: the draft with the fields of the stored object that only the plane sets."""


async def create(request: Request) -> Response:
    kind, namespace = request_path.kind_of(request), request_path.namespace_of(request)
    # Before the body is read.
    authorization.require_any(request, "write", targets.all_of(kind.name, namespace))
    decode.refuse_internal(kind)
    query = Query(request, *QUERY)
    return await create_object(request, kind, DesiredObject(await read_object(request)), query)


async def replace(request: Request) -> Response:
    await request_path.find_object(request, "write")
    query = Query(request, *QUERY)
    body = _whole_object(await read_object(request))
    return await update_object(request, lambda _old: DesiredObject(body), query)


async def patch(request: Request) -> Response:
    """Patches as the media type says. Only an apply may create the object."""
    query = Query(request, *QUERY, "force")
    sent = await _read_patch(request)
    if sent.media_type == APPLY:
        return await _apply(request, sent, query)
    await request_path.find_object(request, "write")
    if query.text("force"):
        raise BadRequest("force is only for apply")
    make = patcher_of(sent)

    def make_desired(old: Resource) -> DesiredObject:
        return DesiredObject(_whole_object(make(old.wire(), sent.body)))

    return await update_object(request, make_desired, query, size=sent.size)


def patcher_of(sent: PatchBody) -> Callable[[Any, Any], Any]:
    """Returns the function that applies this patch to a document; an apply counts as a merge."""
    return json_patch.apply_patch if sent.media_type == JSON else merge_patch.merge


async def create_object(request: Request, kind: Kind, desired: DesiredObject, query: Query) -> Response:
    """Creates an object. Raises AlreadyExists."""
    namespace = request_path.namespace_of(request)
    request_path.mark_dry_run(request, query)
    sent = _unverified_object(kind, desired.document, namespace)
    request.state.object_name = sent.meta.name
    actor = request_path.require_write(request, sent)
    await privileged_fields.require_names(request, sent)
    context = context_of(request)
    form = representation.negotiate(request, kind, query)
    by = field_managers.manager_name(request, query.text("fieldManager"))
    draft = await _decode(request, kind, desired.document, query, namespace=namespace)
    draft = privileged_fields.with_trust(request, kind, draft, namespace)
    new = decode.build_new(kind, draft, namespace, actor)
    privileged_fields.require(request, new)
    new = await _with_managers(request, desired, None, new, by)
    odd = await run_while_connected(request, _check_references(context, new, query))
    stored = await _create(request, kind, draft, new, query)
    location = {"Location": f"{_collection(request)}/{stored.meta.name}"}
    warnings = (*draft.warnings, *_owner_warnings(desired.document), *odd)
    return warning_headers.attach(JSONResponse(form.render(stored.wire()), 201, headers=location), warnings)


async def update_object(
    request: Request,
    make_desired: MakeDesired,
    query: Query,
    show: Callable[[Resource], dict[str, Any]] | None = None,
    *,
    size: int = 0,
) -> Response:
    """Updates the object of the path. Raises Conflict, also if the desired object names an outdated state.

    `size`: bytes that `make_desired` works on in addition to the object itself.
    """
    context, kind = context_of(request), request_path.kind_of(request)
    request_path.mark_dry_run(request, query)
    form = representation.negotiate(request, kind, query)
    by = field_managers.manager_name(request, query.text("fieldManager"))
    while True:
        old = await context.store.get(request_path.ref_of(request))
        actor = request_path.require_write(request, old, old)
        desired = await run_in_worker(request, size + size_hint(old.spec), partial(make_desired, old))
        draft = await _decode(request, kind, desired.document, query, namespace=old.meta.namespace, name=old.meta.name)
        refuse_stale(draft.resource_version, draft.uid, old)
        new = await _admit_update(request, kind, draft, old)
        new = await _with_managers(request, desired, old, new, by)
        odd = await run_while_connected(request, _check_references(context, new, query))
        if decode.is_same(old.spec, new.spec):
            odd = ()  # the caller got these warnings when the spec was written
        stored = await _update(context, actor, old, new, dry_run=query.dry_run())
        if stored is None:
            continue
        body = show(stored) if show is not None else form.render(stored.wire())
        warnings = (*desired.warnings, *draft.warnings, *_owner_warnings(desired.document, old), *odd)
        return warning_headers.attach(JSONResponse(body), warnings)


async def _admit_update(request: Request, kind: Kind, draft: Draft, old: Resource) -> Resource:
    """The object as the draft changes it, if the caller may change it that way."""
    hooks = _hooks_of(request, kind)
    draft = draft if hooks is None else hooks.keep(draft, old)
    draft = privileged_fields.with_trust(request, kind, draft, old.meta.namespace, old)
    new = decode.build_update(kind, draft, old, authorization.actor_of(request))
    await privileged_fields.require_names(request, new)
    request_path.require_write(request, new, old)
    privileged_fields.require(request, new, old)
    return new


async def _update(
    context: ServerContext, actor: Actor, old: Resource, new: Resource, *, dry_run: bool
) -> Resource | None:
    """The stored object; None if another writer changed it since it was read, and the caller has to read it again.

    Writing over that change could undo what a controller did to the finalizers.
    """
    guard = update_guards.guard_for(old, new)
    if dry_run:
        await check_guard(context, guard)
        return _preview(old, new)
    try:
        return await context.store.update(new, actor.name, guard=guard)
    except Conflict:
        if (await context.store.get(old.ref)).meta.resource_version == old.meta.resource_version:
            raise  # no other writer: the guard refused
        return None


def _hooks_of(request: Request, kind: Kind) -> WriteHooks | None:
    hooks: Mapping[str, WriteHooks] = request.app.state.write_hooks
    return hooks.get(kind.name)


async def check_guard(context: ServerContext, guard: Guard | None) -> None:
    """For a dry run."""
    if guard is not None:
        async with context.store.snapshot() as moment:
            await moment.check(guard)


async def _apply(request: Request, sent: PatchBody, query: Query) -> Response:
    kind = request_path.kind_of(request)
    by = field_managers.apply_manager(request, query)
    force, now = query.flag("force"), context_of(request).now
    document = _require_object(sent.body)
    named = {**document, "metadata": {**_metadata(document), "name": request.path_params["name"]}}

    def make_desired(old: Resource | None) -> DesiredObject:
        whole, owners = field_managers.apply(old, named if old is None else document, by, now(), force=force)
        return DesiredObject(whole, owners)

    while True:
        try:
            await request_path.find_object(request, "write")
        except NotFound:
            if _metadata(document).get("resourceVersion"):
                raise
        else:
            return await update_object(request, make_desired, query, size=sent.size)
        _refuse_other_name(request, document)
        try:
            desired = await run_in_worker(request, sent.size, partial(make_desired, None))
            return await create_object(request, kind, desired, query)
        except Conflict:
            # Another caller created it meanwhile: then update it.
            await request_path.find_object(request, "write")


async def _read_patch(request: Request) -> PatchBody:
    # Before the body is read.
    authorization.require_any(request, "write", targets.by_name(request_path.ref_of(request)))
    decode.refuse_internal(request_path.kind_of(request))
    return await read_patch(request, PATCHES)


def _whole_object(document: Any) -> Mapping[str, Any]:
    """For a document of the whole object: finalizers that are not in it are removed, except ours."""
    metadata = _require_object(document).get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("finalizers") is not None:
        return _require_object(document)
    return {**document, "metadata": {**metadata, "finalizers": []}}


def _require_object(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise BadRequest("the result is not an object")
    return document


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _owner_warnings(document: Mapping[str, Any], old: Resource | None = None) -> tuple[Warn, ...]:
    """Warns a caller that sets owners, unless they only send back the stored ones."""
    sent = _metadata(document).get("ownerReferences")
    stored = [] if old is None else [owner.wire() for owner in old.meta.owners]
    return () if not sent or decode.is_same(sent, stored) else (OWNERS_WARNING,)


def _refuse_other_name(request: Request, document: Mapping[str, Any]) -> None:
    sent, name = _metadata(document).get("name"), request.path_params["name"]
    if sent not in (None, name):
        raise BadRequest(f"metadata.name must be '{name}', as the path says, not '{sent}'")


def refuse_stale(version: str, uid: str, old: Resource) -> None:
    """Refuses a change that was made for another state, or another object of that name."""
    if version not in ("", old.meta.resource_version):
        raise Conflict(f"{old.ref} changed since it was read", hint="read it again and repeat the change")
    if uid not in ("", old.meta.uid):
        raise Conflict(f"{old.ref} is not the object that was read: its uid differs", hint="read it again")


async def _create(request: Request, kind: Kind, draft: Draft, new: Resource, query: Query) -> Resource:
    context, hooks = context_of(request), _hooks_of(request, kind)
    if hooks is not None:
        return await hooks.create(
            request, draft, new.meta.namespace, managed=new.meta.managed, dry_run=query.dry_run(),
            assumed=query.list_assumed(),
        )  # fmt: skip
    guard = create_guards.guard_for(new)
    if not query.dry_run():
        return await context.store.create(new, authorization.actor_of(request).name, guard=guard)
    await check_guard(context, namespaced_store.require_active(new.meta.namespace))
    await check_guard(context, create_guards.require_absent(new.ref))
    await check_guard(context, guard)
    return new


def _preview(old: Resource, new: Resource) -> Resource:
    generation = old.meta.generation + (not decode.is_same(old.spec, new.spec))
    return dataclasses.replace(new, meta=dataclasses.replace(new.meta, generation=generation))


async def _check_references(context: ServerContext, resource: Resource, query: Query) -> tuple[Warn, ...]:
    findings = await reference_checks.examine(context, resource, query.list_assumed())
    reference_checks.refuse(resource, findings)
    return findings.warnings


async def _decode(
    request: Request, kind: Kind, body: Mapping[str, Any], query: Query, *, namespace: str, name: str | None = None
) -> Draft:
    known = Context(capabilities=context_of(request).capabilities)
    strictness = field_validation.strictness_of(query)
    work = partial(field_validation.decode, strictness, kind, body, namespace=namespace, name=name, known=known)
    draft = await run_in_worker(request, size_hint(body), work)
    if not draft.restored or query.text("fieldManager") == CLIENT_SIDE:
        return draft
    return dataclasses.replace(draft, warnings=(*draft.warnings, EMPTY_WARNING))


async def _with_managers(
    request: Request, desired: DesiredObject, old: Resource | None, new: Resource, by: str
) -> Resource:
    """Returns `new` with the desired managers, or those that follow from the change."""
    now = context_of(request).now()
    work = partial(field_managers.record, old, new, desired.owners, by, now)
    return await run_in_worker(request, size_hint(new.spec), work)


def _unverified_object(kind: Kind, body: Mapping[str, Any], namespace: str) -> Resource:
    """Returns the object before validation, for the decision whether the caller may write it at all."""
    spec, name = body.get("spec"), _metadata(body).get("name")
    meta = Meta(name if isinstance(name, str) else "", namespace)
    return Resource(kind.name, meta, spec if isinstance(spec, Mapping) else {})


def _collection(request: Request) -> str:
    """Returns the path of the object's collection."""
    path = request.url.path
    return path.rpartition("/")[0] if "name" in request.path_params else path

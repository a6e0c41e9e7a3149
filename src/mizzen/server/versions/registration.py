"""Registration of versions, shared by the /apis and /model APIs: numbers are allocated, fields are set by the plane.

The plane sets some spec fields: the creator of the version, and whether its files may be unpickled. It ignores values
that callers send there, so that they can send back an object that they read. Only the plane records the origin of
files, and only of those it fetched itself: the /model API can set it, a version written out in full cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text.versions import check_new_version, normal_version
from mizzen.reconcile.controller import find
from mizzen.server.admission import create_guards, decode, field_managers, model_family
from mizzen.server.admission.decode import Draft
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.versions import ingest
from mizzen.stores.store import Guard, Store

KIND = catalog.BY_NAME["ModelVersion"]


async def register(
    request: Request,
    draft: Draft,
    namespace: str,
    *,
    managed: tuple[Mapping[str, Any], ...] = (),
    dry_run: bool = False,
    assumed: frozenset[tuple[str, str]] = frozenset(),
) -> Resource:
    """Create the version that a caller wrote out in full. Raises Invalid if its model or its files are absent.

    Raises AlreadyExists even for an equal version: by Kubernetes convention a create never meets an existing object,
    and a client that sends a file again replaces it. `managed`: the field managers. `assumed`: as in
    `reference_checks.examine`.
    """
    context, actor = context_of(request), authorization.actor_of(request)
    model = Ref("Model", draft.spec["modelName"], namespace)
    version = build_version(draft, namespace, actor, trusted=may_trust(request, model))
    version = replace(version, meta=replace(version.meta, managed=managed))
    faults = (*_provenance_faults(draft.spec, model), *await _find_missing_files(context, model, actor, draft.spec))
    try:
        check_new_version(draft.spec["version"])
    except ValueError as error:
        faults = (Fault("spec.version", str(error)), *faults)
    there = await find(context.store, model) is not None
    if not there and (model.kind, model.name) not in assumed:
        faults = (Fault("spec.modelName", f"{model} does not exist"), *faults)
    if faults:
        raise Invalid.of(str(version.ref), faults)
    if not dry_run:
        return await add(context, version, actor)
    async with context.store.snapshot() as moment:
        await moment.check(create_guards.require_absent(version.ref))
        if there:
            await moment.check(_model_guard(version))
    return version


def may_trust(request: Request, model: Ref) -> bool:
    """Whether code from this caller may run when it is loaded. Only admins of the model may decide that."""
    return authorization.is_allowed(request, "admin", targets.model(model))


def build_version(draft: Draft, namespace: str, actor: Actor, *, trusted: bool) -> Resource:
    """The version as it will be stored."""
    spec = _with_decided_fields(draft.spec, actor.name, lambda _path: trusted)
    return decode.build_new(KIND, replace(draft, spec=spec), namespace, actor)


def keep_decided_fields(draft: Draft, old: Resource) -> Draft:
    """For an update: fields that the plane set at registration keep their values."""
    stored = old.spec.get("artifacts")
    trusted = {
        artifact["path"]: artifact.get("trusted") is True
        for artifact in (stored if isinstance(stored, list) else ())
        if isinstance(artifact, Mapping) and isinstance(artifact.get("path"), str)
    }
    spec = _with_decided_fields(draft.spec, old.spec.get("createdBy", ""), lambda path: trusted.get(path, False))
    return replace(draft, spec=spec)


def is_trusted(version: Resource) -> bool:
    """Whether all its files are trusted."""
    artifacts = version.spec.get("artifacts") or ()
    return bool(artifacts) and all(artifact.get("trusted") is True for artifact in artifacts)


async def trust(context: ServerContext, ref: Ref, actor: Actor) -> Resource:
    """Allow the code in a version to run when it is loaded; `actor` vouches for it. Raises Conflict without files."""
    while True:
        old = await context.store.get(ref)
        model_family.refuse_deleting(old)
        if is_trusted(old):
            return old
        if not old.spec.get("artifacts"):
            raise Conflict(f"{ref} has no files to trust")
        spec = _with_decided_fields(old.spec, old.spec.get("createdBy", ""), lambda _path: True)
        new = field_managers.change_spec(old, spec, actor.name, context.now())
        with suppress(Conflict):
            return await context.store.update(new, actor.name)


async def add(context: ServerContext, version: Resource, actor: Actor) -> Resource:
    """Create it; a number raises the highest. Raises AlreadyExists, and Conflict while its model is being deleted."""
    await hold_files(context, version)
    model, number = model_of(version), model_family.version_of(version)
    if number.isdecimal():
        await _raise_highest(context.store, model, lambda highest: max(highest, int(number)), actor)
    return await _create(context.store, version, actor)


async def add_next(context: ServerContext, model: Ref, numbered: Callable[[str], Resource], actor: Actor) -> Resource:
    """Create it under the next number."""
    await hold_files(context, numbered("1"))
    while True:
        number = await _raise_highest(context.store, model, lambda highest: _next_number(model, highest), actor)
        with suppress(AlreadyExists):  # another caller took this number meanwhile
            return await _create(context.store, numbered(str(number)), actor)


async def hold_files(context: ServerContext, version: Resource) -> None:
    """Keep its files from garbage collection until the version that names them exists."""
    digests = {entry.digest for entry in ingest.entries_of(version.spec)}
    if await asyncio.to_thread(context.blobs.hold, digests):
        raise Unavailable(
            "some files were garbage-collected because they were uploaded long before their version",
            hint="upload them again",
        )


def model_of(version: Resource) -> Ref:
    return Ref("Model", version.spec["modelName"], version.meta.namespace)


async def _create(store: Store, version: Resource, actor: Actor) -> Resource:
    return await store.create(version, actor.name, guard=_model_guard(version))


def _model_guard(version: Resource) -> Guard:
    return create_guards.require_model(model_of(version), model_family.version_of(version))


async def _raise_highest(store: Store, ref: Ref, raised: Callable[[int], int], actor: Actor) -> int:
    """Compare and set: of two concurrent callers, one gets Conflict and retries. Deleted versions still count."""
    while True:
        model = model_family.require_first_name(await store.get(ref), "it has no versions of its own")
        number = raised(int(model.status.get("highestVersion", 0)))
        status = {**model.status, "highestVersion": number}
        try:
            await store.update_status(replace(model, status=status), actor.name)
        except Conflict:
            continue
        return number


def _next_number(model: Ref, highest: int) -> int:
    """The next number. Raises Conflict if it is not a valid version, so that it is not counted."""
    try:
        return int(normal_version(highest + 1))
    except ValueError as error:
        raise Conflict(
            f"{model} has no version number left after {highest}: {error}",
            hint=f"give the version a name: POST /model/{model.name}/version/<name>",
        ) from error


def _with_decided_fields(spec: Mapping[str, Any], created_by: str, trusted: Callable[[str], bool]) -> dict[str, Any]:
    decided = {**spec, "createdBy": created_by}
    if "artifacts" in spec:
        decided["artifacts"] = [
            {**artifact, "trusted": trusted(artifact["path"])} for artifact in spec["artifacts"] or ()
        ]
    return decided


def _provenance_faults(spec: Mapping[str, Any], model: Ref) -> Iterator[Fault]:
    """Faults for claims about the version's origin that its files cannot prove."""
    instead = f"leave it out; POST /model/{model.name}/version registers files and records their origin"
    code = spec.get("code") or {}
    if code.get("git") is not None:
        yield Fault("spec.code.git", f"only the plane sets the origin of a version: {instead}")
    if code.get("digest") not in (None, ingest.code_digest(ingest.entries_of(spec))):
        yield Fault("spec.code.digest", f"does not match the code among the artifacts: {instead}")
    for field in ("source", "parentJob"):
        if spec.get(field) is not None:
            yield Fault(f"spec.{field}", f"only the plane sets the origin of a version: {instead}")


async def _find_missing_files(
    context: ServerContext, model: Ref, actor: Actor, spec: Mapping[str, Any]
) -> tuple[Fault, ...]:
    entries = ingest.entries_of(spec)
    missing = await ingest.find_unavailable(context, model, actor, (entry.digest for entry in entries))
    text = "the content of '{}' is not stored here; POST /model/<name>/version stores files"
    return tuple(
        Fault(f"spec.artifacts[{index}].digest", text.format(entry.path))
        for index, entry in enumerate(entries)
        if entry.digest in missing
    )

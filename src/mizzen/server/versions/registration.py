"""How a version comes to be: the same through both doors, /apis and /model.

Some of its spec is the plane's to say: who brought it, and whether its files may be unpickled. What people send there
is not read, so that they can send back what they got. Where its files are from is said only of what the plane fetched
itself: so /model says it, and who writes a version out in full cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound, Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Ref, Resource
from mizzen.kinds.text.versions import given_version, normal_version
from mizzen.server.admission import create_guards, decode, field_managers, model_family
from mizzen.server.admission.decode import Draft
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import Plane, plane_of
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
    """Make the version that somebody wrote out in full. Invalid when its model or its files are not here.

    AlreadyExists also for one that is equal: in the conventions of Kubernetes a creation never finds its object there,
    and who sends a file again replaces. `managed`: who owns what of it. `assumed`: as in `references.examine`.
    """
    plane, actor = plane_of(request), authorization.actor_of(request)
    model = Ref("Model", draft.spec["modelName"], namespace)
    version = admitted(draft, namespace, actor, trusted=may_trust(request, model))
    version = replace(version, meta=replace(version.meta, managed=managed))
    faults = (*_claims(draft.spec, model), *await _missing_files(plane, model, actor, draft.spec))
    try:
        given_version(draft.spec["version"])
    except ValueError as error:
        faults = (Fault("spec.version", str(error)), *faults)
    there = await _is_there(plane.store, model)
    if not there and (model.kind, model.name) not in assumed:
        faults = (Fault("spec.modelName", f"{model} does not exist"), *faults)
    if faults:
        raise Invalid.of(str(version.ref), faults)
    if not dry_run:
        return await add(plane, version, actor)
    async with plane.store.snapshot() as moment:
        await moment.check(create_guards.absent(version.ref))
        if there:
            await moment.check(_guard(version))
    return version


def may_trust(request: Request, model: Ref) -> bool:
    """May what this caller brings run when it is loaded? Only whoever administers the model decides that."""
    return authorization.may(request, "admin", targets.model(model))


def admitted(draft: Draft, namespace: str, actor: Actor, *, trusted: bool) -> Resource:
    """The version as it is to be kept."""
    spec = _decided(draft.spec, actor.name, lambda _path: trusted)
    return decode.created(KIND, replace(draft, spec=spec), namespace, actor)


def kept(draft: Draft, old: Resource) -> Draft:
    """For an update: what the plane said at first stays said."""
    stored = old.spec.get("artifacts")
    trusted = {
        artifact["path"]: artifact.get("trusted") is True
        for artifact in (stored if isinstance(stored, list) else ())
        if isinstance(artifact, Mapping) and isinstance(artifact.get("path"), str)
    }
    spec = _decided(draft.spec, old.spec.get("createdBy", ""), lambda path: trusted.get(path, False))
    return replace(draft, spec=spec)


def is_trusted(version: Resource) -> bool:
    """Has somebody vouched for all its files?"""
    artifacts = version.spec.get("artifacts") or ()
    return bool(artifacts) and all(artifact.get("trusted") is True for artifact in artifacts)


async def trust(plane: Plane, ref: Ref, actor: Actor) -> Resource:
    """Let what is in a version run when it is loaded, from now on; `actor` vouches for it. Conflict without files."""
    while True:
        old = await plane.store.get(ref)
        model_family.refuse_deleting(old)
        if is_trusted(old):
            return old
        if not old.spec.get("artifacts"):
            raise Conflict(f"{ref} has no files that could be trusted")
        spec = _decided(old.spec, old.spec.get("createdBy", ""), lambda _path: True)
        meta = replace(old.meta, annotations={**old.meta.annotations, ACTOR_ANNOTATION: actor.name})
        try:
            new = field_managers.by_plane(old, replace(old, meta=meta, spec=spec), plane.now())
            return await plane.store.update(new, actor.name)
        except Conflict:
            continue


async def add(plane: Plane, version: Resource, actor: Actor) -> Resource:
    """Create it, counted when it is a number. AlreadyExists; Conflict while its model is being deleted."""
    await hold(plane, version)
    model, number = model_of(version), model_family.version_of(version)
    if number.isdecimal():
        await _raise_highest(plane.store, model, lambda highest: max(highest, int(number)), actor)
    return await _create(plane.store, version, actor)


async def add_next(plane: Plane, model: Ref, numbered: Callable[[str], Resource], actor: Actor) -> Resource:
    """Create it under the next number."""
    await hold(plane, numbered("1"))
    while True:
        number = await _raise_highest(plane.store, model, lambda highest: _following(model, highest), actor)
        try:
            return await _create(plane.store, numbered(str(number)), actor)
        except AlreadyExists:
            continue  # somebody asked for this very number meanwhile


async def hold(plane: Plane, version: Resource) -> None:
    """Keep its files from being collected in the moment before the version that names them is there."""
    digests = {entry.digest for entry in ingest.entries_of(version.spec)}
    if await asyncio.to_thread(plane.blobs.hold, digests):
        raise Unavailable(
            "some of the files were collected, because they came long before their version", hint="send them again"
        )


def model_of(version: Resource) -> Ref:
    return Ref("Model", version.spec["modelName"], version.meta.namespace)


async def _create(store: Store, version: Resource, actor: Actor) -> Resource:
    return await store.create(version, actor.name, guard=_guard(version))


def _guard(version: Resource) -> Guard:
    return create_guards.model_stands(model_of(version), model_family.version_of(version))


async def _raise_highest(store: Store, ref: Ref, raised: Callable[[int], int], actor: Actor) -> int:
    """Compare and set: of two callers at once one gets Conflict and counts again. Deleted versions stay counted."""
    while True:
        model = await store.get(ref)
        model_family.refuse_deleting(model)
        model_family.refuse_second_name(model, "it has no versions of its own")
        number = raised(int(model.status.get("highestVersion", 0)))
        status = {**model.status, "highestVersion": number}
        try:
            await store.update_status(replace(model, status=status), actor.name)
        except Conflict:
            continue
        return number


def _following(model: Ref, highest: int) -> int:
    """Conflict when it could be no version: a number that nobody can have is not counted."""
    try:
        return int(normal_version(highest + 1))
    except ValueError as error:
        raise Conflict(
            f"no number after {highest} is left for {model}: {error}",
            hint=f"give the version a name: POST /model/{model.name}/version/<name>",
        ) from error


def _decided(spec: Mapping[str, Any], created_by: str, trusted: Callable[[str], bool]) -> dict[str, Any]:
    decided = {**spec, "createdBy": created_by}
    if "artifacts" in spec:
        decided["artifacts"] = [
            {**artifact, "trusted": trusted(artifact["path"])} for artifact in spec["artifacts"] or ()
        ]
    return decided


def _claims(spec: Mapping[str, Any], model: Ref) -> Iterator[Fault]:
    """What is said of where it comes from, and cannot be shown by its files."""
    instead = f"leave it out; POST /model/{model.name}/version registers files and records where they are from"
    code = spec.get("code") or {}
    if code.get("git") is not None:
        yield Fault("spec.code.git", f"only the plane says where a version comes from: {instead}")
    if code.get("digest") not in (None, ingest.code_digest(ingest.entries_of(spec))):
        yield Fault("spec.code.digest", f"is not that of the code among the artifacts: {instead}")
    for field in ("source", "parentJob"):
        if spec.get(field) is not None:
            yield Fault(f"spec.{field}", f"only the plane says where a version comes from: {instead}")


async def _missing_files(plane: Plane, model: Ref, actor: Actor, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    entries = ingest.entries_of(spec)
    missing = await ingest.not_to_be_named(plane, model, actor, (entry.digest for entry in entries))
    return tuple(
        Fault(
            f"spec.artifacts[{index}].digest",
            f"the content of '{entry.path}' is not stored here; POST /model/<name>/version stores files",
        )
        for index, entry in enumerate(entries)
        if entry.digest in missing
    )


async def _is_there(store: Store, ref: Ref) -> bool:
    try:
        await store.get(ref)
    except NotFound:
        return False
    return True

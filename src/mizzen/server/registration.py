"""How a version comes to be: the same through both doors, /apis and /model.

Some of its spec is the plane's to say: who brought it, and whether its files may be unpickled. What people send there
is not read, so that they can send back what they got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from mizzen.access import policy
from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound, Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource
from mizzen.server import admission, auth, family, gathering, guards, targets
from mizzen.server.admission import Draft
from mizzen.server.plane import Plane, plane_of
from mizzen.stores.store import Guard, Store

KIND = catalog.BY_NAME["ModelVersion"]


async def register(request: Request, draft: Draft, namespace: str, *, dry_run: bool = False) -> Resource:
    """Make the version that somebody wrote out in full. Invalid when its model or its files are not here."""
    plane, actor = plane_of(request), auth.actor_of(request)
    model = Ref("Model", draft.spec["modelName"], namespace)
    version = admitted(draft, namespace, actor, trusted=may_trust(request, model))
    faults = await _missing_files(plane, model, actor, draft.spec)
    try:
        await plane.store.get(model)
    except NotFound as error:
        faults = (Fault("spec.modelName", error.message), *faults)
    if faults:
        raise Invalid.of(str(version.ref), faults)
    if not dry_run:
        return await add(plane, version, actor)
    async with plane.store.snapshot() as moment:
        await moment.check(guards.absent(version.ref))
        await moment.check(_guard(version))
    return version


def may_trust(request: Request, model: Ref) -> bool:
    """May what this caller brings run when it is loaded? Only whoever administers the model decides that."""
    target = targets.model(model)
    return policy.allowed(
        auth.actor_of(request), "admin", target, request.state.bindings, anonymous=plane_of(request).anonymous
    ).allowed


def admitted(draft: Draft, namespace: str, actor: Actor, *, trusted: bool) -> Resource:
    """The version as it is to be kept."""
    spec = _decided(draft.spec, actor.name, lambda _path: trusted)
    return admission.created(KIND, replace(draft, spec=spec), namespace, actor)


def kept(draft: Draft, old: Resource) -> Draft:
    """For an update: what the plane said at first stays said."""
    trusted = {artifact["path"]: artifact.get("trusted", False) for artifact in artifacts_of(old.spec)}
    spec = _decided(draft.spec, old.spec.get("createdBy", ""), lambda path: trusted.get(path, False))
    return replace(draft, spec=spec)


async def add(plane: Plane, version: Resource, actor: Actor) -> Resource:
    """Create it, counted when it is a number. AlreadyExists; Conflict while its model is being deleted."""
    await hold(plane, version)
    model, number = model_of(version), family.version_of(version)
    if number.isdecimal():
        await _raise_highest(plane.store, model, lambda highest: max(highest, int(number)), actor)
    return await _create(plane.store, version, actor)


async def add_next(plane: Plane, model: Ref, numbered: Callable[[str], Resource], actor: Actor) -> Resource:
    """Create it under the next number."""
    await hold(plane, numbered("1"))
    while True:
        number = await _raise_highest(plane.store, model, lambda highest: highest + 1, actor)
        try:
            return await _create(plane.store, numbered(str(number)), actor)
        except AlreadyExists:
            continue  # somebody asked for this very number meanwhile


async def hold(plane: Plane, version: Resource) -> None:
    """Keep its files from being collected in the moment before the version that names them is there."""
    digests = {artifact["digest"] for artifact in artifacts_of(version.spec)}
    if await asyncio.to_thread(plane.blobs.hold, digests):
        raise Unavailable(
            "some of the files were collected, because they came long before their version", hint="send them again"
        )


def model_of(version: Resource) -> Ref:
    return Ref("Model", version.spec["modelName"], version.meta.namespace)


def artifacts_of(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return spec.get("artifacts") or []


async def _create(store: Store, version: Resource, actor: Actor) -> Resource:
    return await store.create(version, actor.name, guard=_guard(version))


def _guard(version: Resource) -> Guard:
    return guards.model_stands(model_of(version), family.version_of(version))


async def _raise_highest(store: Store, ref: Ref, raised: Callable[[int], int], actor: Actor) -> int:
    """Compare and set: of two callers at once one gets Conflict and counts again. Deleted versions stay counted."""
    while True:
        model = await store.get(ref)
        family.refuse_deleting(model)
        number = raised(int(model.status.get("highestVersion", 0)))
        status = {**model.status, "highestVersion": number}
        try:
            await store.update_status(replace(model, status=status), actor.name)
        except Conflict:
            continue
        return number


def _decided(spec: Mapping[str, Any], created_by: str, trusted: Callable[[str], bool]) -> dict[str, Any]:
    decided = {**spec, "createdBy": created_by}
    if "artifacts" in spec:
        decided["artifacts"] = [{**artifact, "trusted": trusted(artifact["path"])} for artifact in artifacts_of(spec)]
    return decided


async def _missing_files(plane: Plane, model: Ref, actor: Actor, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    artifacts = artifacts_of(spec)
    missing = await gathering.not_to_be_named(plane, model, actor, (artifact["digest"] for artifact in artifacts))
    return tuple(
        Fault(
            f"spec.artifacts[{index}].digest",
            f"the content of '{artifact['path']}' is not stored here; POST /model/<name>/version stores files",
        )
        for index, artifact in enumerate(artifacts)
        if artifact["digest"] in missing
    )

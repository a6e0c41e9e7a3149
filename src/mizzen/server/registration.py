"""How a version comes to be: the same through both doors, /apis and /model.

Some of its spec is the plane's to say: who brought it, and whether its files may be unpickled. What people send there
is not read, so that they can send back what they got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mizzen.access.policy import Actor
from mizzen.blobs.files import FileBlobs
from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource
from mizzen.server import admission, family, guards
from mizzen.server.admission import Draft
from mizzen.server.plane import Plane
from mizzen.stores.store import Store

KIND = catalog.BY_NAME["ModelVersion"]


async def register(plane: Plane, draft: Draft, namespace: str, actor: Actor) -> Resource:
    """Make the version that somebody wrote out in full. Invalid when its model or its files are not here."""
    version = admitted(draft, namespace, actor)
    model = model_of(version)
    faults = await asyncio.to_thread(_missing_files, plane.blobs, draft.spec)
    try:
        await plane.store.get(model)
    except NotFound as error:
        faults = (Fault("spec.modelName", error.message), *faults)
    if faults:
        raise Invalid.of(str(version.ref), faults)
    return await add(plane.store, version, actor)


def admitted(draft: Draft, namespace: str, actor: Actor) -> Resource:
    """The version as it is to be kept. Whoever may send code to run here may send a pickle, too."""
    spec = _decided(draft.spec, actor.name, lambda _path: actor.admin)
    return admission.created(KIND, replace(draft, spec=spec), namespace, actor)


def kept(draft: Draft, old: Resource) -> Draft:
    """For an update: what the plane said at first stays said."""
    trusted = {artifact["path"]: artifact.get("trusted", False) for artifact in old.spec["artifacts"]}
    spec = _decided(draft.spec, old.spec.get("createdBy", ""), lambda path: trusted.get(path, False))
    return replace(draft, spec=spec)


async def add(store: Store, version: Resource, actor: Actor) -> Resource:
    """Create it, counted when it is a number. AlreadyExists; Conflict while its model is being deleted."""
    model, number = model_of(version), family.version_of(version)
    if number.isdecimal():
        await _raise_highest(store, model, lambda highest: max(highest, int(number)), actor)
    return await _create(store, version, actor)


async def add_next(store: Store, model: Ref, numbered: Callable[[str], Resource], actor: Actor) -> Resource:
    """Create it under the next number."""
    while True:
        number = await _raise_highest(store, model, lambda highest: highest + 1, actor)
        try:
            return await _create(store, numbered(str(number)), actor)
        except AlreadyExists:
            continue  # somebody asked for this very number meanwhile


def model_of(version: Resource) -> Ref:
    return Ref("Model", version.spec["modelName"], version.meta.namespace)


async def _create(store: Store, version: Resource, actor: Actor) -> Resource:
    return await store.create(version, actor.name, guard=guards.model_stands(model_of(version)))


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
    artifacts = [{**artifact, "trusted": trusted(artifact["path"])} for artifact in spec["artifacts"]]
    return {**spec, "artifacts": artifacts, "createdBy": created_by}


def _missing_files(blobs: FileBlobs, spec: Mapping[str, Any]) -> tuple[Fault, ...]:
    faults = []
    for index, artifact in enumerate(spec["artifacts"]):
        try:
            blobs.path(artifact["digest"])
        except NotFound:
            said = f"the content of '{artifact['path']}' is not stored here; POST /model/<name>/version stores files"
            faults.append(Fault(f"spec.artifacts[{index}].digest", said))
    return tuple(faults)

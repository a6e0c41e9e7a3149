"""What a new server serves: the checkpoint that is asked for, the newest of the version, or its own files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mizzen.errors import Conflict, Fault, Invalid, NotFound
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.runs.checkpoints import Checkpoint
from mizzen.server.admission import model_family
from mizzen.server.http.context import Plane
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store

FIELD = "checkpoint_id"


def asked(body: Mapping[str, Any]) -> tuple[str | None, tuple[Fault, ...]]:
    """The id that a body names, as `checkpoint_id` or as the spec of a server calls it; and what is wrong with it."""
    given = {name: body[name] for name in (FIELD, "checkpoint") if body.get(name) is not None}
    faults = tuple(
        Fault(name, "must be the id of a checkpoint") for name, value in given.items() if not _is_text(value)
    )
    if not faults and len(set(given.values())) > 1:
        faults = (Fault(FIELD, "is another than checkpoint; say it once"),)
    return next(iter(given.values()), None), faults


async def chosen(plane: Plane, model: Ref, version: Resource, wanted: str | None) -> Checkpoint | None:
    """None: the version's own files. NotFound for a checkpoint that is no one of this version; Conflict when it has
    none and there is nothing else to serve."""
    number, shelf = model_family.version_of(version), plane.shelf
    if wanted is not None:
        found = await asyncio.to_thread(shelf.find, model.namespace, model.name, number, wanted)
        if found is None or not _of(found, version):
            raise NotFound(
                f"version {number} of {model} has no checkpoint '{wanted[:100]}'",
                hint=f"'mizzen train list {model.name} --state all' lists its jobs, 'mizzen train checkpoints JOB' "
                "what they saved; without an id the newest is served",
            )
        return found
    newest = await asyncio.to_thread(shelf.newest, model.namespace, model.name, number, version.meta.uid)
    if newest is None and _awaits_training(version):
        raise await _nothing(plane.store, model, number)
    return newest


async def stands(plane: Plane, one: Checkpoint) -> bool:
    found = await asyncio.to_thread(plane.shelf.find, one.namespace, one.model, one.version, one.id)
    return found is not None


def framework(version: Resource, chosen: Checkpoint | None) -> str | None:
    """What loads it, as far as version and checkpoint tell."""
    own = version.spec.get("framework")
    if chosen is None or (own == "python" and version.spec.get("entrypoint") is not None):
        return own
    return chosen.framework or own


def _of(one: Checkpoint, version: Resource) -> bool:
    return one.version_uid in ("", version.meta.uid)


def _awaits_training(version: Resource) -> bool:
    try:
        return workload_template.awaits_training(ModelVersionSpec.of(version))
    except Invalid:
        return False  # its server says what is wrong with it


async def _nothing(store: Store, model: Ref, number: str) -> Conflict:
    jobs = [
        job
        for job in await whole(store, "TrainingJob", model_family.of_model(model))
        if model_family.version_of(job) == number
    ]
    message = f"version {number} of {model} is code, and no checkpoint of it was saved: there is nothing to serve yet"
    for job in jobs:
        if not model_family.ended(job):
            return Conflict(message, hint=f"{job.meta.name} trains it: 'mizzen train show {job.meta.name}'")
    for job in jobs:
        if Status.of(job).is_true("NoCheckpoint"):
            said = f"NoCheckpoint: {job.meta.name} ended well and saved none; its code has to write to the folder that"
            return Conflict(message, hint=f"{said} MIZZEN_CHECKPOINT_DIR names")
    return Conflict(message, hint=f"train it: mizzen train start {model.name} {number}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)

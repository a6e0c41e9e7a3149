"""Chooses the files that a new server serves: the requested checkpoint, else the newest, else the version's own."""

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
from mizzen.server.http.context import ServerContext
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store

FIELD = "checkpoint_id"


def read_checkpoint_id(body: Mapping[str, Any]) -> tuple[str | None, tuple[Fault, ...]]:
    """The checkpoint id in a body, under `checkpoint_id` or the spec's own name for it, and its faults."""
    ids = {name: body[name] for name in (FIELD, "checkpoint") if body.get(name) is not None}
    faults = tuple(Fault(name, "must be the id of a checkpoint") for name, value in ids.items() if not _is_text(value))
    if not faults and len(set(ids.values())) > 1:
        faults = (Fault(FIELD, "differs from checkpoint; give only one of them"),)
    return next(iter(ids.values()), None), faults


async def choose(context: ServerContext, model: Ref, version: Resource, wanted: str | None) -> Checkpoint | None:
    """The checkpoint to serve; None for the version's own files.

    Raises NotFound if the version has no such checkpoint, and Conflict if it has none and no files to serve."""
    number, shelf = model_family.version_of(version), context.checkpoints
    if wanted is not None:
        found = await asyncio.to_thread(shelf.find, model.namespace, model.name, number, wanted)
        if found is None or not _belongs_to(found, version):
            raise NotFound(
                f"version {number} of {model} has no checkpoint '{wanted[:100]}'",
                hint=f"'mizzen train list {model.name} --state all' lists its jobs, and 'mizzen train checkpoints JOB' "
                "their checkpoints; without an id, the server uses the newest one",
            )
        return found
    newest = await asyncio.to_thread(shelf.newest, model.namespace, model.name, number, version.meta.uid)
    if newest is None and _awaits_training(version):
        raise await _no_checkpoint_error(context.store, model, number)
    return newest


async def still_exists(context: ServerContext, one: Checkpoint) -> bool:
    found = await asyncio.to_thread(context.checkpoints.find, one.namespace, one.model, one.version, one.id)
    return found is not None


def framework_of(version: Resource, chosen: Checkpoint | None) -> str | None:
    """The framework that loads it, if version and checkpoint determine it."""
    own = version.spec.get("framework")
    if chosen is None or (own == "python" and version.spec.get("entrypoint") is not None):
        return own
    return chosen.framework or own


def _belongs_to(one: Checkpoint, version: Resource) -> bool:
    return one.version_uid in ("", version.meta.uid)


def _awaits_training(version: Resource) -> bool:
    try:
        return workload_template.awaits_training(ModelVersionSpec.of(version))
    except Invalid:
        return False  # the server reports what is wrong with it


async def _no_checkpoint_error(store: Store, model: Ref, number: str) -> Conflict:
    of_model = await whole(store, "TrainingJob", model_family.where_model(model))
    jobs = [job for job in of_model if model_family.version_of(job) == number]
    message = f"version {number} of {model} is untrained code without a checkpoint: there is nothing to serve yet"
    for job in jobs:
        if not model_family.has_ended(job):
            return Conflict(message, hint=f"{job.meta.name} is training it: 'mizzen train show {job.meta.name}'")
    for job in jobs:
        if Status.of(job).is_true("NoCheckpoint"):
            cause = f"NoCheckpoint: {job.meta.name} succeeded without saving one"
            return Conflict(message, hint=f"{cause}; its code must write to the folder in MIZZEN_CHECKPOINT_DIR")
    return Conflict(message, hint=f"train it: mizzen train start {model.name} {number}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)

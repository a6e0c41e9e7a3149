"""A model and everything that belongs to it, read in one snapshot through indexes, not by scanning a namespace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from mizzen.errors import Conflict
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.kinds.text.versions import MOST_DIGITS, normal_version
from mizzen.stores.store import Present, Reads, Revision, Store, Where

T = TypeVar("T")

LONGEST_NAME = 63
"""The most characters of a derived name."""
_VERSION_FIELD = {"ModelVersion": "version", "TrainingJob": "version", "InferenceModel": "targetVersion"}
_ENDS = ("Succeeded", "Failed")
MOST_VERSIONS = 100
"""The most versions that `gather` reads; `/model/<n>/version` lists them all."""


@dataclass(frozen=True, slots=True)
class ModelObjects:
    model: Resource
    versions: tuple[Resource, ...] = ()
    """The newest ones. Numbers in order, then names."""
    version_count: int = 0
    """The number of all versions."""
    servers: tuple[Resource, ...] = ()
    jobs: tuple[Resource, ...] = ()
    """All jobs, also ended ones."""
    monitors: tuple[Resource, ...] = ()
    rollouts: tuple[Resource, ...] = ()
    second_names: tuple[Resource, ...] = ()
    """Models that are aliases of this one, or of a version of it."""
    last_change: Revision | None = None


async def load(store: Store, model: Ref) -> ModelObjects:
    """Raises NotFound if there is no such model."""
    async with store.snapshot() as moment:
        members = await read_at_once(moment, lambda now: gather(now, model))
        return replace(members, last_change=await moment.last_change(model))


async def read_at_once(moment: Reads, read: Callable[[Present], T]) -> T:
    """Returns the result of `read`. It runs as a guard, so that one trip to the store reads everything."""
    found: list[T] = []
    await moment.check(lambda now: found.append(read(now)))
    return found[0]


def derive_name(model: str, version: str, end: str) -> str:
    """Returns a name for an object of this version, such as iris-3 with `end`. A long one is cut and gets a hash."""
    whole = f"{model}-{version.replace('.', '-')}"
    if len(whole) + len(end) > LONGEST_NAME:
        end = f"-{hashlib.sha256(f'{model}.{version}'.encode()).hexdigest()[:8]}{end}"
    return whole[: LONGEST_NAME - len(end)].rstrip("-") + end


def gather(now: Present, model: Ref) -> ModelObjects:
    """Returns everything except `last_change`. Reads only the newest versions. Raises NotFound."""
    versions = sorted(now.newest("ModelVersion", model, MOST_VERSIONS), key=sort_key)
    return replace(gather_related(now, model), versions=tuple(versions), version_count=now.count("ModelVersion", model))


def gather_related(now: Present, model: Ref) -> ModelObjects:
    """Returns everything except the versions, which may be many, and `last_change`. Raises NotFound."""
    return ModelObjects(
        model=now.get(model),
        servers=now.list("InferenceModel", where_model(model)),
        jobs=now.list("TrainingJob", where_model(model)),
        monitors=now.list("Monitor", where_model(model)),
        rollouts=list_rollouts(now, model),
        second_names=list_second_names(now, model),
    )


def where_model(model: Ref) -> Where:
    """Selects versions, servers, jobs and monitors of the model."""
    return Where(namespace=model.namespace, fields={"spec.modelName": model.name})


def list_rollouts(now: Present, model: Ref) -> tuple[Resource, ...]:
    """Returns the rollouts whose target is this model."""
    named = now.list("Rollout", Where(namespace=model.namespace, fields={"spec.target.name": model.name}))
    return tuple(item for item in named if item.spec["target"].get("kind", "Model") == "Model")


def list_second_names(now: Present, model: Ref) -> tuple[Resource, ...]:
    """Returns the models whose `aliasOf` names this model or any version of it."""
    return now.list("Model", Where(namespace=model.namespace, fields={catalog.ALIASED_MODEL: model.name}))


def version_of(resource: Resource) -> str:
    """Returns the version of a ModelVersion, or the version that a server or a job names."""
    target = resource.status.get("targetVersion") if resource.kind == "InferenceModel" else None
    return normalize(target or resource.spec.get(_VERSION_FIELD[resource.kind]) or "")


def normalize(version: Any) -> str:
    """Stored specs may come from anywhere: an invalid version stays as it is, and equals no other."""
    try:
        return normal_version(version)
    except ValueError:
        return str(version)


def current_of(model: Resource) -> str | None:
    current = model.status.get("current")
    return current.get("version") if isinstance(current, dict) else None


def aliases_of(model: Resource) -> dict[str, str]:
    """Returns the aliases of the spec."""
    aliases = model.spec.get("aliases")
    return {alias: normalize(version) for alias, version in aliases.items()} if isinstance(aliases, dict) else {}


def serving_aliases_of(model: Resource) -> dict[str, str]:
    """Returns the versions that answer for the aliases now."""
    aliases = model.status.get("aliases")
    return aliases if isinstance(aliases, dict) else {}


def first_name_of(model: Resource) -> str | None:
    """Returns the `model[:version]` of which this model is a second name, if it is one."""
    return catalog.field(model, "spec.aliasOf") or None


def first_version_of(model: Resource) -> str:
    """Returns the version of which this model is a second name; empty for the current one."""
    version = (first_name_of(model) or "").partition(":")[2]
    return normalize(version) if version else ""


def serves(server: Resource, version: str) -> bool:
    return version in (version_of(server), server.status.get("servingVersion"))


def checkpoint_of(server: Resource) -> str | None:
    """Returns the checkpoint to serve: that of the spec, or the one chosen when the server started the version."""
    return catalog.field(server, "spec.checkpoint") or catalog.field(server, "status.checkpoint")


def checkpoints_of(server: Resource) -> frozenset[str]:
    """Returns the checkpoints that the server serves, or is to serve."""
    answers = catalog.field(server, "status.servingCheckpoint")
    return frozenset(filter(None, (checkpoint_of(server), answers)))


def is_ready(server: Resource) -> bool:
    condition = Status.of(server).condition("Ready")
    return condition is not None and condition.true and not server.deleting


def has_ended(job: Resource) -> bool:
    """Whether the job set succeeded or failed."""
    return any(condition.true and condition.type in _ENDS for condition in Status.of(job).conditions)


def refuse_deleting(resource: Resource) -> None:
    if resource.deleting:
        raise Conflict(f"{resource.ref} is being deleted", hint="wait until it is gone")


def require_first_name(model: Resource, reason: str) -> Resource:
    """Returns the model. Raises Conflict if it is being deleted, or is a second name.

    A second name owns nothing: changes must be made to the model itself.
    """
    refuse_deleting(model)
    first = first_name_of(model)
    if first is not None:
        name = first.partition(":")[0]
        raise Conflict(f"{model.ref} is a second name of '{first}': {reason}", hint=f"use model '{name}' instead")
    return model


def sort_key(version: Resource) -> tuple[int, int, str]:
    """Sorts numbers in numeric order, then names."""
    number = number_of(version)
    return (1, 0, version_of(version)) if number is None else (0, number, "")


def number_of(version: Resource) -> int | None:
    """Returns None if the version has a name instead of a number."""
    text = version_of(version)
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None

"""A model and all that belongs to it, read at one moment and found by its name, not by looking through a namespace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mizzen.errors import Conflict
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.kinds.text.versions import MOST_DIGITS, normal_version
from mizzen.stores.store import Present, Revision, Store, Where

_VERSION_FIELD = {"ModelVersion": "version", "TrainingJob": "version", "InferenceModel": "targetVersion"}
_ENDS = ("Succeeded", "Failed")
MOST_VERSIONS = 100
"""Of a family; `/model/<n>/version` lists them all."""


@dataclass(frozen=True, slots=True)
class Family:
    model: Resource
    versions: tuple[Resource, ...] = ()
    """Those that were made last. Numbers in order, then names."""
    version_count: int = 0
    """Of all."""
    servers: tuple[Resource, ...] = ()
    jobs: tuple[Resource, ...] = ()
    """All, also those that ended."""
    monitors: tuple[Resource, ...] = ()
    rollouts: tuple[Resource, ...] = ()
    second_names: tuple[Resource, ...] = ()
    """Models that are aliases of this one, or of a version of it."""
    last_change: Revision | None = None


async def load(store: Store, model: Ref) -> Family:
    """NotFound when there is no such model."""
    async with store.snapshot() as moment:
        found: list[Family] = []
        # Asked as a guard is: one trip to the store for all of it.
        await moment.check(lambda now: found.append(gather(now, model)))
        return replace(found[0], last_change=await moment.last_change(model))


def gather(now: Present, model: Ref) -> Family:
    """All but `last_change`. NotFound. Of versions, however many there are, only the newest are read."""
    versions = sorted(now.newest("ModelVersion", model, MOST_VERSIONS), key=order)
    return replace(around(now, model), versions=tuple(versions), version_count=now.count("ModelVersion", model))


def around(now: Present, model: Ref) -> Family:
    """All but the versions, which may be many, and `last_change`. NotFound."""
    return Family(
        model=now.get(model),
        servers=now.list("InferenceModel", of_model(model)),
        jobs=now.list("TrainingJob", of_model(model)),
        monitors=now.list("Monitor", of_model(model)),
        rollouts=rollouts(now, model),
        second_names=second_names(now, model),
    )


def of_model(model: Ref) -> Where:
    """Versions, servers, jobs and monitors of it."""
    return Where(namespace=model.namespace, fields={"spec.modelName": model.name})


def rollouts(now: Present, model: Ref) -> tuple[Resource, ...]:
    """Those whose target is this model."""
    named = now.list("Rollout", Where(namespace=model.namespace, fields={"spec.target.name": model.name}))
    return tuple(item for item in named if item.spec["target"].get("kind", "Model") == "Model")


def second_names(now: Present, model: Ref) -> tuple[Resource, ...]:
    """Models whose `aliasOf` names it, or any version of it."""
    return now.list("Model", Where(namespace=model.namespace, fields={catalog.ALIASED_MODEL: model.name}))


def version_of(resource: Resource) -> str:
    """The version that a ModelVersion is, or that a server or a job asks for."""
    told = resource.status.get("targetVersion") if resource.kind == "InferenceModel" else None
    return normal(told or resource.spec.get(_VERSION_FIELD[resource.kind]) or "")


def normal(version: Any) -> str:
    """Stored specs may come from anywhere: what is no version stays as it is, and equals none."""
    try:
        return normal_version(version)
    except ValueError:
        return str(version)


def current_of(model: Resource) -> str | None:
    current = model.status.get("current")
    return current.get("version") if isinstance(current, dict) else None


def aliases_of(model: Resource) -> dict[str, str]:
    """As they are asked for."""
    aliases = model.spec.get("aliases")
    return {alias: normal(version) for alias, version in aliases.items()} if isinstance(aliases, dict) else {}


def answering_aliases(model: Resource) -> dict[str, str]:
    """The versions that answer for them now."""
    told = model.status.get("aliases")
    return told if isinstance(told, dict) else {}


def is_second_name(model: Resource) -> str | None:
    """What it is a second name of."""
    return catalog.field(model, "spec.aliasOf") or None


def first_version(model: Resource) -> str:
    """The version that it is a second name of; empty for the current one, whichever that is."""
    version = (is_second_name(model) or "").partition(":")[2]
    return normal(version) if version else ""


def serves(server: Resource, version: str) -> bool:
    return version in (version_of(server), server.status.get("servingVersion"))


def checkpoint_of(server: Resource) -> str | None:
    """The checkpoint that it is to serve: as its spec says, or as was chosen when it began to serve the version."""
    return catalog.field(server, "spec.checkpoint") or catalog.field(server, "status.checkpoint")


def checkpoints_of(server: Resource) -> frozenset[str]:
    """Those that it serves, or is to serve."""
    answers = catalog.field(server, "status.servingCheckpoint")
    return frozenset(filter(None, (checkpoint_of(server), answers)))


def ready(server: Resource) -> bool:
    condition = Status.of(server).condition("Ready")
    return condition is not None and condition.true and not server.deleting


def ended(job: Resource) -> bool:
    """A job set that succeeded or failed: a record, no longer work."""
    return any(condition.true and condition.type in _ENDS for condition in Status.of(job).conditions)


def refuse_deleting(resource: Resource) -> None:
    if resource.deleting:
        raise Conflict(f"{resource.ref} is being deleted", hint="wait until it is gone")


def refuse_second_name(model: Resource, wish: str) -> None:
    """A second name owns nothing: what is done is done to the model itself."""
    first = is_second_name(model)
    if first is not None:
        name = first.partition(":")[0]
        raise Conflict(f"{model.ref} is a second name of '{first}': {wish}", hint=f"ask for it at model '{name}'")


def order(version: Resource) -> tuple[int, int, str]:
    """Numbers in their order, then names."""
    number = number_of(version)
    return (1, 0, version_of(version)) if number is None else (0, number, "")


def number_of(version: Resource) -> int | None:
    """None when it has a name."""
    text = version_of(version)
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None

"""A model and all that belongs to it, read at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mizzen.errors import Conflict
from mizzen.kinds.meta import Ref, Resource, Status
from mizzen.kinds.model import normal_version
from mizzen.stores.store import Reads, Store, Where


@dataclass(frozen=True, slots=True)
class Family:
    model: Resource
    versions: tuple[Resource, ...]
    """Numbers in order, then names."""
    servers: tuple[Resource, ...]

    def serving(self, version: str) -> tuple[Resource, ...]:
        """The servers that were asked for this version, or still answer with it."""
        return tuple(server for server in self.servers if serves(server, version))


async def load(store: Store, model: Ref) -> Family:
    """NotFound when there is no such model."""
    async with store.snapshot() as moment:
        return Family(
            await moment.get(model),
            tuple(sorted(await _of_model(moment, "ModelVersion", model), key=_order)),
            await _of_model(moment, "InferenceModel", model),
        )


def version_of(resource: Resource) -> str:
    """The version that a ModelVersion is, or that an InferenceModel asks for."""
    return _normal(resource.spec.get("version" if resource.kind == "ModelVersion" else "targetVersion", ""))


def belonging(resources: Iterable[Resource], model: Ref) -> tuple[Resource, ...]:
    """Those versions or servers of a namespace that are this model's."""
    return tuple(item for item in resources if item.spec.get("modelName") == model.name)


def serves(server: Resource, version: str) -> bool:
    return version in (version_of(server), server.status.get("servingVersion"))


def ready(server: Resource) -> bool:
    condition = Status.of(server).condition("Ready")
    return condition is not None and condition.true and not server.deleting


def refuse_deleting(resource: Resource) -> None:
    if resource.deleting:
        raise Conflict(f"{resource.ref} is being deleted", hint="wait until it is gone")


async def _of_model(reads: Reads, kind: str, model: Ref) -> tuple[Resource, ...]:
    listing = await reads.list(kind, Where(namespace=model.namespace))
    return belonging(listing.items, model)


def _normal(version: Any) -> str:
    """Stored specs may come from anywhere: what is no version stays as it is, and equals none."""
    try:
        return normal_version(version)
    except ValueError:
        return str(version)


def _order(version: Resource) -> tuple[int, int, str]:
    text = version_of(version)
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)

"""RoleBindings as the policy reads them: kept at hand, and read again as soon as one has changed."""

from __future__ import annotations

import asyncio

from mizzen.access.policy import Binding, Target
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.access import RoleBindingSpec, RoleBindingStatus
from mizzen.kinds.findings import Context
from mizzen.kinds.meta import Resource
from mizzen.stores.store import Store

KIND = "RoleBinding"


class Bindings:
    """All bindings there are. Every change that was acknowledged counts from the next request on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._position: str | None = None
        self._bindings: tuple[Binding, ...] = ()
        self._lock = asyncio.Lock()

    async def fresh(self) -> tuple[Binding, ...]:
        """The same object as long as nothing changed. Unavailable when they cannot be read: then nobody gets in."""
        if self._store.position(KIND) != self._position:
            async with self._lock:
                await self._read()
        return self._bindings

    async def _read(self) -> None:
        # Noted before the objects are read: a change in between is read twice rather than never.
        position = self._store.position(KIND)
        if position == self._position:
            return
        listing = await self._store.list(KIND)
        found = tuple(binding for resource in listing.items if (binding := binding_of(resource)) is not None)
        if found != self._bindings:
            self._bindings = found
        self._position = position


def binding_of(resource: Resource) -> Binding | None:
    """What a RoleBinding grants; nothing when it is going, or makes no sense."""
    if resource.deleting or _refused(resource):
        return None
    try:
        spec = RoleBindingSpec.of(resource)
    except Invalid:
        return None
    return Binding(
        name=resource.meta.name,
        namespace=resource.meta.namespace,
        subjects=frozenset(spec.subjects),
        verbs=frozenset(spec.verbs),
        model=spec.target.model or "",
        alias=spec.target.alias or "",
    )


def target_of(resource: Resource) -> Target:
    """What a RoleBinding is about: whoever writes it, or wrote over it, must be admin of that.

    One that makes no sense is about the whole namespace.
    """
    try:
        target = RoleBindingSpec.of(resource).target
    except Invalid:
        return Target(resource.meta.namespace, KIND, resource.meta.name)
    models = frozenset({target.model} if target.model else ())
    return Target(resource.meta.namespace, KIND, resource.meta.name, models=models, alias=target.alias or "")


def _refused(resource: Resource) -> bool:
    condition = RoleBindingStatus.of(resource).condition("Accepted")
    said = condition is not None and condition.observed_generation == resource.meta.generation
    if said and condition is not None and condition.status == "False":
        return True
    context = Context(name=resource.meta.name, namespace=resource.meta.namespace)
    return bool(catalog.of(resource).examine(resource.meta.name, resource.spec, context, strict=False).faults)

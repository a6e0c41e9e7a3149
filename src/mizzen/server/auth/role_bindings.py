"""A cache of all RoleBindings as the policy reads them; a change of one reloads it."""

from __future__ import annotations

import asyncio

from mizzen.access.policy import Binding, Target
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.access import RoleBindingSpec, RoleBindingStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Resource
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store

KIND = "RoleBinding"


class RoleBindingCache:
    """All RoleBindings. Every acknowledged change counts from the next request on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._position: str | None = None
        self._bindings: tuple[Binding, ...] = ()
        self._lock = asyncio.Lock()

    async def current(self) -> tuple[Binding, ...]:
        """Returns the same object while nothing changes. Fails closed: raises Unavailable if they cannot be read."""
        if self._store.position(KIND) != self._position:
            async with self._lock:
                await self._read()
        return self._bindings

    async def _read(self) -> None:
        # Taken before the objects are read: a change in between is read twice rather than never.
        position = self._store.position(KIND)
        if position == self._position:
            return
        resources = await whole(self._store, KIND)
        found = tuple(binding for resource in resources if (binding := binding_of(resource)) is not None)
        if found != self._bindings:
            self._bindings = found
        self._position = position


def binding_of(resource: Resource) -> Binding | None:
    """Returns the grant of a RoleBinding; None if it is being deleted or not valid."""
    if resource.deleting or _is_rejected(resource):
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
    """Returns the target of a RoleBinding: its writer must be an admin of it.

    An invalid one is about the whole namespace.
    """
    try:
        target = RoleBindingSpec.of(resource).target
    except Invalid:
        return Target(resource.meta.namespace, KIND, resource.meta.name)
    models = frozenset({target.model} if target.model else ())
    return Target(resource.meta.namespace, KIND, resource.meta.name, models=models, alias=target.alias or "")


def _is_rejected(resource: Resource) -> bool:
    condition = RoleBindingStatus.of(resource).condition("Accepted")
    if condition is not None and condition.observed_generation == resource.meta.generation and not condition.true:
        return True
    context = Context(name=resource.meta.name, namespace=resource.meta.namespace)
    return bool(catalog.of(resource).examine(resource.meta.name, resource.spec, context, strict=False).faults)

"""RoleBindings as the policy reads them: kept at hand, and read again as soon as one has changed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from mizzen.access.policy import Binding, Target
from mizzen.errors import Conflict, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.access import RoleBindingSpec, RoleBindingStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Ref, Resource
from mizzen.server.admission import field_managers
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Present, Store

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
        resources = await whole(self._store, KIND)
        found = tuple(binding for resource in resources if (binding := binding_of(resource)) is not None)
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


async def naming(store: Store, user: str) -> tuple[Resource, ...]:
    """The RoleBindings that name this user as a subject, also those that grant nothing as they are."""
    return tuple(item for item in await whole(store, KIND) if user in _subjects(item) and not item.deleting)


async def take_out(store: Store, user: str, by: str, now: datetime) -> tuple[Resource, ...]:
    """No RoleBinding names this user any more: those that named nobody else are deleted. As they were before."""
    named = await naming(store, user)
    for resource in named:
        with suppress(NotFound):
            while not await _taken_out(store, resource.ref, user, by, now):
                pass
    return named


async def _taken_out(store: Store, ref: Ref, user: str, by: str, now: datetime) -> bool:
    """False: somebody changed it meanwhile."""
    found = await store.get(ref)
    subjects = _subjects(found)
    if user not in subjects or found.deleting:
        return True

    def unchanged(now: Present) -> None:
        if now.get(ref).meta.resource_version != found.meta.resource_version:
            raise Conflict(f"{ref} changed since it was read")

    left = [subject for subject in subjects if subject != user]
    try:
        if not left:
            await store.delete(ref, by, uid=found.meta.uid, guard=unchanged)
        else:
            meta = replace(found.meta, annotations={**found.meta.annotations, ACTOR_ANNOTATION: by})
            new = replace(found, meta=meta, spec={**found.spec, "subjects": left})
            await store.update(field_managers.by_plane(found, new, now), by)
    except Conflict:
        return False
    return True


def _subjects(resource: Resource) -> list[object]:
    """Of any spec, also a broken one."""
    subjects = resource.spec.get("subjects")
    return subjects if isinstance(subjects, list) else []


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

"""Namespaces: one is there once somebody made it, or something in it; and goes with all that is in it.

    made ──> Active ── deleted (finalizer `kubernetes` holds it) ──> Terminating ── empty ──> gone

Objects first, then their namespace: a refused object leaves none behind, and a plane that is killed in between makes
it at its next start. While one is going nothing is made in it any more; the store asks that within the write itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, suppress

from mizzen.errors import AlreadyExists, Fault, Forbidden, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Meta, Ref, Resource
from mizzen.stores.store import Event, Guard, Listing, Present, Reads, Revision, Store, Where

KIND = "Namespace"
FINALIZER = "kubernetes"
"""The one that Kubernetes itself holds namespaces with."""
NAME_LABEL = "kubernetes.io/metadata.name"
"""Every namespace has its name as a label, so that selectors can name it."""
SYSTEM = "system"
EVERYTHING = Where()

INHABITANTS = tuple(kind.name for kind in catalog.KINDS if not kind.virtual)
"""Kinds whose objects make a namespace, and keep it from going."""


def ref(name: str) -> Ref:
    return Ref(KIND, name, "")


def new(name: str, meta: Meta | None = None) -> Resource:
    """`meta` may say more than the name."""
    said = meta or Meta(name, "")
    others = tuple(one for one in said.finalizers if one != FINALIZER)
    return Resource(
        KIND,
        Meta(
            name,
            "",
            labels={**said.labels, NAME_LABEL: name},
            annotations=said.annotations,
            finalizers=(FINALIZER, *others),
            managed=said.managed,
        ),
    )


def stands(name: str) -> Guard:
    """For what is to be made in it: Forbidden while it is going. One that is not there yet comes with what is made."""

    def guard(now: Present) -> None:
        with suppress(NotFound):
            refuse_going(now.get(ref(name)))

    return guard


def refuse_going(namespace: Resource) -> None:
    if namespace.deleting:
        name = namespace.meta.name
        raise Forbidden(
            f"unable to create new content in namespace {name} because it is being terminated",
            hint=f"wait until it is gone: kubectl wait --for=delete namespace/{name}",
            faults=(Fault("metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"),),
        )


async def ensure(store: Store, name: str, by: str) -> Resource:
    """It, as it is, or as it is made now. Costs next to nothing when it was there before."""
    while True:
        try:
            return await store.get(ref(name))
        except NotFound:
            with suppress(AlreadyExists):
                return await store.create(new(name), by)


async def refuse_closed(store: Store, name: str) -> None:
    """Before something is made there that the store does not ask for, such as a secret."""
    with suppress(NotFound):
        refuse_going(await store.get(ref(name)))


async def prepare(store: Store, used: Iterable[str]) -> None:
    """At the start: `default`, and those that are `used` and not there: of a plane that had no namespaces yet, or that
    was killed just before it made one."""
    for name in sorted({DEFAULT_NAMESPACE, *used}):
        await ensure(store, name, SYSTEM)


class NamespacedStore:
    """A Store for those who act for people: what it creates is in a namespace that stands, and is there then."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """As `Store.create`; Forbidden in a namespace that is going."""
        namespace = new.meta.namespace
        if not namespace:
            return await self._store.create(new, by, guard=guard)
        standing = stands(namespace)

        def both(now: Present) -> None:
            standing(now)
            if guard is not None:
                guard(now)

        made = await self._store.create(new, by, guard=both)
        await ensure(self._store, namespace, by)
        return made

    async def get(self, ref: Ref) -> Resource:
        return await self._store.get(ref)

    async def list(
        self,
        kind: str,
        where: Where = EVERYTHING,
        *,
        limit: int | None = None,
        after: str | None = None,
    ) -> Listing:
        return await self._store.list(kind, where, limit=limit, after=after)

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        return await self._store.among(refs)

    def snapshot(self) -> AbstractAsyncContextManager[Reads]:
        return self._store.snapshot()

    async def update(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        return await self._store.update(new, by, guard=guard)

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        return await self._store.update_status(new, by, decision=decision, guard=guard)

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        return await self._store.delete(ref, by, uid=uid, guard=guard)

    def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncIterator[Event]:
        return self._store.watch(kind, since, quiet=quiet)

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        return await self._store.history(ref)

    async def family_history(
        self, model: Ref, *, limit: int | None = None, after: str | None = None
    ) -> tuple[tuple[Revision, ...], str | None]:
        return await self._store.family_history(model, limit=limit, after=after)

    def position(self, kind: str) -> str:
        return self._store.position(kind)

    async def close(self) -> None:
        await self._store.close()

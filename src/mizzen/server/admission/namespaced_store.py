"""Namespaces: a caller creates one directly, or by creating an object in it; it is deleted with everything in it.

    created ──> Active ── deleted (held by finalizer `kubernetes`) ──> Terminating ── empty ──> gone

An object is created before its namespace: so a refused object leaves no namespace behind, and a plane that is killed in
between creates the namespace at its next start. A guard within the write itself refuses new objects in a terminating
namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from mizzen.errors import AlreadyExists, Fault, Forbidden, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import DEFAULT_NAMESPACE, Meta, Ref, Resource
from mizzen.stores.store import Guard, Present, Store

KIND = "Namespace"
FINALIZER = "kubernetes"
"""The finalizer that Kubernetes itself uses for namespaces."""
NAME_LABEL = "kubernetes.io/metadata.name"
"""Every namespace has its name as a label, so that selectors can name it."""
SYSTEM = "system"


NAMESPACED_KINDS = tuple(kind.name for kind in catalog.KINDS if not kind.virtual)
"""Kinds whose objects create their namespace, and keep it from being removed."""


def ref_of(name: str) -> Ref:
    return Ref(KIND, name, "")


def build_namespace(name: str, meta: Meta | None = None) -> Resource:
    """`meta` may set more than the name."""
    meta = meta or Meta(name, "")
    finalizers = (FINALIZER, *(one for one in meta.finalizers if one != FINALIZER))
    labels = {**meta.labels, NAME_LABEL: name}
    own = Meta(name, "", labels=labels, annotations=meta.annotations, finalizers=finalizers, managed=meta.managed)
    return Resource(KIND, own)


def require_active(name: str) -> Guard:
    """For an object to create in it: Forbidden while the namespace terminates. A missing namespace is created later."""

    def guard(now: Present) -> None:
        with suppress(NotFound):
            refuse_terminating(now.get(ref_of(name)))

    return guard


def refuse_terminating(namespace: Resource) -> None:
    if namespace.deleting:
        name = namespace.meta.name
        raise Forbidden(
            f"unable to create new content in namespace {name} because it is being terminated",
            hint=f"wait until it is gone: kubectl wait --for=delete namespace/{name}",
            faults=(Fault("metadata.namespace", f"namespace {name} is being terminated", "NamespaceTerminating"),),
        )


async def ensure(store: Store, name: str, by: str) -> Resource:
    """Returns the namespace; creates it if it does not exist. Cheap if it exists."""
    while True:
        try:
            return await store.get(ref_of(name))
        except NotFound:
            with suppress(AlreadyExists):
                return await store.create(build_namespace(name), by)


async def check_active(store: Store, name: str) -> None:
    """For creations that the store does not guard, such as that of a secret."""
    with suppress(NotFound):
        refuse_terminating(await store.get(ref_of(name)))


async def create_missing(store: Store, used: Iterable[str]) -> None:
    """At the start: creates `default`, and `used` namespaces that do not exist. A plane without Namespace objects, or
    one that was killed just before it created one, may have left such."""
    for name in sorted({DEFAULT_NAMESPACE, *used}):
        await ensure(store, name, SYSTEM)


class NamespacedStore:
    """A Store for the API routes: it refuses creations in terminating namespaces, and creates missing namespaces.

    It does everything else as the store behind it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.get, self.list, self.among, self.snapshot = store.get, store.list, store.among, store.snapshot
        self.update, self.update_status, self.delete = store.update, store.update_status, store.delete
        self.watch, self.position, self.close = store.watch, store.position, store.close
        self.history, self.family_history = store.history, store.family_history

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """As `Store.create`; raises Forbidden in a terminating namespace."""
        namespace = new.meta.namespace
        if not namespace:
            return await self._store.create(new, by, guard=guard)
        is_active = require_active(namespace)

        def both(now: Present) -> None:
            is_active(now)
            if guard is not None:
                guard(now)

        stored = await self._store.create(new, by, guard=both)
        await ensure(self._store, namespace, by)
        return stored

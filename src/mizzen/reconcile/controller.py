"""The controller protocol: two functions, `load` and a pure `decide`.

`load` gathers a resource and all that it owns or references into facts; `decide` turns facts into a Decision; `apply`
writes it. A controller is woken by a key and must reach the same decision however often it runs.

`Store` is the part of `mizzen.stores.store.Store` used here. It is declared here because stores are a higher layer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.reconcile.recorder import EventNote


class ObjectPage(Protocol):
    @property
    def items(self) -> tuple[Resource, ...]: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def next(self) -> str | None: ...


class ChangeEvent(Protocol):
    @property
    def resource(self) -> Resource: ...
    @property
    def type(self) -> str: ...


class WatchedStore(Protocol):
    async def get(self, ref: Ref) -> Resource: ...
    async def list(self, kind: str, *, limit: int | None = None, after: str | None = None) -> ObjectPage: ...
    async def create(self, new: Resource, by: str) -> Resource: ...
    async def update(self, new: Resource, by: str) -> Resource: ...
    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Callable[[Any], None] | None = None
    ) -> Resource: ...
    async def delete(self, ref: Ref, by: str, *, uid: str | None = None) -> Resource | None: ...
    def watch(self, kind: str, since: str) -> AsyncIterator[ChangeEvent]: ...


class Facts(Protocol):
    """The result of `load`. Controllers add their own fields."""

    @property
    def resource(self) -> Resource: ...
    @property
    def children(self) -> tuple[Resource, ...]:
        """All objects that the resource owns now, including those being deleted."""


@dataclass(frozen=True, slots=True)
class Decision:
    children: tuple[Resource, ...] = ()
    """All desired children. `apply` adds owner references and finalizers, and deletes children not listed here."""
    status: Status | None = None
    """None leaves the status unchanged. `apply` fills in transition times and observed generations."""
    requeue_after: float | None = None
    """Reconcile again after so many seconds, even if nothing changes in the store."""
    drop_finalizers: frozenset[str] = frozenset()
    remove: bool = False
    """The object itself has expired: delete it once the status is written."""
    decision: str | None = None
    """A word such as `promoted` when the status change belongs in history."""
    actor: str | None = None
    """The user who decided, if it was not the controller."""
    guard: Callable[[Any], None] | None = field(default=None, compare=False)
    """A `Guard` of stores: conditions on other objects that must still hold when the status is written."""
    notes: tuple[EventNote, ...] = ()
    """Events that this change of status stands for; they are recorded once it is written."""


@dataclass(frozen=True, slots=True)
class Presence:
    """In `watches`: only creation, deletion and removal of objects of this kind matter.

    For kinds with many objects whose specs hardly ever change: nothing is kept in memory for them, and changes of their
    statuses wake no key unless the spec was edited before. The references in such a spec must not change.
    """

    kind: str


StoreT = TypeVar("StoreT", bound=WatchedStore)
S_contra = TypeVar("S_contra", contravariant=True)
F = TypeVar("F", bound=Facts)


class Controller(Protocol[S_contra, F]):
    kind: str
    """Kind of the keys."""

    @property
    def watches(self) -> tuple[str | Presence, ...]:
        """Other kinds whose changes may concern a key."""

    def keys(self, resource: Resource) -> Iterable[Ref]:
        """The keys affected by a change of a watched resource. Must accept any spec, even an invalid one.

        For kinds that are watched in full, the loop calls it for every object before anything is loaded, and again
        after each change.
        """

    async def load(self, store: S_contra, ref: Ref) -> F | None:
        """None when the object is gone."""

    def decide(self, facts: F, now: datetime) -> Decision:
        """Pure: no I/O, and no clock but `now`."""


class ObjectSource(Protocol):
    async def get(self, ref: Ref) -> Resource: ...


async def find(store: ObjectSource, ref: Ref) -> Resource | None:
    """Returns the object, or None if it does not exist."""
    try:
        return await store.get(ref)
    except NotFound:
        return None


def find_owners(resource: Resource, kind: str) -> tuple[Ref, ...]:
    """The owners of that kind, which are in the same namespace."""
    return tuple(Ref(kind, owner.name, resource.meta.namespace) for owner in resource.meta.owners if owner.kind == kind)

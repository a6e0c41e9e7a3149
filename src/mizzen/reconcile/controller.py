"""What a controller is: two functions, `load` and a pure `decide`.

`load` gathers a resource and all it owns or names into facts; `decide` turns facts into a Decision; `apply` writes it.
A controller is woken by a key and must come to the same decision however often it is asked.

`Store` is the part of `mizzen.stores.store.Store` that the machine uses, spelled out because stores stand above it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.reconcile.recorder import Note


class Listing(Protocol):
    @property
    def items(self) -> tuple[Resource, ...]: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def next(self) -> str | None: ...


class Event(Protocol):
    @property
    def resource(self) -> Resource: ...
    @property
    def type(self) -> str: ...


class Store(Protocol):
    async def get(self, ref: Ref) -> Resource: ...
    async def list(self, kind: str, *, limit: int | None = None, after: str | None = None) -> Listing: ...
    async def create(self, new: Resource, by: str) -> Resource: ...
    async def update(self, new: Resource, by: str) -> Resource: ...
    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Callable[[Any], None] | None = None
    ) -> Resource: ...
    async def delete(self, ref: Ref, by: str, *, uid: str | None = None) -> Resource | None: ...
    def watch(self, kind: str, since: str) -> AsyncIterator[Event]: ...


class Facts(Protocol):
    """What `load` found. Controllers add their own fields."""

    @property
    def resource(self) -> Resource: ...
    @property
    def children(self) -> tuple[Resource, ...]:
        """Everything the resource owns now, also what is being deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    children: tuple[Resource, ...] = ()
    """All children wanted. Owner reference and finalizers are added in `apply`; those not named here are deleted."""
    status: Status | None = None
    """None leaves the status alone. Transition times and observed generations are filled in by `apply`."""
    again: float | None = None
    """Look again after so many seconds, even if nothing changes in the store."""
    drop_finalizers: frozenset[str] = frozenset()
    remove: bool = False
    """The object itself has had its time: delete it, once the status is written."""
    decision: str | None = None
    """A word such as `promoted` when the status change belongs in history."""
    actor: str | None = None
    """Who decided so, when it was not the controller."""
    guard: Callable[[Any], None] | None = field(default=None, compare=False)
    """What must still hold of other objects when the status is written: a `Guard` of stores."""
    notes: tuple[Note, ...] = ()
    """What happened, as the difference between the status there is and this one: told once it is written."""


@dataclass(frozen=True, slots=True)
class Presence:
    """In `watches`: of this kind matters only that an object is there, is being deleted, or is gone.

    For kinds with many objects whose specs hardly ever change: nothing is kept of them, and their statuses wake nobody,
    unless the spec has changed once. What such a spec names must not change.
    """

    kind: str


StoreT = TypeVar("StoreT", bound=Store)
S_contra = TypeVar("S_contra", contravariant=True)
F = TypeVar("F", bound=Facts)


class Controller(Protocol[S_contra, F]):
    kind: str
    """Kind of the keys."""

    @property
    def watches(self) -> tuple[str | Presence, ...]:
        """Other kinds whose changes may concern a key."""
        ...

    def keys(self, resource: Resource) -> Iterable[Ref]:
        """The keys that a change of a watched resource concerns. Must bear any spec, also a broken one.

        Asked of each object of a kind that is watched whole before anything is loaded, and again after each change.
        """
        ...

    async def load(self, store: S_contra, ref: Ref) -> F | None:
        """None when the object is gone."""
        ...

    def decide(self, facts: F, now: datetime) -> Decision:
        """Pure: no input, no output, no clock but `now`."""
        ...


async def find(store: Store, ref: Ref) -> Resource | None:
    """The object, or None when there is none."""
    try:
        return await store.get(ref)
    except NotFound:
        return None


def owners(resource: Resource, kind: str) -> tuple[Ref, ...]:
    """The owners of that kind, which live in the same namespace."""
    return tuple(Ref(kind, owner.name, resource.meta.namespace) for owner in resource.meta.owners if owner.kind == kind)

"""The Store protocol: what every home of resources promises.

Objects of a virtual kind (`Revision`) are read like all others, and written by the store itself: who tries is
Forbidden. They are ordered by (namespace, kind, name, number) of what they tell of, a watch of them can begin at any
version, and who watches all kinds is not told of them.

Objects of an unrecorded kind (`Event`) are written like all others, but history keeps nothing of them, and who watches
all kinds is not told of them either: they tell of changes that this watcher has seen.

One number orders everything: each accepted write gets the next `resourceVersion`, and a watch yields changes in that
order. A write that changes nothing gets none. Acknowledged means durable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text.selectors import Selector


@dataclass(frozen=True, slots=True)
class Where:
    """Which objects of a kind. Empty means all, in every namespace."""

    namespace: str | None = None
    labels: Selector = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Path to the text it must equal: metadata.name, metadata.namespace, and what the kind's `indexed` lists."""
    unlike: frozenset[tuple[str, str]] = frozenset()
    """Such a path, and a text it must not equal: what is absent does not."""
    owner: str | None = None
    """uid of an owner"""


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects ordered by (namespace, name), and the place in the order of changes they were read at."""

    items: tuple[Resource, ...]
    resource_version: str
    next: str | None = None
    """Token for the next page; None on the last. Only then were these all: a page ends at a number of bytes, too."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What selectors look at in an object: its labels, and the fields that it is found by."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    resource: Resource
    """For DELETED the last state, with the resource version of the deletion. Of a BOOKMARK only that version says
    something: up to it, the watcher has been told all."""
    size: int = field(default=0, compare=False)
    """About how many bytes it holds, for whoever keeps some of them."""
    before: Traits | None = None
    """What selectors saw until then, when that is another than now: whoever watches a selection is told what leaves
    it, also when they have not watched from the start."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One entry of an object's history. Kept when the object is deleted."""

    ref: Ref
    uid: str
    number: int
    """Counts from 1 for each (kind, namespace, name)."""
    action: str
    """created, updated, deleted; or what a status decision says, such as promoted"""
    actor: str
    time: datetime
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class Present(Protocol):
    """The store as a write finds it: nothing changes between what is read here and that write."""

    def get(self, ref: Ref) -> Resource:
        """NotFound."""
        ...

    def list(self, kind: str, where: Where = ...) -> tuple[Resource, ...]:
        """All of them, on no pages: for what is few."""
        ...

    def newest(self, kind: str, model: Ref, most: int) -> tuple[Resource, ...]:
        """Those of a model (`catalog.model_of`) that were made last, newest first; of large ones fewer than `most`, as
        on a page. Costs what it returns."""
        ...

    def count(self, kind: str, model: Ref) -> int:
        """How many of a kind belong to a model. None of them is read for it."""
        ...


Guard: TypeAlias = Callable[[Present], None]
"""What must hold of other objects when a write is done; raises to refuse it.

Asked last, when nothing else speaks against the write, and not at all when the write changes nothing. Called in the
thread that writes: it should read little, and use nothing but what it is given.
"""


class Reads(Protocol):
    """One moment of a store."""

    async def get(self, ref: Ref) -> Resource:
        """NotFound."""
        ...

    async def list(
        self, kind: str, where: Where = ..., *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        """As `Store.list`. Its pages are all of this moment, and never Expired."""
        ...

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        """As `Store.among`."""
        ...

    async def check(self, guard: Guard) -> None:
        """Ask what a guard thinks of this moment. The write it is given to asks it again."""
        ...

    async def last_change(self, model: Ref) -> Revision | None:
        """The newest entry of `Store.family_history`; None when there never was such a model."""
        ...


class Store(Protocol):
    async def get(self, ref: Ref) -> Resource:
        """NotFound."""
        ...

    async def list(
        self, kind: str, where: Where = ..., *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        """One agreeing read, whose cost grows with what it returns and not with what else there is.

        A page ends at `limit` objects, or at a few megabytes of them (`pages.PAGE_BYTES`) also without a limit; it has
        at least one, if there is any. `whole.whole` reads all pages.

        `after` is `Listing.next` of the page before, with an equal `where`; Expired when it is too old to go on
        from. BadRequest for a field that is not indexed.
        """
        ...

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Which of these there are. However large they are, none of them is read for it."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[Reads]:
        """Reads that agree with each other, whatever is written meanwhile. Keep it short."""
        ...

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """Give it uid, generation 1, times and a resource version. AlreadyExists."""
        ...

    async def update(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """Write metadata and spec, never status. Generation moves only when the spec changed.

        Conflict unless `new.meta.resource_version` is the stored one (empty: no check). Taking the last finalizer off
        an object marked as deleted removes it. A no-op changes nothing and returns what is stored. NotFound.
        """
        ...

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        """Write status, and who owns its fields, only; otherwise as `update`, and generation never moves.

        With `decision` (such as `promoted`) the change is also written to history, with status as before and after.
        """
        ...

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        """Mark as deleted; gone at once when it has no finalizers (then None). Idempotent while marked. NotFound.

        With `uid`, Conflict when the name now belongs to another object.
        """
        ...

    def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncIterator[Event]:
        """Every change after resource version `since`, in order, of one kind or (None) of all, while it is read.

        Expired when `since` is older than what is kept: list, then watch from there. With `quiet`, a BOOKMARK comes
        after so many seconds in which there was none, so that whoever resumes there need not list again.
        """
        ...

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        """Oldest first. Empty for an object that never was."""
        ...

    async def family_history(
        self, model: Ref, *, limit: int | None = None, after: str | None = None
    ) -> tuple[tuple[Revision, ...], str | None]:
        """Of a model and of all that belongs to it (`catalog.model_of`), also of what is deleted, in the order it was
        written; with the token for the next page. Pages end as those of `list`. Costs what it returns, however much
        else there is."""
        ...

    def position(self, kind: str) -> str:
        """The resource version of the last change of this kind; no change that was acknowledged is missing from it.

        Costs nothing: for whoever keeps a copy of all objects of a kind and must know whether it is still true.
        """
        ...

    async def close(self) -> None: ...

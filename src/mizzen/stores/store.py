"""The Store protocol: the guarantees of every resource store.

Objects of a virtual kind (`Revision`) are read like all others, but only the store writes them: other writes raise
Forbidden. They are ordered by (namespace, kind, name, number) of the object they describe. A watch of them can begin at
any version, and a watch of all kinds does not include them.

Objects of an unrecorded kind (`Event`) are written like all others, but have no history. A watch of all kinds does not
include them either: they describe changes that this watcher has already seen.

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
    """Such a path, and a text it must not equal; an absent value matches."""
    owner: str | None = None
    """uid of an owner"""


EVERYTHING = Where()


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects ordered by (namespace, name), and the resource version they were read at."""

    items: tuple[Resource, ...]
    resource_version: str
    next: str | None = None
    """Token for the next page; None on the last page. Pages also end at a size in bytes, so always check it."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The parts of an object that selectors match: its labels and indexed fields."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    resource: Resource
    """For DELETED the last state, with the resource version of the deletion. In a BOOKMARK only that version has
    meaning: the watcher has seen every change up to it."""
    size: int = field(default=0, compare=False)
    """Approximate size in bytes, for callers that buffer events."""
    before: Traits | None = None
    """The traits before the change, if they differ. So a watcher of a selection learns which objects leave it, even if
    it has not watched from the start."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One entry of an object's history. Kept when the object is deleted."""

    ref: Ref
    uid: str
    number: int
    """Counts from 1 for each (kind, namespace, name)."""
    action: str
    """created, updated, deleted; or the name of a status decision, such as promoted"""
    actor: str
    time: datetime
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class Present(Protocol):
    """The store as a write sees it: nothing changes between these reads and that write."""

    def get(self, ref: Ref) -> Resource:
        """Raises NotFound."""

    def list(self, kind: str, where: Where = ...) -> tuple[Resource, ...]:
        """Returns all matching objects, without pages. For kinds with few objects."""

    def newest(self, kind: str, model: Ref, most: int) -> tuple[Resource, ...]:
        """Returns the newest objects of a model (`catalog.model_of`), newest first.

        Returns fewer than `most` if they are large, as on a page. The cost grows with the result.
        """

    def count(self, kind: str, model: Ref) -> int:
        """Returns how many objects of a kind belong to a model, without reading any."""


Guard: TypeAlias = Callable[[Present], None]
"""A condition on other objects that must hold for a write; raises to reject it.

Called last, after all other checks passed, and not at all if the write changes nothing. Runs in the writer thread: it
should read little, and use only its arguments.
"""


class ObjectReader(Protocol):
    async def get(self, ref: Ref) -> Resource:
        """Raises NotFound."""

    async def list(
        self, kind: str, where: Where = ..., *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        """One consistent read, whose cost grows with its result and not with the size of the store.

        A page ends at `limit` objects or, even without a limit, at a few megabytes (`pages.PAGE_BYTES`). It has at
        least one object, if there is any. `all_pages.whole` reads all pages.

        `after` is `Listing.next` of the previous page, with an equal `where`; raises Expired if it is too old.
        Raises BadRequest for a field that is not indexed.
        """

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        """Returns which of these exist, without reading them."""


class Reads(ObjectReader, Protocol):
    """One moment of a store: all pages of a listing show it, and none expires."""

    async def check(self, guard: Guard) -> None:
        """Runs a guard against this moment. The write that has this guard runs it again."""

    async def last_change(self, model: Ref) -> Revision | None:
        """Returns the newest entry of `Store.family_history`; None if the model never existed."""


class Store(ObjectReader, Protocol):
    def snapshot(self) -> AbstractAsyncContextManager[Reads]:
        """Opens a consistent view of one moment, unaffected by later writes. Keep it short."""

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """Assigns uid, generation 1, times and a resource version. Raises AlreadyExists."""

    async def update(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        """Writes metadata and spec, never status. Generation increases only if the spec changed.

        Raises NotFound, and Conflict unless `new.meta.resource_version` is the stored one (empty: no check). Removing
        the last finalizer of an object marked as deleted removes the object. A no-op returns the stored object.
        """

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        """Writes only status and the ownership of its fields; otherwise like `update`. Generation never changes.

        With `decision` (such as `promoted`), history also records the change, with the status before and after.
        """

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        """Marks as deleted, or removes at once if there are no finalizers (returns None). Idempotent while marked.

        Raises NotFound and, with `uid`, Conflict if the name now belongs to another object.
        """

    def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncIterator[Event]:
        """Yields every change after resource version `since`, in order, of one kind or (None) of all.

        Raises Expired if `since` is older than the kept events: list, then watch from there. With `quiet`, yields a
        BOOKMARK after that many seconds without a change, so that a watcher can resume there without a list.
        """

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        """Returns revisions, oldest first. Empty for an object that never existed."""

    async def family_history(
        self, model: Ref, *, limit: int | None = None, after: str | None = None
    ) -> tuple[tuple[Revision, ...], str | None]:
        """Returns a page of the history of a model and all objects that belong to it (`catalog.model_of`).

        Includes deleted objects, in write order, with the token for the next page. Pages end like those of `list`. The
        cost grows with the result, not with the size of the store.
        """

    def position(self, kind: str) -> str:
        """Returns the resource version of the last change of this kind; includes every acknowledged change.

        Costs nothing. For callers that cache all objects of a kind and must know whether the cache is current.
        """

    async def close(self) -> None: ...

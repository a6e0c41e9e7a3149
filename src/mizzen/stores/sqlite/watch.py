"""Watches of a SQLite store: every change after a version, in order, without gaps.

A watcher is a cursor. It reads pages of the events table or, when nearly up to date, of a short tail of the newest
events that all watchers share. So a slow watcher costs nothing but its cursor, which expires when compaction passes it.
Watchers of Revision read history instead, which is never compacted. Watchers of all kinds see neither Revisions nor
unrecorded kinds.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from itertools import islice

from mizzen.errors import BadRequest
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.sqlite import read_ops, revisions
from mizzen.stores.sqlite.read_ops import Page
from mizzen.stores.sqlite.reader_pool import Readers
from mizzen.stores.store import Event

PAGE = 256
TAIL = 256
TAIL_BYTES = 4 << 20
"""Maximum bytes of events in the tail, which stay in memory until newer ones arrive."""


class Feed:
    """Belongs to one event loop, so it needs no locks."""

    def __init__(self, readers: Readers, *, head: int, horizon: int, newest: dict[str, int]) -> None:
        self._readers = readers
        self._head = head
        self._horizon = horizon
        self._newest = newest
        self._oldest_known = horizon
        """Upper bound of the last change for kinds that are not in `newest`."""
        self._tail: deque[Event] = deque()
        self._tail_bytes = 0
        self._newest_recorded = head
        """Up to this version, watchers of all kinds may have something to read."""
        self._unseen = 0
        """Up to this version, a writer other than this store may have made changes of any kind."""
        self._waiting: dict[asyncio.Future[int], str | None] = {}
        self._closed = False

    def publish(self, events: Sequence[Event], horizon: int, recorded: int) -> None:
        """Announces committed events, in order and without gaps between them. Earlier missing ones are in the table.

        `recorded`: the version of the last of them with a history entry, or 0.
        """
        before = self._head
        first = _version(events[0])
        foreign = first != before + 1
        if foreign:
            self._cut(0)
            self._unseen = first - 1
        self._tail.extend(events)
        self._tail_bytes += sum(event.size for event in events)
        self._cut(TAIL)
        self._horizon = horizon
        self._head = _version(events[-1])
        changed = {event.resource.kind: _version(event) for event in events}
        if recorded:
            changed[revisions.KIND] = recorded
        self._newest.update(changed)
        is_recorded = bool(changed.keys() - catalog.UNRECORDED)
        if is_recorded:
            self._newest_recorded = self._head
        concerned = {
            waiter
            for waiter, kind in self._waiting.items()
            if foreign or (is_recorded if kind is None else kind in changed)
        }
        self._wake(concerned, before)

    async def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncGenerator[Event, None]:
        if not re.fullmatch(r"[0-9]{1,18}", since):
            raise BadRequest(f"{since!r} is not a valid resource version to watch from")
        # The first page comes from the table: only it knows whether `since` ever existed and is still kept.
        page = await self._from_table(kind, int(since))
        while True:
            cursor, left = page.upto, deque(page.events)
            del page  # do not hold these events in memory while a slow reader waits
            while left:
                if self._closed:
                    return
                yield left.popleft()
            while self._newest_of(kind) <= cursor and not self._closed:
                try:
                    async with asyncio.timeout(quiet):
                        cursor = max(cursor, await self._news(kind))
                    break
                except TimeoutError:
                    if self._newest_of(kind) <= cursor:  # otherwise a change came at the last moment
                        cursor = max(cursor, self._head)
                        yield Event("BOOKMARK", Resource(kind or "", Meta("", resource_version=str(cursor))))
            if self._closed:
                return
            page = await self._next(kind, cursor)

    def position(self, kind: str) -> str:
        return str(max(self._newest.get(kind, self._oldest_known), self._unseen))

    def close(self) -> None:
        """Ends every watch."""
        self._closed = True
        self._wake(set(self._waiting), self._head)

    async def _next(self, kind: str | None, cursor: int) -> Page:
        if self._newest_of(kind) <= cursor:
            # Nothing for this watcher, whatever else happened: compaction has not passed it.
            return Page((), max(cursor, self._head))
        if kind == revisions.KIND:
            return await self._from_table(kind, cursor)
        if cursor < self._horizon:
            raise read_ops.expiry_error(cursor)
        first = self._head - len(self._tail) + 1
        if cursor + 1 < first:
            return await self._from_table(kind, cursor)
        page: list[Event] = []
        size = 0
        for one in islice(self._tail, cursor + 1 - first, None):
            if not _concerns(kind, one):
                continue
            size += one.size
            if page and size > read_ops.EVENTS_BYTES:
                return Page(tuple(page), _version(page[-1]))
            page.append(one)
        return Page(tuple(page), self._head)

    def _cut(self, most: int) -> None:
        while len(self._tail) > most or self._tail_bytes > TAIL_BYTES:
            self._tail_bytes -= self._tail.popleft().size

    async def _from_table(self, kind: str | None, cursor: int) -> Page:
        return await self._readers.run(lambda connection: read_ops.events(connection, kind, cursor, PAGE))

    async def _news(self, kind: str | None) -> int:
        """Waits for a change of this kind. Returns a version up to which there was none.

        Without that version, changes of other kinds would expire a watcher of a quiet kind.
        """
        # There is no await between reading the newest version and waiting here, so no wake-up is missed.
        if self._closed:
            return self._head
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = kind
        try:
            return await waiter
        finally:
            del self._waiting[waiter]

    def _newest_of(self, kind: str | None) -> int:
        return max(self._newest_recorded if kind is None else self._newest.get(kind, 0), self._unseen)

    def _wake(self, waiters: set[asyncio.Future[int]], quiet_until: int) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(quiet_until)


def _concerns(kind: str | None, event: Event) -> bool:
    of = event.resource.kind
    return of not in catalog.UNRECORDED if kind is None else of == kind


def _version(event: Event) -> int:
    return int(event.resource.meta.resource_version)

"""The store of laptop and team server: one SQLite file, one writing thread, readers beside it.

Acknowledged means committed with `synchronous=FULL`: it survives kill -9 and power loss. A read that begins after an
acknowledgement sees that write. A store belongs to the event loop it was opened in, a file to one
store at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from pathlib import Path
from typing import Self

from mizzen.errors import Unavailable
from mizzen.kinds.meta import Ref, Resource
from mizzen.stores import reads, schema
from mizzen.stores.feed import Feed
from mizzen.stores.ledger import Ledger
from mizzen.stores.lock import Lock
from mizzen.stores.readers import Readers, Snapshot
from mizzen.stores.store import Event, Guard, Listing, Revision, Where
from mizzen.stores.writer import Writer


class SqliteStore:
    """Keeps the promises of `Store`; `open` makes one."""

    def __init__(self, lock: Lock, writer: Writer, readers: Readers, feed: Feed, point: sqlite3.Connection) -> None:
        self._lock = lock
        self._writer = writer
        self._readers = readers
        self._feed = feed
        self._point = point

    @classmethod
    async def open(
        cls, path: Path, *, clock: Callable[[], datetime], new_id: Callable[[], str], keep_events: int = 10_000
    ) -> Self:
        """Make the file if it is not there. Unavailable when it cannot be read; Conflict when it is not ours to write:
        another process has it, or it is something else.

        A watch can be taken up again as long as no more than `keep_events` changes were made since. `clock` and
        `new_id` are called in the writing thread.
        """
        if keep_events < 1:
            raise ValueError("keep_events must be at least 1")
        with contextlib.ExitStack() as undo:
            try:
                lock = await Lock.take(path)
                undo.callback(lock.release)
                connection = await asyncio.to_thread(schema.open_writer, path)
                undo.callback(connection.close)
                point = schema.open_reader(path)
                undo.callback(point.close)
                head, horizon = reads.position(point)
                newest = reads.newest(point)
            except (sqlite3.Error, OSError) as error:
                raise Unavailable(f"cannot open {path}: {error}") from error
            undo.pop_all()
        readers = Readers(path)
        feed = Feed(readers, head=head, horizon=horizon, newest=newest)
        ledger = Ledger(connection, clock=clock, new_id=new_id)
        writer = Writer(connection, ledger, keep_events=keep_events, publish=feed.publish)
        return cls(lock, writer, readers, feed, point)

    async def get(self, ref: Ref) -> Resource:
        # In the event loop itself: a look-up by key takes microseconds, a thread's turn ten times that.
        with reads.explained():
            return reads.get(self._point, ref)

    async def list(
        self, kind: str, where: Where = reads.EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        return await self._readers.run(lambda connection: reads.listing(connection, kind, where, limit, after))

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        return _given(await self._writer.write(lambda ledger: ledger.create(new, by, guard)))

    async def update(self, new: Resource, by: str) -> Resource:
        return _given(await self._writer.write(lambda ledger: ledger.update(new, by)))

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        return _given(await self._writer.write(lambda ledger: ledger.update_status(new, by, decision, guard)))

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        return await self._writer.write(lambda ledger: ledger.delete(ref, by, uid, guard))

    def watch(self, kind: str | None, since: str) -> AsyncGenerator[Event, None]:
        """As `Store.watch`; ends when the store is closed. Close it, or cancel its reader, to end it earlier."""
        return self._feed.watch(kind, since)

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        return await self._readers.run(lambda connection: reads.history(connection, ref))

    async def histories(self, kind: str, namespace: str, prefix: str = "") -> tuple[Revision, ...]:
        return await self._readers.run(lambda connection: reads.histories(connection, kind, namespace, prefix))

    def snapshot(self) -> contextlib.AbstractAsyncContextManager[Snapshot]:
        """`async with store.snapshot() as moment`: what is asked of `moment` agrees with each other."""
        return self._readers.snapshot()

    async def close(self) -> None:
        """Finish the writes that were asked for, end every watch. What is asked later is Unavailable."""
        self._feed.close()
        await self._writer.close()
        await self._readers.close()
        self._point.close()
        self._lock.release()


def _given(resource: Resource | None) -> Resource:
    assert resource is not None
    return resource

"""The store of laptop and team server: one SQLite file, one writer thread, and a pool of readers.

Identities, sealed secrets and the audit log are in the same file and use the same writer thread.

Acknowledged means committed with `synchronous=FULL`: it survives kill -9 and power loss. A read that begins after an
acknowledgment sees that write. A store belongs to the event loop it was opened in, a file to one store at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Self

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores.marks import verification, wal
from mizzen.stores.marks.checkpoint import StoreCheckpoint, StoreMark, path_of
from mizzen.stores.records import sqlite_identities
from mizzen.stores.records.sqlite_audit import SqliteAudit
from mizzen.stores.records.sqlite_identities import SqliteIdentities
from mizzen.stores.records.sqlite_secrets import SqliteSecrets
from mizzen.stores.sqlite import read_ops, revisions, schema
from mizzen.stores.sqlite.lock import Lock
from mizzen.stores.sqlite.reader_pool import Readers, Snapshot
from mizzen.stores.sqlite.watch import Feed
from mizzen.stores.sqlite.write_ops import WriteOperations, WriteResult
from mizzen.stores.sqlite.writer import Writer
from mizzen.stores.store import EVERYTHING, Event, Guard, Listing, Revision, Where

log = logging.getLogger(__name__)


class SqliteStore:
    """Implements `Store`; create one with `open`."""

    def __init__(
        self,
        path: Path,
        lock: Lock,
        connection: sqlite3.Connection,
        point: sqlite3.Connection,
        checkpoint: StoreCheckpoint,
        *,
        operations: WriteOperations,
        keep_events: int,
        room: Callable[[], None],
    ) -> None:
        """Takes over the lock, both connections and the checkpoint; `point` reads single objects. Raises
        sqlite3.Error."""
        head, horizon = read_ops.position(point)
        newest, known = read_ops.newest(point), sqlite_identities.load(point)
        self._path = path
        self._lock = lock
        self._checkpoint = checkpoint
        self._point = point
        self._ops = operations
        self._readers = Readers(path)
        self._feed = Feed(self._readers, head=head, horizon=horizon, newest=newest)
        self._writer = Writer(
            connection, operations,
            keep_events=keep_events, publish=self._feed.publish, room=room, note=checkpoint.note,
        )  # fmt: skip
        self.identities = SqliteIdentities(self._writer, known)
        self.secrets = SqliteSecrets(self._writer, self._readers)
        self.audit = SqliteAudit(self._writer, self._readers)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        keep_events: int = 10_000,
        room: Callable[[], None] = lambda: None,
    ) -> Self:
        """Opens the store; creates the file if absent.

        Raises Unavailable if the file cannot be read. Raises Conflict if another process has it, it is not a store, or
        it is damaged or behind its marks (see `stores/marks`); then nothing was changed.

        A watch can resume as long as at most `keep_events` changes were made since. `clock` and `new_id` are called in
        the writer thread. `room` raises if nothing may be added.
        """
        if keep_events < 1:
            raise ValueError("keep_events must be at least 1")
        with contextlib.ExitStack() as undo:
            try:
                lock = await Lock.take(path)
                undo.callback(lock.release)
                found = await asyncio.to_thread(verification.verify, path)
                for note in found.notes:
                    log.warning("%s", note)
                connection = await asyncio.to_thread(schema.open_writer, path)
                undo.callback(connection.close)
                point = schema.open_reader(path)
                undo.callback(point.close)
                mark = replace(read_ops.mark(point), held=found.held)
                checkpoint = await asyncio.to_thread(StoreCheckpoint, path_of(path), mark)
                undo.callback(checkpoint.close, clean=False)
                operations = WriteOperations(connection, clock=clock, new_id=new_id)
                store = cls(
                    path, lock, connection, point, checkpoint,
                    operations=operations, keep_events=keep_events, room=room,
                )  # fmt: skip
            except (sqlite3.Error, OSError) as error:
                raise Unavailable(f"cannot open {path}: {error}") from error
            undo.pop_all()
        return store

    async def get(self, ref: Ref) -> Resource:
        # In the event loop itself: a lookup by key takes microseconds, a thread switch ten times that.
        with read_ops.translate_errors():
            return read_ops.get(self._point, ref)

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        return await self._readers.run(lambda connection: read_ops.listing(connection, kind, where, limit, after))

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        return await self._readers.run(lambda connection: read_ops.among(connection, refs))

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        return _resource_of(await self._writer.write(lambda _: self._ops.create(new, by, guard), adds=True))

    async def update(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        return _resource_of(await self._writer.write(lambda _: self._ops.update(new, by, guard), adds=_adds(new)))

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        written = self._writer.write(lambda _: self._ops.update_status(new, by, decision, guard), adds=_adds(new))
        return _resource_of(await written)

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        return (await self._writer.write(lambda _: self._ops.delete(ref, by, uid, guard))).resource

    def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncGenerator[Event, None]:
        """Like `Store.watch`; ends when the store is closed. Close it, or cancel its reader, to end it earlier."""
        return self._feed.watch(kind, since, quiet=quiet)

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        return await self._readers.run(lambda connection: revisions.history(connection, ref))

    async def family_history(
        self, model: Ref, *, limit: int | None = None, after: str | None = None
    ) -> tuple[tuple[Revision, ...], str | None]:
        return await self._readers.run(lambda connection: revisions.family_history(connection, model, limit, after))

    async def namespaces(self) -> frozenset[str]:
        """Returns all namespaces that contain an object or a secret."""
        return await self._readers.run(read_ops.namespaces)

    async def tally(self) -> dict[str, int]:
        """Returns the number of objects per kind, for kinds that have any."""
        return await self._readers.run(read_ops.tally)

    def position(self, kind: str) -> str:
        return self._feed.position(kind)

    def snapshot(self) -> contextlib.AbstractAsyncContextManager[Snapshot]:
        """`async with store.snapshot() as moment`: all reads of `moment` are consistent."""
        return self._readers.snapshot()

    def mark(self) -> StoreMark:
        """Returns the store's id, and a position that is durable: what is derived from the store now has at least it.

        `held` says why files without a reference must be kept; empty: they may be collected."""
        return self._checkpoint.mark

    async def close(self) -> None:
        """Finishes pending writes and ends every watch. Later calls raise Unavailable."""
        self._feed.close()
        await self._writer.close()
        await self._readers.close()
        self._point.close()
        # The last connection has merged the log into the file, unless another process reads it right now.
        self._checkpoint.close(clean=not wal.has_frames(self._path))
        self._lock.release()


def _adds(new: Resource) -> bool:
    """Whether the write adds data. Not for objects being deleted, nor for Nodes, which must report status."""
    return not new.deleting and new.kind != "Node"


def _resource_of(outcome: WriteResult) -> Resource:
    assert outcome.resource is not None
    return outcome.resource

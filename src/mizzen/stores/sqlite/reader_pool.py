"""Threads and connections that read a SQLite store, so that a slow list blocks neither writes nor the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores.sqlite import read_ops, revisions, schema
from mizzen.stores.store import EVERYTHING, Guard, Listing, Revision, Where

THREADS = 8
"""More than a few actors can occupy with long lists (`server/flow_control`)."""

T = TypeVar("T")


class Readers:
    """A few threads and connections; each connection serves one reader at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mizzen-reader")
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        # Taken and returned in the thread, which continues if its caller is canceled.
        def call() -> T:
            connection = self._take()
            try:
                return read(connection)
            finally:
                self._give_back(connection)

        return await self.in_thread(call)

    async def in_thread(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("the store is closed")
        with read_ops.translate_errors():
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        if self._closed:
            raise Unavailable("the store is closed")
        with read_ops.translate_errors():  # here, not in a thread: without an await, a cancellation loses nothing
            snapshot = Snapshot(self, self._take())
        try:
            yield snapshot
        finally:
            # A canceled read may still run in its thread. The connection is returned after it, also in a thread.
            try:
                self._threads.submit(snapshot.end, self._give_back)
            except RuntimeError:  # closed meanwhile
                snapshot.end(self._give_back)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> sqlite3.Connection:
        try:  # several threads run this: checking first would be a race
            return self._idle.pop()
        except IndexError:
            return schema.open_reader(self._path)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._closed or len(self._idle) >= THREADS:
            connection.close()
        else:
            self._idle.append(connection)


class Snapshot:
    """A consistent view of the store at one moment, unaffected by later writes.

    Keep it short: SQLite cannot truncate the write-ahead log while a reader uses an old state.
    """

    def __init__(self, readers: Readers, connection: sqlite3.Connection) -> None:
        self._readers = readers
        self._connection = connection
        self._in_use = threading.Lock()
        connection.execute("BEGIN")
        read_ops.position(connection)  # the first read, not BEGIN, fixes the moment

    async def get(self, ref: Ref) -> Resource:
        return await self._read(lambda connection: read_ops.get(connection, ref))

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        return await self._read(lambda connection: read_ops.listing(connection, kind, where, limit, after))

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        return await self._read(lambda connection: read_ops.among(connection, refs))

    async def check(self, guard: Guard) -> None:
        await self._read(lambda connection: guard(read_ops.SqlitePresent(connection)))

    async def last_change(self, model: Ref) -> Revision | None:
        return await self._read(lambda connection: revisions.last_change(connection, model))

    def end(self, give_back: Callable[[sqlite3.Connection], None]) -> None:
        with self._in_use:
            read_ops.end(self._connection)
            give_back(self._connection)

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        def alone() -> T:
            with self._in_use:
                return read(self._connection)

        return await self._readers.in_thread(alone)

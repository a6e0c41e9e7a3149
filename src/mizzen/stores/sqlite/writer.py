"""The only writer thread. Writes that queue up during a transaction are committed together in the next one.

Each write has its own savepoint, so a rejected one does not affect the others. No caller gets a result before COMMIT
returned; if it fails, every caller in that transaction gets the error.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mizzen.errors import Unavailable
from mizzen.stores.sqlite.write_ops import WriteOperations, WriteResult
from mizzen.stores.store import Event

T = TypeVar("T")

BATCH = 256
"""Maximum writes in one transaction: bounds how long the first waits for the last."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    then: Callable[[Any], None] | None
    reply: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


class Writer:
    """Owns `connection`. Use it only from the event loop it was created in."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        operations: WriteOperations,
        *,
        keep_events: int,
        publish: Callable[[Sequence[Event], int, int], None],
        room: Callable[[], None] = lambda: None,
        note: Callable[[int, int], None] = lambda commits, rv: None,
    ) -> None:
        """`publish(events, horizon, recorded)` is called in the event loop per commit, before its callers get results.

        `recorded` is the version of the last change with a history entry, or 0. `room` raises if nothing may be added.
        `note(commits, resource_version)` is called in the writer thread after each commit, before its callers get
        results.
        """
        self._note = note
        self._connection = connection
        self._ops = operations
        self._keep_events = keep_events
        self._publish = publish
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mizzen-writer", daemon=True)
        self._thread.start()

    async def write(
        self,
        work: Callable[[sqlite3.Connection], T],
        then: Callable[[T], None] | None = None,
        *,
        adds: bool = False,
    ) -> T:
        """The write is durable when this returns. Canceling the caller does not undo it.

        `work` runs in the writer thread; if it raises, the write is rejected. `then` is called in the event loop with
        its result, in write order and before any caller gets a result: use it to update copies in memory. A write that
        `adds` is rejected while the disk is nearly full; the remaining space is for deletions and the audit log.
        """
        if self._closed:
            raise Unavailable("the store is closed")
        if adds:
            self._room()
        reply: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, then, reply))
        return await reply

    async def close(self) -> None:
        """Finishes pending writes, then stops."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while batch := self._next_batch():
            results, horizon = self._commit(batch)
            # The loop may have ended without closing the store; then no caller is left to notify.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, batch, results, horizon)
        self._connection.close()

    def _next_batch(self) -> list[_Job]:
        """Waits for a job and takes all others in the queue. An empty list means the end."""
        batch: list[_Job] = []
        while len(batch) < BATCH and not (batch and self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                if batch:
                    self._jobs.put(None)  # for the next round; nothing follows it
                break
            batch.append(job)
        return batch

    def _commit(self, batch: list[_Job]) -> tuple[list[object], int]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            before = self._connection.total_changes
            results = [self._attempt(job) for job in batch]
            changed = any(isinstance(result, WriteResult) and result.event for result in results)
            horizon = self._ops.compact(self._keep_events) if changed else 0
            reached = self._ops.count_commit() if self._connection.total_changes != before else None
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - callers must get any error, and the thread must continue
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the next BEGIN will report it
                    self._connection.execute("ROLLBACK")
            return [_Failed(_failure(error)) for _ in batch], 0
        if reached is not None:
            self._note(*reached)
        return results, horizon

    def _attempt(self, job: _Job) -> object:
        self._connection.execute("SAVEPOINT attempt")
        try:
            result: object = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:  # on a full disk SQLite rolls back the whole transaction
                raise
            self._connection.execute("ROLLBACK TO attempt")
            result = _Failed(_failure(error))
        self._connection.execute("RELEASE attempt")
        return result

    def _deliver(self, batch: list[_Job], results: list[object], horizon: int) -> None:
        outcomes = [result for result in results if isinstance(result, WriteResult)]
        events = [outcome.event for outcome in outcomes if outcome.event]
        if events:
            recorded = [int(one.event.resource.meta.resource_version) for one in outcomes if one.event and one.recorded]
            self._publish(events, horizon, max(recorded, default=0))
        done = [*zip(batch, results, strict=True)]
        for job, result in done:
            if job.then is not None and not isinstance(result, _Failed):
                job.then(result)
        for job, result in done:
            if job.reply.cancelled():
                continue
            if isinstance(result, _Failed):
                job.reply.set_exception(result.error)
            else:
                job.reply.set_result(result)


def _failure(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.Error):
        return error
    unavailable = Unavailable(f"the store cannot write: {error}", hint="check for a full disk or missing permissions")
    unavailable.__cause__ = error
    return unavailable

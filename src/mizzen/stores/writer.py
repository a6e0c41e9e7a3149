"""The one thread that writes. What queues up while a transaction runs is committed together in the next one.

Each write has its own savepoint, so a refused one leaves its neighbours alone. Nobody is answered before COMMIT
returned; when it fails, everybody in that transaction is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mizzen.errors import Unavailable
from mizzen.kinds.meta import Resource
from mizzen.stores.ledger import Ledger, Outcome
from mizzen.stores.store import Event

BATCH = 256
"""Most writes in one transaction: bounds how long the first of them waits for the last."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[Ledger], Outcome]
    reply: asyncio.Future[Resource | None]


class Writer:
    """Owns `connection` from here on. Used from the event loop it was made in."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        ledger: Ledger,
        *,
        keep_events: int,
        publish: Callable[[Sequence[Event], int], None],
    ) -> None:
        """`publish(events, horizon)` is called in the event loop for each commit, before its writers are answered."""
        self._connection = connection
        self._ledger = ledger
        self._keep_events = keep_events
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mizzen-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Ledger], Outcome]) -> Resource | None:
        """Done and durable when this returns. Cancelling the caller does not take the write back."""
        if self._closed:
            raise Unavailable("the store is closed")
        reply: asyncio.Future[Resource | None] = self._loop.create_future()
        self._jobs.put(_Job(work, reply))
        return await reply

    async def close(self) -> None:
        """Finish what was asked for, then stop."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while batch := self._next_batch():
            results, horizon = self._commit(batch)
            # The loop may have ended without closing the store; then nobody is left to be told.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, batch, results, horizon)
        self._connection.close()

    def _next_batch(self) -> list[_Job]:
        """Wait for a job and take what else is there. Empty: the end."""
        batch: list[_Job] = []
        while len(batch) < BATCH and not (batch and self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                if batch:
                    self._jobs.put(None)  # for the next round: nothing comes after it
                break
            batch.append(job)
        return batch

    def _commit(self, batch: list[_Job]) -> tuple[list[Outcome | Exception], int]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [self._attempt(job) for job in batch]
            changed = any(isinstance(result, Outcome) and result.event for result in results)
            horizon = self._ledger.compact(self._keep_events) if changed else 0
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it and the thread go on
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the next BEGIN will say so
                    self._connection.execute("ROLLBACK")
            return [_failure(error) for _ in batch], 0
        return results, horizon

    def _attempt(self, job: _Job) -> Outcome | Exception:
        self._connection.execute("SAVEPOINT attempt")
        try:
            result: Outcome | Exception = job.work(self._ledger)
        except Exception as error:
            if not self._connection.in_transaction:  # a full disk makes SQLite take the whole transaction back
                raise
            self._connection.execute("ROLLBACK TO attempt")
            result = _failure(error)
        self._connection.execute("RELEASE attempt")
        return result

    def _deliver(self, batch: list[_Job], results: list[Outcome | Exception], horizon: int) -> None:
        events = [result.event for result in results if isinstance(result, Outcome) and result.event]
        if events:
            self._publish(events, horizon)
        for job, result in zip(batch, results, strict=True):
            if job.reply.cancelled():
                continue
            if isinstance(result, Outcome):
                job.reply.set_result(result.resource)
            else:
                job.reply.set_exception(result)


def _failure(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.Error):
        return error
    unavailable = Unavailable(f"the store cannot write: {error}", hint="look for a full disk or missing permissions")
    unavailable.__cause__ = error
    return unavailable

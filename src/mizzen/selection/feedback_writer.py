"""Writes feedback to state.db. One thread per gateway writes; feedback that arrives meanwhile forms the next batch.

Feedback is acknowledged only after the commit and after the change marker was bumped (`change_marker.py`): from then on
every choice takes it into account. The marker is bumped even if the whole batch was known already. The first writer may
have been killed before it could bump the marker, and the repeated feedback is acknowledged as counted.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from mizzen.errors import Unavailable
from mizzen.selection import state_db
from mizzen.selection.change_marker import ChangeMarker
from mizzen.selection.state_db import FeedbackEntry, FeedbackOutcome

MAX_PENDING = 4096
"""Feedback entries that may wait; more are refused."""
MAX_BATCH = 256
"""Entries in one transaction: bounds how long other gateways wait for it."""
BUSY_TIMEOUT_SECONDS = 5.0
"""How long a transaction waits for other writers."""

Done = Callable[[FeedbackOutcome | Exception], None]


class _PendingFeedback(NamedTuple):
    feedback: FeedbackEntry
    done: Done


class FeedbackWriter:
    """Used from one event loop. The first feedback starts the thread and opens the file."""

    def __init__(
        self,
        path: Path,
        marker_path: Path,
        rng: Random,
        *,
        post: Callable[..., object],
        limit: int = MAX_PENDING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`post` is the loop's `call_soon_threadsafe`."""
        self._path = path
        self._marker_path = marker_path
        self._rng = rng
        self._post = post
        self._limit = limit
        self._clock = clock
        self._pending = 0
        """Submitted and not acknowledged yet. Only the event loop uses it."""
        self._closed = False
        self._jobs: queue.SimpleQueue[_PendingFeedback | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._marker: ChangeMarker | None = None

    def submit(self, feedback: FeedbackEntry, done: Done) -> None:
        """Queue feedback. `done` is called in the loop later: with the outcome once it is durable, or with Unavailable.

        Raises ValueError for an invalid reward, which would fail the whole batch.
        """
        _check(feedback)
        if self._closed:
            self._post(done, Unavailable("feedback is not accepted: this gateway is stopping"))
            return
        if self._pending >= self._limit:
            self._post(done, Unavailable("too much feedback is waiting to be written", hint="try again in a moment"))
            return
        self._pending += 1
        self._jobs.put(_PendingFeedback(feedback, done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mizzen-feedback", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Return when all submitted feedback is written or has failed; the loop calls `done` after that."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            results = self._write([job.feedback for job in batch])
            # The loop may have ended without closing the writer; then there is no caller to notify.
            with contextlib.suppress(RuntimeError):
                self._post(self._deliver, batch, results)
        self._close()

    def _next_batch(self) -> list[_PendingFeedback]:
        """Wait for feedback and take all that is queued. Empty: the writer is closed."""
        batch: list[_PendingFeedback] = []
        while len(batch) < MAX_BATCH and not (batch and self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                if batch:
                    self._jobs.put(None)  # for the next call: nothing follows it
                break
            batch.append(job)
        return batch

    def _deliver(self, batch: Sequence[_PendingFeedback], results: Sequence[FeedbackOutcome | Exception]) -> None:
        self._pending -= len(batch)
        for job, result in zip(batch, results, strict=True):
            job.done(result)

    def _write(self, batch: Sequence[FeedbackEntry]) -> Sequence[FeedbackOutcome | Exception]:
        until = self._clock() + BUSY_TIMEOUT_SECONDS
        while True:
            try:
                return self._write_once(batch)
            except (sqlite3.Error, OSError) as error:
                self._close()
                if not (isinstance(error, sqlite3.Error) and state_db.is_busy(error) and self._clock() < until):
                    return [_failure(error)] * len(batch)
            except Exception as error:  # noqa: BLE001 - callers must get any error, and the thread must survive
                return [error] * len(batch)
            time.sleep(0.005)  # SQLite may report a busy file without waiting

    def _write_once(self, batch: Sequence[FeedbackEntry]) -> Sequence[FeedbackOutcome]:
        # Before anything is written: a change that cannot be announced must not be acknowledged.
        if self._marker is None:
            self._marker = ChangeMarker(self._marker_path)
        if self._connection is None:
            self._connection = state_db.open_db(self._path)
        outcomes = state_db.record_feedback(self._connection, batch, self._rng)
        self._marker.bump()
        return outcomes

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _check(feedback: FeedbackEntry) -> None:
    numbers = [
        feedback.reward,
        *(n for score in feedback.scores for n in (score.reward, score.accuracy) if n is not None),
    ]
    if not all(0.0 <= number <= 1.0 for number in numbers):
        raise ValueError(f"rewards must be numbers from 0 to 1, not {numbers}")


def _failure(error: Exception) -> Unavailable:
    unavailable = Unavailable(
        f"feedback cannot be written: {error}",
        hint="check for a full disk or missing permissions; sending it again is safe",
    )
    unavailable.__cause__ = error
    return unavailable

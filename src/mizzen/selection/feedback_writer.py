"""Where feedback is handed in. One thread of each gateway writes it; what comes while it does is written together next.

Nobody is told before the commit, and before the word was changed by which all gateways see it (`word.py`): from then on
it is in every choice. The word is changed also when all of it was known already. Who wrote that first may have been
killed before they could change it, and whoever gives it again is told that it counts.
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
from mizzen.selection.change_marker import Word
from mizzen.selection.state_db import Given, Outcome

LIMIT = 4096
"""Feedbacks that wait; further ones are refused."""
BATCH = 256
"""Most in one transaction: bounds how long other gateways wait for it."""
PATIENCE_SECONDS = 5.0
"""How long a transaction waits for those of others."""

Done = Callable[[Outcome | Exception], None]


class _Job(NamedTuple):
    given: Given
    done: Done


class Desk:
    """Used from one event loop. The thread and the file begin with the first feedback."""

    def __init__(
        self,
        path: Path,
        word: Path,
        rng: Random,
        *,
        post: Callable[..., object],
        limit: int = LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`post` is the loop's `call_soon_threadsafe`."""
        self._path = path
        self._word_path = word
        self._rng = rng
        self._post = post
        self._limit = limit
        self._clock = clock
        self._waiting = 0
        """Known to the loop alone: given, and not told yet."""
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._word: Word | None = None

    def give(self, given: Given, done: Done) -> None:
        """`done` is called in the loop, later: with what became of it once that is durable, or with Unavailable.

        ValueError for a number that is none, which would fail whatever is written with it.
        """
        _check(given)
        if self._closed:
            self._post(done, Unavailable("feedback is not taken any more: this gateway stops"))
            return
        if self._waiting >= self._limit:
            self._post(done, Unavailable("more feedback waits to be written than may", hint="try again in a moment"))
            return
        self._waiting += 1
        self._jobs.put(_Job(given, done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mizzen-feedback", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Returns when all that was given is written, or failed; whoever gave it is told by the loop after that."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            results = self._written([job.given for job in batch])
            # The loop may have ended without closing the desk; then nobody is left to be told.
            with contextlib.suppress(RuntimeError):
                self._post(self._deliver, batch, results)
        self._close()

    def _next_batch(self) -> list[_Job]:
        """Waits for a feedback and takes what else is there. Empty: the end."""
        batch: list[_Job] = []
        while len(batch) < BATCH and not (batch and self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                if batch:
                    self._jobs.put(None)  # for the next round: nothing comes after it
                break
            batch.append(job)
        return batch

    def _deliver(self, batch: Sequence[_Job], results: Sequence[Outcome | Exception]) -> None:
        self._waiting -= len(batch)
        for job, result in zip(batch, results, strict=True):
            job.done(result)

    def _written(self, batch: Sequence[Given]) -> Sequence[Outcome | Exception]:
        until = self._clock() + PATIENCE_SECONDS
        while True:
            try:
                return self._take(batch)
            except (sqlite3.Error, OSError) as error:
                self._close()
                if not (isinstance(error, sqlite3.Error) and state_db.busy(error) and self._clock() < until):
                    return [_failure(error)] * len(batch)
            except Exception as error:  # noqa: BLE001 - whatever it is, they must hear of it and the thread go on
                return [error] * len(batch)
            time.sleep(0.005)  # some are told that the file is busy without having waited

    def _take(self, batch: Sequence[Given]) -> Sequence[Outcome]:
        # Before anything is written: what nobody can be told of must not be acknowledged.
        if self._word is None:
            self._word = Word(self._word_path)
        if self._connection is None:
            self._connection = state_db.opened(self._path)
        outcomes = state_db.take(self._connection, batch, self._rng)
        self._word.bump()
        return outcomes

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _check(given: Given) -> None:
    numbers = [given.reward, *(n for score in given.scores for n in (score.reward, score.accuracy) if n is not None)]
    if not all(0.0 <= number <= 1.0 for number in numbers):
        raise ValueError(f"rewards must be numbers from 0 to 1, not {numbers}")


def _failure(error: Exception) -> Unavailable:
    unavailable = Unavailable(
        f"feedback cannot be written: {error}",
        hint="look for a full disk or missing permissions; giving it again is safe",
    )
    unavailable.__cause__ = error
    return unavailable

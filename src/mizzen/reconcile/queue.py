"""A queue of keys to look at.

A key says *look at this object*, never what happened to it, so one entry stands for any number of changes.

- A key is in the hands of one worker at a time; added meanwhile, it runs again afterwards.
- No key is lost: after every `add` there is a `take` that begins later.
- First come, first served. A key that runs again goes to the end.
- There are two rows: keys that somebody waits for, and behind them those that are merely due, such as all at a start.
  While both have keys, their turns alternate: neither row can hold up the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mizzen.kinds.schema.resource import Ref

SHORTEST_DELAY = 0.05
LONGEST_DELAY = 30.0


class Scheduled(Protocol):
    def cancel(self) -> None: ...


class Timer(Protocol):
    """What the queue asks of time. An asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Scheduled: ...


class LoopTimer:
    """The time of whichever event loop runs when it is asked for, so that a queue can be made before one does."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], None]) -> Scheduled:
        return asyncio.get_running_loop().call_at(when, callback)


class KeyedQueue:
    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._front: deque[Ref] = deque()
        self._behind: deque[Ref] = deque()
        self._queued: dict[Ref, deque[Ref]] = {}
        """The row that each key waits in. One that was moved up is left in the other row, and passed over there."""
        self._waiting = asyncio.Semaphore(0)
        """Counts `queued`."""
        self._front_is_next = True
        self._working: set[Ref] = set()
        self._again: set[Ref] = set()
        self._later: dict[Ref, tuple[float, Scheduled]] = {}
        self._failures: dict[Ref, int] = {}

    def __len__(self) -> int:
        """Keys that wait for a worker, in either row; not those that are due later."""
        return len(self._queued)

    @property
    def failing(self) -> int:
        """Keys whose last look failed."""
        return len(self._failures)

    def add(self, key: Ref) -> None:
        """Look at the key as soon as a worker is free."""
        if key in self._working:
            self._again.add(key)
        elif self._queued.get(key) is not self._front:
            self._enter(key, self._front)

    def add_behind(self, key: Ref) -> None:
        """Look at the key when those that were added are done, or at every second turn."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._enter(key, self._behind)

    def add_after(self, key: Ref, seconds: float) -> None:
        """Look at the key then. Of several times asked for, the earliest wins."""
        when = self._timer.time() + seconds
        planned = self._later.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._later[key] = (when, self._timer.call_at(when, lambda: self._due(key)))

    def retry(self, key: Ref) -> float:
        """Look at the key again after a failure, later each time until `forget`. Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # The exponent is bounded too: an object that fails for days must not overflow a float.
        delay = min(SHORTEST_DELAY * 2.0 ** min(failures, 16), LONGEST_DELAY)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Ref) -> None:
        """The key is well: the next failure starts with the shortest delay."""
        self._failures.pop(key, None)

    async def take(self) -> Ref:
        """The next key, held by the caller until `done`."""
        await self._waiting.acquire()
        key = self._first()
        del self._queued[key]
        self._working.add(key)
        return key

    def done(self, key: Ref) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _enter(self, key: Ref, row: deque[Ref]) -> None:
        if key not in self._queued:
            self._waiting.release()
        self._queued[key] = row
        row.append(key)

    def _first(self) -> Ref:
        while True:
            row = self._front if self._front and (self._front_is_next or not self._behind) else self._behind
            key = row.popleft()
            if self._queued.get(key) is row:
                self._front_is_next = row is self._behind
                return key

    def _due(self, key: Ref) -> None:
        del self._later[key]
        self.add(key)

"""The queue of keys to reconcile.

A key names an object, not a change, so one entry stands for any number of changes.

- One worker at a time processes a key; if it is added meanwhile, it runs again afterwards.
- No key is lost: after every `add` there is a later `take`.
- First come, first served. A key that runs again goes to the end.
- There are two queues: keys of changed objects, and low-priority keys that are only due, such as all keys at a start.
  While both have keys, they alternate, so neither can block the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mizzen.kinds.schema.resource import Ref

SHORTEST_DELAY = 0.05
LONGEST_DELAY = 30.0


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Timer(Protocol):
    """The timer functions that the queue needs. An asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle: ...


class LoopTimer:
    """The timer of the event loop that runs at the call, so that a queue can be created before the loop."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle:
        return asyncio.get_running_loop().call_at(when, callback)


class KeyedQueue:
    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._front: deque[Ref] = deque()
        self._low: deque[Ref] = deque()
        self._queued: dict[Ref, deque[Ref]] = {}
        """The deque that each key waits in. A key that was moved up stays in the other deque and is skipped there."""
        self._waiting = asyncio.Semaphore(0)
        """Counts `_queued`."""
        self._front_is_next = True
        self._working: set[Ref] = set()
        self._again: set[Ref] = set()
        self._later: dict[Ref, tuple[float, TimerHandle]] = {}
        self._failures: dict[Ref, int] = {}

    def __len__(self) -> int:
        """Keys that wait for a worker, without those that are due later."""
        return len(self._queued)

    @property
    def failing(self) -> int:
        """Keys whose last reconciliation failed."""
        return len(self._failures)

    def add(self, key: Ref) -> None:
        """Process the key as soon as a worker is free."""
        if key in self._working:
            self._again.add(key)
        elif self._queued.get(key) is not self._front:
            self._enqueue(key, self._front)

    def add_low_priority(self, key: Ref) -> None:
        """Process the key after those that were added, or in alternation with them."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._queued:
            self._enqueue(key, self._low)

    def add_after(self, key: Ref, seconds: float) -> None:
        """Process the key then. Of several requested times, the earliest wins."""
        when = self._timer.time() + seconds
        planned = self._later.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._later[key] = (when, self._timer.call_at(when, lambda: self._on_due(key)))

    def retry(self, key: Ref) -> float:
        """Process the key again after a failure, with growing delays until `forget`. Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # The exponent is bounded, too: an object that fails for days must not overflow a float.
        delay = min(SHORTEST_DELAY * 2.0 ** min(failures, 16), LONGEST_DELAY)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Ref) -> None:
        """The key has succeeded: the next failure starts with the shortest delay."""
        self._failures.pop(key, None)

    async def take(self) -> Ref:
        """The next key, held by the caller until `done`."""
        await self._waiting.acquire()
        key = self._pop()
        del self._queued[key]
        self._working.add(key)
        return key

    def done(self, key: Ref) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _enqueue(self, key: Ref, row: deque[Ref]) -> None:
        if key not in self._queued:
            self._waiting.release()
        self._queued[key] = row
        row.append(key)

    def _pop(self) -> Ref:
        while True:
            row = self._front if self._front and (self._front_is_next or not self._low) else self._low
            key = row.popleft()
            if self._queued.get(key) is row:
                self._front_is_next = row is self._low
                return key

    def _on_due(self, key: Ref) -> None:
        del self._later[key]
        self.add(key)

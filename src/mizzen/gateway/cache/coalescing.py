"""One model call that several requests wait for.

To the queue it is an ordinary call. It continues when the request that began it is cancelled or expires, as long as
another one waits. Each request keeps its own deadline: `expire` ends requests whose deadline is earlier than that of
the call; the owner of coalesced calls must call it.

All requests get the same result, errors included, because they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mizzen.gateway.queueing.call import LATE, OK, Call

SHARED = b"mizzen-cache: shared\r\n"


class CoalescedWaiters:
    """State shared by all coalesced calls of one server."""

    __slots__ = ("early", "followers", "forget")

    def __init__(self, forget: Callable[[CoalescedCall], None]) -> None:
        """`forget` is called for a call without waiting requests, which no queue reports."""
        self.forget = forget
        self.followers = 0
        """Requests that wait for another request's call. Cancelled ones count until they are dropped."""
        self.early: set[CoalescedCall] = set()
        """Calls with a waiting request whose deadline is earlier than the call's."""


class CoalescedCall(Call):
    __slots__ = ("_callers", "_first", "_on_end", "_waiters", "due", "epoch", "key")

    def __init__(
        self,
        key: bytes,
        epoch: int,
        first: Call,
        on_end: Callable[[CoalescedCall, int, bytes], None],
        waiters: CoalescedWaiters,
    ) -> None:
        """`on_end` is called with the result before any request is. `epoch`: the current epoch of the queue."""
        self.key = key
        self.epoch = epoch
        self._callers = [first]
        self._first = first
        self._on_end = on_end
        self._waiters = waiters
        self.item: Any = first.item
        self.id = first.id
        self.head = first.head
        self.size = first.size
        self.began = first.began
        self.deadline = self.due = first.deadline
        """`due`: the earliest deadline of the waiting requests, or earlier."""
        self.retry_alone = first.retry_alone

    @property
    def pending(self) -> bool:  # type: ignore[override]
        """Once False, it stays False: the call may have been left out of a batch because of it."""
        callers = self._callers
        if callers and not callers[-1].pending:
            while callers and not callers[-1].pending:  # each caller is checked once and dropped
                callers.pop()
                self._waiters.followers -= bool(callers)
            if not callers:
                self._waiters.forget(self)
        return bool(callers)

    def join(self, caller: Call) -> None:
        """Must only be called while the call is live."""
        caller.item = None  # equal to ours
        self._callers.append(caller)
        self._waiters.followers += 1
        if caller.deadline < self.due:
            self.due = caller.deadline
            self._waiters.early.add(self)

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if lacking == LATE and self.deadline <= now:
            self.expire(code, payload, now, retry)
            if self.pending:
                self.deadline = max(caller.deadline for caller in self.waiters())
                if self.due < self.deadline:
                    self._waiters.early.add(self)
                return
        callers = self._callers
        self._set_callers([])
        self._on_end(self, code, payload)
        for caller in callers:
            if not caller.pending:
                continue
            caller.item = self.item
            if code == OK and caller is not self._first:
                caller.finish_from_cache(payload, now, SHARED)
            else:
                caller.finish(code, payload, now, retry, lacking=lacking)

    def on_late_answer(self, code: int, payload: bytes) -> None:
        self._on_end(self, code, payload)

    def expire(self, code: int, text: bytes, now: float, retry: int = 1) -> int:
        """Ends the requests whose deadline has passed; returns how many."""
        late = self.take_expired(now)
        for caller in late:
            caller.finish(code, text, now, retry, lacking=LATE)
        return len(late)

    def take_expired(self, now: float) -> list[Call]:
        """Removes and returns the requests whose deadline has passed; also drops cancelled ones."""
        callers = self.waiters()
        late = [caller for caller in callers if caller.deadline <= now]
        for caller in late:
            caller.item = self.item
            caller.retry_alone = self.retry_alone
        self._set_callers([caller for caller in callers if caller.deadline > now])
        self.due = min((caller.deadline for caller in self._callers), default=math.inf)
        return late

    def drop_cancelled(self) -> None:
        self._set_callers(self.waiters())

    def waiters(self) -> list[Call]:
        return [caller for caller in self._callers if caller.pending]

    def detach(self, caller: Call) -> None:
        caller.item = self.item
        caller.retry_alone = self.retry_alone
        self._callers.remove(caller)
        self._waiters.followers -= bool(self._callers)
        if not self._callers:
            self._waiters.forget(self)

    def _set_callers(self, callers: list[Call]) -> None:
        """Replaces the waiting requests by these."""
        self._waiters.followers += max(len(callers) - 1, 0) - max(len(self._callers) - 1, 0)
        self._callers = callers
        if not callers:
            self._waiters.forget(self)

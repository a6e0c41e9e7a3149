"""One call of the model that several wait for.

To the queue it is a call like any other. It goes on when the caller who began it leaves, or runs out of time, as long
as anybody else waits. Each caller ends in its own time: those whose deadline comes before that of the call are ended by
`expire`, which whoever holds shared calls sees to.

What it comes to is the same for all, errors included: the model was asked what they all ask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mizzen.gateway.inference.calls import LATE, OK, Call

SHARED = b"mizzen-cache: shared\r\n"


class Crowd:
    """What is known of all shared calls of one server."""

    __slots__ = ("early", "followers", "forget")

    def __init__(self, forget: Callable[[Shared], None]) -> None:
        """`forget` is called for a call that nobody waits for any more: of that no queue tells."""
        self.forget = forget
        self.followers = 0
        """Requests that wait for the call of another one. Those that have left count until somebody looks."""
        self.early: set[Shared] = set()
        """Calls that somebody waits for who has less time than the call."""


class Shared(Call):
    __slots__ = ("_callers", "_crowd", "_ended", "_first", "due", "era", "key")

    def __init__(
        self, key: bytes, era: int, first: Call, ended: Callable[[Shared, int, bytes], None], crowd: Crowd
    ) -> None:
        """`ended` is told how it ended, before anybody else is. `era`: of the queue, as it is now."""
        self.key = key
        self.era = era
        self._callers = [first]
        self._first = first
        self._ended = ended
        self._crowd = crowd
        self.item: Any = first.item
        self.id = first.id
        self.options = first.options
        self.size = first.size
        self.began = first.began
        self.deadline = self.due = first.deadline
        """`due`: when the first of those who wait is out of time, or before."""
        self.alone = first.alone

    @property
    def live(self) -> bool:  # type: ignore[override]
        """Once nobody waits, nobody will: it may have been left out of a batch for that."""
        callers = self._callers
        if callers and not callers[-1].live:
            while callers and not callers[-1].live:  # each is passed once: it is not looked at again
                callers.pop()
                self._crowd.followers -= bool(callers)
            if not callers:
                self._crowd.forget(self)
        return bool(callers)

    def join(self, caller: Call) -> None:
        """Only while it is live."""
        caller.item = None  # ours is the same
        self._callers.append(caller)
        self._crowd.followers += 1
        if caller.deadline < self.due:
            self.due = caller.deadline
            self._crowd.early.add(self)

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if lacking == LATE and self.deadline <= now:
            self.expire(code, payload, now, retry)
            if self.live:
                self.deadline = max(caller.deadline for caller in self.parties())
                if self.due < self.deadline:
                    self._crowd.early.add(self)
                return
        callers = self._callers
        self._left([])
        self._ended(self, code, payload)
        for caller in callers:
            if not caller.live:
                continue
            caller.item = self.item
            if code == OK and caller is not self._first:
                caller.found(payload, now, SHARED)
            else:
                caller.settle(code, payload, now, retry, lacking=lacking)

    def missed(self, code: int, payload: bytes) -> None:
        self._ended(self, code, payload)

    def expire(self, code: int, text: bytes, now: float, retry: int = 1) -> int:
        """End those who are out of time; returns how many."""
        late = self.take_late(now)
        for caller in late:
            caller.settle(code, text, now, retry, lacking=LATE)
        return len(late)

    def take_late(self, now: float) -> list[Call]:
        """Those who are out of time wait for it no more, nor do those who have gone."""
        callers = self.parties()
        late = [caller for caller in callers if caller.deadline <= now]
        for caller in late:
            caller.item = self.item
            caller.alone = self.alone
        self._left([caller for caller in callers if caller.deadline > now])
        self.due = min((caller.deadline for caller in self._callers), default=math.inf)
        return late

    def drop_dead(self) -> None:
        self._left(self.parties())

    def parties(self) -> list[Call]:
        return [caller for caller in self._callers if caller.live]

    def let_go(self, caller: Call) -> None:
        caller.item = self.item
        caller.alone = self.alone
        self._callers.remove(caller)
        self._crowd.followers -= bool(self._callers)
        if not self._callers:
            self._crowd.forget(self)

    def _left(self, callers: list[Call]) -> None:
        """These wait on."""
        self._crowd.followers += max(len(callers) - 1, 0) - max(len(self._callers) - 1, 0)
        self._callers = callers
        if not callers:
            self._crowd.forget(self)

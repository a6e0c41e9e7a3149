"""One call of the model that several wait for.

To the queue it is a call like any other. It goes on when the caller who began it leaves, or runs out of time, as long
as anybody else waits. Each caller ends in its own time: those whose deadline comes before that of the call are ended by
`expire`, which whoever holds shared calls sees to.

What it comes to is the same for all, errors included: the model was asked what they all ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mizzen.gateway.calls import LATE, OK, Call

SHARED = b"mizzen-cache: shared\r\n"


class Shared(Call):
    __slots__ = ("_callers", "_ended", "_first", "era", "key")

    def __init__(self, key: bytes, era: int, first: Call, ended: Callable[[Shared, int, bytes], None]) -> None:
        """`ended` is told how it ended, before anybody else is. `era`: of the queue, as it is now."""
        self.key = key
        self.era = era
        self._callers = [first]
        self._first = first
        self._ended = ended
        self.item: Any = first.item
        self.id = first.id
        self.options = first.options
        self.size = first.size
        self.began = first.began
        self.deadline = first.deadline
        self.alone = first.alone

    @property
    def live(self) -> bool:  # type: ignore[override]
        """Once nobody waits, nobody will: it may have been left out of a batch for that."""
        return any(caller.live for caller in self._callers)

    def join(self, caller: Call) -> None:
        """Only while it is live."""
        caller.item = None  # ours is the same
        self._callers.append(caller)

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if lacking == LATE and self.deadline <= now:
            self.expire(code, payload, now, retry)
            if self.live:
                self.deadline = max(caller.deadline for caller in self.parties())
                return
        callers, self._callers = self._callers, []
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
        late = [caller for caller in self._callers if caller.live and caller.deadline <= now]
        for caller in late:
            caller.item = self.item
            caller.settle(code, text, now, retry, lacking=LATE)
        if late:
            self._callers = [caller for caller in self._callers if caller.live]
        return len(late)

    def parties(self) -> Sequence[Call]:
        return [caller for caller in self._callers if caller.live]

    def let_go(self, caller: Call) -> None:
        caller.item = self.item
        caller.alone = self.alone
        self._callers.remove(caller)

    def cancel(self, now: float) -> None:
        for caller in self._callers:
            caller.cancel(now)

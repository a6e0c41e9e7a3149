"""Waiting calls, earliest deadline first; calls with equal deadlines in order of arrival.

Deadlines of one name nearly always grow with arrival. So a new call is compared with the last one and usually appended.
Only a call that is more urgent than the last one needs a binary search.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from operator import attrgetter

from mizzen.gateway.queueing.call import Call

_deadline = attrgetter("deadline")


class DeadlineLane(deque[Call]):
    """`put` keeps the order and `bytes`; callers that append directly must do both."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        """The total size of all calls."""

    def put(self, call: Call) -> None:
        if not self or self[-1].deadline <= call.deadline:
            self.append(call)
        else:
            self.insert(bisect_right(self, call.deadline, key=_deadline), call)
        self.bytes += call.size

    def requeue(self, calls: list[Call]) -> None:
        """Put back calls that were taken, in their order: they come before other calls with the same deadline."""
        for call in reversed(calls):
            self.insert(bisect_left(self, call.deadline, key=_deadline), call)
            self.bytes += call.size

    def before(self, deadline: float) -> int:
        """How many calls would be served before a new call with this deadline."""
        if not self or self[-1].deadline <= deadline:
            return len(self)
        return bisect_right(self, deadline, key=_deadline)

    def take(self, room: int, most_bytes: int, now: float) -> tuple[list[Call], list[Call]]:
        """Remove and return the next batch, and the expired calls before it.

        A batch has pending calls only. It has more than one only within `room` and `most_bytes`, and a call with
        `retry_alone` has no other next to it. If the batch is empty, so is the lane.
        """
        batch: list[Call] = []
        expired: list[Call] = []
        size = 0
        while self and room:
            call = self[0]
            if call.pending and call.deadline > now:
                size += call.size
                if batch and (call.retry_alone or size > most_bytes):
                    size -= call.size
                    break
                batch.append(call)
                room = 0 if call.retry_alone else room - 1
            else:
                self.bytes -= call.size
                if call.pending:
                    expired.append(call)
            self.popleft()
        self.bytes -= size
        return batch, expired

    def take_expired(self, now: float) -> list[Call]:
        """Remove the expired calls, and return those that are still pending."""
        expired = []
        while self and self[0].deadline <= now:
            call = self.popleft()
            self.bytes -= call.size
            if call.pending:
                expired.append(call)
        return expired

    def drop_dead(self) -> None:
        """Remove the calls that are no longer pending."""
        living = [call for call in self if call.pending]
        self.clear()
        self.extend(living)
        self.bytes = sum(call.size for call in living)

    def take_all(self) -> list[Call]:
        """Empty the lane, and return the pending calls."""
        living = [call for call in self if call.pending]
        self.clear()
        self.bytes = 0
        return living

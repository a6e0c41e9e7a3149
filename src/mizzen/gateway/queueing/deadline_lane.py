"""Calls that wait, earliest deadline first; those of equal deadlines in the order they came.

Deadlines of one name nearly always grow with arrival, so the order is kept by looking at the last call: an append stays
an append. Only a call that is more urgent than the last one has its place searched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from operator import attrgetter

from mizzen.gateway.inference.calls import Call

_deadline = attrgetter("deadline")


class Lane(deque[Call]):
    """Whoever appends sees to the order, and to `bytes`; `put` does both."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        """Of all calls in it."""

    def put(self, call: Call) -> None:
        if not self or self[-1].deadline <= call.deadline:
            self.append(call)
        else:
            self.insert(bisect_right(self, call.deadline, key=_deadline), call)
        self.bytes += call.size

    def put_back(self, calls: list[Call]) -> None:
        """Calls that were here before, in their order: they come before others of their deadline."""
        for call in reversed(calls):
            self.insert(bisect_left(self, call.deadline, key=_deadline), call)
            self.bytes += call.size

    def before(self, deadline: float) -> int:
        """How many are served before a new call of this deadline."""
        if not self or self[-1].deadline <= deadline:
            return len(self)
        return bisect_right(self, deadline, key=_deadline)

    def take(self, room: int, most_bytes: int, now: float) -> tuple[list[Call], list[Call]]:
        """Takes out the next batch, and returns it beside those that were before it and over their time.

        In a batch are calls that somebody waits for; more than one only within `room` and `most_bytes`, and none beside
        one that is to be alone. Without any, nothing is left.
        """
        batch: list[Call] = []
        expired: list[Call] = []
        size = 0
        while self and room:
            call = self[0]
            if call.live and call.deadline > now:
                size += call.size
                if batch and (call.alone or size > most_bytes):
                    size -= call.size
                    break
                batch.append(call)
                room = 0 if call.alone else room - 1
            else:
                self.bytes -= call.size
                if call.live:
                    expired.append(call)
            self.popleft()
        self.bytes -= size
        return batch, expired

    def take_expired(self, now: float) -> list[Call]:
        """Takes out those whose time is over, and returns those of them that somebody waits for."""
        expired = []
        while self and self[0].deadline <= now:
            call = self.popleft()
            self.bytes -= call.size
            if call.live:
                expired.append(call)
        return expired

    def drop_dead(self) -> None:
        """Takes out those that nobody waits for."""
        living = [call for call in self if call.live]
        self.clear()
        self.extend(living)
        self.bytes = sum(call.size for call in living)

    def take_all(self) -> list[Call]:
        """Empties it, and returns those that somebody waits for."""
        living = [call for call in self if call.live]
        self.clear()
        self.bytes = 0
        return living

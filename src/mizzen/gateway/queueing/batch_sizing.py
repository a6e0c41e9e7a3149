"""How fast batches are answered, as seen of late, and what follows from it. No clock: times are handed in."""

from __future__ import annotations

from collections import deque

KNOWN = 8
"""Batches it takes to speak of a pace at all."""
REMEMBERED = 32
BUDGET = 0.4
"""Of a deadline, for a batch in the model. A call waits for the batch before its own, in the worst case all of it; the
rest is for the way and for what varies."""


class Pace:
    """The batches that were answered last: how long each was out."""

    __slots__ = ("_recent", "usual")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=REMEMBERED)
        self.usual = 0.0

    def note(self, seconds: float) -> None:
        recent = self._recent
        self.usual = self.usual * 0.875 + seconds * 0.125 if recent else seconds
        recent.append(seconds)

    @property
    def known(self) -> bool:
        return len(self._recent) >= KNOWN

    @property
    def slowest(self) -> float:
        return max(self._recent, default=0.0)

    @property
    def quickest(self) -> float:
        """0 when too little is known to say."""
        return min(self._recent) if self.known else 0.0


def next_room(room: int, most: int, items: int, seconds: float, budget: float) -> int:
    """How many calls the next batch may have, after one of `items` that took the model `seconds`.

    After a full batch twice as many, where that stays within the budget even if each call costs the same, else one
    more; a tenth less when it was over the budget (AIMD, with a quick start). What the model takes is told by the
    runtime: the way there and back, and the queue, would count a busy machine as a slow model, and smaller batches make
    a long queue longer.
    """
    if seconds > budget:
        return max(1, room * 9 // 10) if items > room // 2 else room
    if items < room:
        return room
    return min(most, 2 * room if 2 * seconds <= budget else room + 1)

"""Whose turn it is, where small and large calls wait for the same replicas.

A large call keeps a replica busy for as long as many small ones do, and copying it holds up the loop. So large calls
have a lane of their own. While small calls are about,

- a large one goes by itself, and one replica at least works on none, where there are several;
- on a replica that both share, small calls have `SHARE` times the time that the last large one took before the next
  large one has its turn; or less, when none of them comes.

So small calls wait for one large call at most, and large ones for a bounded time; one whose deadline is near goes
first.
Where no small calls are about, large ones have all replicas, and share batches as small ones do.
"""

from __future__ import annotations

import math

from mizzen.gateway.queueing.batch_sizing import Pace
from mizzen.gateway.queueing.deadline_lane import Lane
from mizzen.protocol.frames import framing

LARGE_BYTES = framing.LARGE
"""A call of more is large."""
SHARE = 4
ABOUT_SECONDS = 1.0
"""Small calls are about for so long after one was sent or answered."""
GAP_SECONDS = 0.002
"""How long a replica is kept for the next small calls after it answered some: those who got an answer ask again."""


class Turns:
    def __init__(self) -> None:
        self.small = Lane()
        self.large = Lane()
        self._small_pace = Pace()
        self._large_pace = Pace()
        self._large_out = 0
        """Replicas that work on large calls."""
        self._small_sent = self._small_ended = -math.inf
        self._owed = 0.0
        """Seconds of work on small calls that come before the next large one."""

    def pace(self, lane: Lane) -> Pace:
        return self._large_pace if lane is self.large else self._small_pace

    def mixed(self, now: float) -> bool:
        """Are small calls about?"""
        return bool(self.small) or now - max(self._small_sent, self._small_ended) < ABOUT_SECONDS

    def next(self, replicas: int, now: float) -> tuple[Lane | None, float]:
        """Where the next batch of a free replica is taken from, when large calls wait.

        None: it is kept free until this time, or until a batch is answered.
        """
        mixed = self.mixed(now)
        if mixed and replicas > 1 and self._large_out >= replicas - 1:
            return self.small or None, math.inf
        if mixed and self._owed > 0 and not self._is_urgent(now):
            if self.small:
                return self.small, now
            if replicas == 1 and now < self._small_ended + GAP_SECONDS:
                return None, self._small_ended + GAP_SECONDS
        return self.large, now

    def sent(self, lane: Lane, now: float) -> None:
        if lane is self.small:
            self._small_sent = now
        else:
            self._large_out += 1

    def ended(self, lane: Lane, seconds: float, now: float) -> None:
        """A batch was answered, after so many seconds."""
        if lane is self.small:
            self._small_pace.note(seconds)
            self._small_ended = now
            self._owed -= seconds
        else:
            self._large_pace.note(seconds)
            self._large_out -= 1
            self._owed = SHARE * seconds

    def gone(self, lane: Lane) -> None:
        """A replica was lost with a batch."""
        if lane is self.large:
            self._large_out -= 1

    def _is_urgent(self, now: float) -> bool:
        return self.large[0].deadline - now < 2 * self._large_pace.slowest

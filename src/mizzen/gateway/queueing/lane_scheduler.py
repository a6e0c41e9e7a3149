"""Scheduling of small and large calls that wait for the same replicas.

A large call keeps a replica busy as long as many small ones do, and copying it blocks the event loop. So large calls
have a lane of their own. While traffic is mixed, that is, small calls come in too:

- a large call gets a batch of its own, and of several replicas at least one works on no large call;
- on a shared replica, small calls get `SMALL_CALLS_SHARE` times the time of the last large call before the next large
  call is sent. They get less if no small call comes.

So a small call waits for at most one large call, and a large call waits for a bounded time. A large call whose deadline
is near goes first. Without small calls, large calls use all replicas and share batches as small calls do.
"""

from __future__ import annotations

import math

from mizzen.gateway.queueing.batch_sizing import ServiceTimes
from mizzen.gateway.queueing.deadline_lane import DeadlineLane
from mizzen.protocol.frames import framing

LARGE_BYTES = framing.LARGE
"""Calls above this size are large."""
SMALL_CALLS_SHARE = 4
MIXED_SECONDS = 1.0
"""Traffic counts as mixed for this long after a small call was sent or answered."""
GAP_SECONDS = 0.002
"""How long a replica is reserved for small calls after it answered some: their callers often send the next request."""


class LaneScheduler:
    def __init__(self) -> None:
        self.small = DeadlineLane()
        self.large = DeadlineLane()
        self._small_times = ServiceTimes()
        self._large_times = ServiceTimes()
        self._large_out = 0
        """The number of replicas that work on large calls."""
        self._small_sent = self._small_ended = -math.inf
        self._owed = 0.0
        """Seconds of work on small calls that are due before the next large call."""

    def service_times(self, lane: DeadlineLane) -> ServiceTimes:
        return self._large_times if lane is self.large else self._small_times

    def is_mixed(self, now: float) -> bool:
        """Whether small calls came recently."""
        return bool(self.small) or now - max(self._small_sent, self._small_ended) < MIXED_SECONDS

    def next(self, replicas: int, now: float) -> tuple[DeadlineLane | None, float]:
        """The lane from which a free replica takes its next batch, when large calls wait.

        None: the replica stays free until the returned time, or until a batch is answered.
        """
        mixed = self.is_mixed(now)
        if mixed and replicas > 1 and self._large_out >= replicas - 1:
            return self.small or None, math.inf
        if mixed and self._owed > 0 and not self._is_urgent(now):
            if self.small:
                return self.small, now
            if replicas == 1 and now < self._small_ended + GAP_SECONDS:
                return None, self._small_ended + GAP_SECONDS
        return self.large, now

    def on_sent(self, lane: DeadlineLane, now: float) -> None:
        if lane is self.small:
            self._small_sent = now
        else:
            self._large_out += 1

    def on_reply(self, lane: DeadlineLane, seconds: float, now: float) -> None:
        """A batch was answered after `seconds`."""
        if lane is self.small:
            self._small_times.note(seconds)
            self._small_ended = now
            self._owed -= seconds
        else:
            self._large_times.note(seconds)
            self._large_out -= 1
            self._owed = SMALL_CALLS_SHARE * seconds

    def on_lost(self, lane: DeadlineLane) -> None:
        """A replica was lost while it worked on a batch of this lane."""
        if lane is self.large:
            self._large_out -= 1

    def _is_urgent(self, now: float) -> bool:
        return self.large[0].deadline - now < 2 * self._large_times.slowest

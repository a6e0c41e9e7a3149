"""What waits for one served version: how much of it there may be, and whether one more would still be in time.

Whoever puts in or takes out large calls, or changes how many replicas there are, eases it afterwards: nearly all small
calls then are taken at a glance, for it is certain that there is room, somebody to answer, and time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mizzen.gateway.inference.calls import Call
from mizzen.gateway.queueing import load_shedding
from mizzen.gateway.queueing.batch_sizing import BUDGET, next_room
from mizzen.gateway.queueing.deadline_lane import Lane
from mizzen.gateway.queueing.lane_scheduler import LARGE_BYTES, Turns
from mizzen.graph.table_types import Server

FRAME_BYTES = 1 << 20
"""Of one frame, unless a single call has more."""


class Waiting:
    """The calls of one served version that no replica has yet."""

    __slots__ = (
        "_budget", "_byte_limit", "_limit", "_most", "easy", "easy_bytes", "large", "replicas", "room", "small", "turns"
    )  # fmt: skip

    def __init__(self, limit: int, byte_limit: int) -> None:
        self.turns = Turns()
        self.small = self.turns.small
        self.large = self.turns.large
        self.room = 1
        """Most calls of the next batch."""
        self.replicas = 0
        """That are ready for what waits."""
        self.easy = self.easy_bytes = 0
        """A small call that finds no more than this in its lane is taken without another look."""
        self._limit = limit
        self._byte_limit = byte_limit
        self._most = 1
        self._budget = 0.0
        """Seconds that a batch may be in the model; 0: its room is fixed."""

    def __len__(self) -> int:
        return len(self.small) + len(self.large)

    @property
    def bytes(self) -> int:
        return self.small.bytes + self.large.bytes

    def put(self, call: Call) -> None:
        if call.size > LARGE_BYTES:
            self.large.put(call)
            self.ease()
        else:
            self.small.put(call)

    def put_back(self, lane: Lane, calls: list[Call]) -> None:
        lane.put_back(calls)
        self.ease()

    def take(self, lane: Lane, now: float) -> tuple[list[Call], list[Call]]:
        """The next batch, of calls that are still wanted and in time, and those before it that ran out of it. Without
        a batch, the lane is empty."""
        if lane is self.small:
            return lane.take(self.room, FRAME_BYTES, now)
        taken = lane.take(1 if self.turns.mixed(now) else self.room, FRAME_BYTES, now)
        self.ease()
        return taken

    def due_at(self, lane: Lane, now: float, wait: float) -> float:
        """Until when the next batch may wait to fill: so many seconds from its oldest call on, and as long as its first
        deadline leaves time for the slowest run of late."""
        pace = self.turns.pace(lane)
        apart = lane[0].alone or (lane is self.large and self.turns.mixed(now))
        if apart or len(lane) >= self.room or not pace.known:
            return now
        oldest = min((call.began for call in lane if call.live), default=-math.inf)
        return min(oldest + wait, lane[0].deadline - pace.slowest)

    def take_expired(self, now: float) -> list[Call]:
        expired = []
        for lane in (self.small, self.large):
            if lane and lane[0].deadline <= now:
                expired += lane.take_expired(now)
                self.ease()
        return expired

    def take_all(self) -> list[Call]:
        calls = [*self.small.take_all(), *self.large.take_all()]
        self.ease()
        return calls

    def drop_dead(self) -> None:
        """Callers that have gone leave their calls behind until somebody looks."""
        self.small.drop_dead()
        self.large.drop_dead()
        self.ease()

    def is_full(self, call: Call) -> bool:
        waiting = len(self)
        # Whatever its size, a call fits where no other waits: else it could never be answered.
        return waiting >= self._limit or (waiting > 0 and self.bytes + call.size > self._byte_limit)

    def is_too_long(self, call: Call, now: float, expected: int, busy: Callable[[Lane], Sequence[float]]) -> bool:
        """Would its deadline pass, even if all batches before its own were full, and none slower than the quickest of
        late? Never said of large calls, which differ too much, nor where no full batch waits: what is refused for its
        deadline teaches nothing, so the pace must be learned from others.

        `expected`: replicas that may be there any moment. `busy` tells since when replicas work on calls of a lane.
        """
        room = 2 * self.room if self._budget else self.room  # which may grow meanwhile
        batches = self.small.before(call.deadline) // room
        if not self.replicas or call.size > LARGE_BYTES or not batches:
            return False
        replicas = max(self.replicas, expected)
        pace = self.turns.pace(self.small)
        best = load_shedding.end_at_best(
            now, pace, batches=batches, room=room, replicas=replicas, busy=busy(self.small)
        )
        return best > call.deadline

    def retry_after(self) -> int:
        small, large, turns = self.small, self.large, self.turns
        batches = (len(small) / self.room, turns.pace(small)), (len(large), turns.pace(large))
        return load_shedding.retry_after(batches, self.replicas)

    def answered(self, items: int, seconds: float) -> None:
        """A batch took the model so long: what that says about the room of the next one."""
        if self._budget:
            self.room = next_room(self.room, self._most, items, seconds, self._budget)
            self.ease()

    def limit_batches(self, server: Server) -> None:
        automatic = server.batch_auto and server.timeout_ms is not None
        started = self._budget > 0
        self._most = server.batch_size
        self._budget = BUDGET * (server.timeout_ms or 0) / 1000 if automatic else 0.0
        if not automatic:
            self.room = server.batch_size
        else:
            self.room = min(self.room, server.batch_size) if started else 1
        self.ease()

    def ease(self) -> None:
        large = self.large
        self.easy = min(self.room * self.replicas, self._limit - len(large))
        self.easy_bytes = min(LARGE_BYTES, self._byte_limit - large.bytes)

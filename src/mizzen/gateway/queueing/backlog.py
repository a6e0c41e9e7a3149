"""The calls that wait for one served version: how many may wait, and whether one more could be answered in time.

A change to the large lane or to the number of replicas must be followed by `refresh_fast_admit`. It computes the
thresholds below which a small call is admitted without any check: there is room, a replica and enough time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mizzen.gateway.queueing import batch_sizing, load_shedding
from mizzen.gateway.queueing.batch_sizing import next_batch_limit
from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_lane import DeadlineLane
from mizzen.gateway.queueing.lane_scheduler import LARGE_BYTES, LaneScheduler
from mizzen.graph.table_types import Server

FRAME_BYTES = 1 << 20
"""The limit of one frame, unless a single call is larger."""


class Backlog:
    """The calls of one served version that no replica has yet."""

    __slots__ = (
        "_budget", "_byte_limit", "_limit", "_max_batch_size", "batch_limit", "fast_admit", "fast_admit_bytes", "large",
        "replicas", "scheduler", "small",
    )  # fmt: skip

    def __init__(self, limit: int, byte_limit: int) -> None:
        self.scheduler = LaneScheduler()
        self.small = self.scheduler.small
        self.large = self.scheduler.large
        self.batch_limit = 1
        """Maximum number of calls in the next batch."""
        self.replicas = 0
        """Replicas that are ready."""
        self.fast_admit = self.fast_admit_bytes = 0
        """A small call is admitted without a check while its lane holds fewer calls and bytes than this."""
        self._limit = limit
        self._byte_limit = byte_limit
        self._max_batch_size = 1
        self._budget = 0.0
        """Seconds that a batch may spend in the model; 0: the batch limit is fixed."""

    def __len__(self) -> int:
        return len(self.small) + len(self.large)

    @property
    def bytes(self) -> int:
        return self.small.bytes + self.large.bytes

    def put(self, call: Call) -> None:
        if call.size > LARGE_BYTES:
            self.large.put(call)
            self.refresh_fast_admit()
        else:
            self.small.put(call)

    def requeue(self, lane: DeadlineLane, calls: list[Call]) -> None:
        lane.requeue(calls)
        self.refresh_fast_admit()

    def take(self, lane: DeadlineLane, now: float) -> tuple[list[Call], list[Call]]:
        """Remove and return the next batch of pending calls, and the expired calls before it.

        If the batch is empty, so is the lane.
        """
        if lane is self.small:
            return lane.take(self.batch_limit, FRAME_BYTES, now)
        taken = lane.take(1 if self.scheduler.is_mixed(now) else self.batch_limit, FRAME_BYTES, now)
        self.refresh_fast_admit()
        return taken

    def due_at(self, lane: DeadlineLane, now: float, wait: float) -> float:
        """Until when the next batch may wait to fill.

        That is `wait` seconds after its oldest call began, but early enough for the slowest recent batch to meet the
        first deadline.
        """
        times = self.scheduler.service_times(lane)
        apart = lane[0].retry_alone or (lane is self.large and self.scheduler.is_mixed(now))
        if apart or len(lane) >= self.batch_limit or not times.known:
            return now
        oldest = min((call.began for call in lane if call.pending), default=-math.inf)
        return min(oldest + wait, lane[0].deadline - times.slowest)

    def take_expired(self, now: float) -> list[Call]:
        expired = []
        for lane in (self.small, self.large):
            if lane and lane[0].deadline <= now:
                expired += lane.take_expired(now)
                self.refresh_fast_admit()
        return expired

    def take_all(self) -> list[Call]:
        calls = [*self.small.take_all(), *self.large.take_all()]
        self.refresh_fast_admit()
        return calls

    def drop_dead(self) -> None:
        """Remove the calls whose callers disconnected; they stay in the lanes until this cleanup."""
        self.small.drop_dead()
        self.large.drop_dead()
        self.refresh_fast_admit()

    def is_full(self, call: Call) -> bool:
        waiting = len(self)
        # A call of any size fits into an empty backlog: otherwise it could never be answered.
        return waiting >= self._limit or (waiting > 0 and self.bytes + call.size > self._byte_limit)

    def is_too_long(
        self, call: Call, now: float, expected: int, busy: Callable[[DeadlineLane], Sequence[float]]
    ) -> bool:
        """Whether a call would miss its deadline even if all batches before it were full and as fast as the fastest.

        Never true for large calls, whose times differ too much. Also never true unless a full batch waits: rejected
        calls yield no service times, so some calls must get through to measure them. `expected` counts replicas that
        may become ready at any moment. `busy` returns since when each replica works on calls of a lane.
        """
        room = 2 * self.batch_limit if self._budget else self.batch_limit  # it may grow meanwhile
        batches = self.small.before(call.deadline) // room
        if not self.replicas or call.size > LARGE_BYTES or not batches:
            return False
        replicas = max(self.replicas, expected)
        times = self.scheduler.service_times(self.small)
        best = load_shedding.earliest_end(
            now, times, batches=batches, room=room, replicas=replicas, busy=busy(self.small)
        )
        return best > call.deadline

    def retry_after(self) -> int:
        small, large, scheduler = self.small, self.large, self.scheduler
        batches = (
            (len(small) / self.batch_limit, scheduler.service_times(small)),
            (len(large), scheduler.service_times(large)),
        )
        return load_shedding.retry_after(batches, self.replicas)

    def on_reply(self, items: int, seconds: float) -> None:
        """Adapt the batch limit to how long the model took for a batch."""
        if self._budget:
            self.batch_limit = next_batch_limit(self.batch_limit, self._max_batch_size, items, seconds, self._budget)
            self.refresh_fast_admit()

    def limit_batches(self, server: Server) -> None:
        self.batch_limit = batch_sizing.first_batch_limit(server, self.batch_limit, adapted=self._budget > 0)
        self._max_batch_size = server.batch_size
        self._budget = batch_sizing.time_budget(server)
        self.refresh_fast_admit()

    def refresh_fast_admit(self) -> None:
        large = self.large
        self.fast_admit = min(self.batch_limit * self.replicas, self._limit - len(large))
        self.fast_admit_bytes = min(LARGE_BYTES, self._byte_limit - large.bytes)

"""One queue per served version. Late binding: whichever replica is free takes what waits, up to a batch, at once.

Earliest deadline first. There is no wait timer unless the version asks for one (`batch_wait`): a request goes out in
the loop tick it came in with, unless every replica is busy. Each replica has one batch in flight. All decisions about a
call between its arrival and its end are taken here; sockets are not.

Hazards kept in mind: a call ends once (`live`), whatever arrives later; a request that takes its process down must not
take its neighbours down twice (`alone`); a big request must not hold up small ones (`turns`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from mizzen.gateway import shedding
from mizzen.gateway.calls import BAD_REQUEST, EXPIRED, FAILED, LOST, OK, UNAVAILABLE, Call
from mizzen.gateway.lanes import Lane
from mizzen.gateway.pace import BUDGET, next_room
from mizzen.gateway.signature import Hello, Signature, signature_of
from mizzen.gateway.sweeper import Sweeper
from mizzen.gateway.turns import LARGE_BYTES, Turns
from mizzen.graph.plan import Server
from mizzen.protocol import frames

FRAME_BYTES = 1 << 20
"""Of one frame, unless a single call has more."""
LOOK_SECONDS = 0.05
"""Between two looks for calls that nobody waits for any more, in a queue that is too long."""
QUICK_SECONDS = 0.001
"""A model that answers a batch sooner gains more from a larger next batch than from an early one."""

_CODES = {frames.OK: OK, frames.BAD_INPUT: BAD_REQUEST, frames.MODEL_FAILED: FAILED}


class Worker(Protocol):
    """A replica that is ready, as its queue sees it."""

    def send(self, batch: list[Call]) -> None: ...


_Out = tuple[list[Call], Lane, float]
"""A batch that a replica works on, where it waited, and when it was sent."""


class Queue:
    """The calls of one served version, and the replicas that are ready for them."""

    # More fields than an instance may have and still be quick, were they not named here.
    __slots__ = (
        "_budget", "_byte_limit", "_call_later", "_call_soon", "_clock", "_easy", "_easy_bytes", "_hold_seconds",
        "_hold_until", "_idle", "_large", "_limit", "_look_again", "_out", "_pumping", "_retired", "_small",
        "_sweeper", "_turns", "_wakes_at", "_workers", "answered_at", "batch_items", "batches", "compute_seconds",
        "expired", "hello", "in_flight", "queued_seconds", "retried", "room", "server", "shed", "signature",
    )  # fmt: skip

    def __init__(
        self,
        server: Server,
        *,
        limit: int,
        byte_limit: int,
        hold_seconds: float,
        clock: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        sweeper: Sweeper,
    ) -> None:
        self.server = server
        self.hello: Hello | None = None
        """What a replica said last; kept while none is there."""
        self.signature: Signature | None = None
        self.room = 1
        """Most calls of the next batch."""
        self.in_flight = 0
        self.batches = self.batch_items = self.expired = self.retried = self.shed = 0
        self.queued_seconds = self.compute_seconds = 0.0
        """Of all calls that were sent: how long they waited, and how long their batch was in the model."""
        self.answered_at = 0.0
        """When the last batch was, by `clock`; 0: none was."""
        self._limit = limit
        self._byte_limit = byte_limit
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._call_soon = call_soon
        self._call_later = call_later
        self._sweeper = sweeper
        self._turns = Turns()
        self._small = self._turns.small
        self._large = self._turns.large
        self._workers: set[Worker] = set()
        self._idle: deque[Worker] = deque()
        self._out: dict[Worker, _Out] = {}
        self._pumping = False
        self._wakes_at = math.inf
        self._hold_until = clock() + hold_seconds
        self._look_again = 0.0
        self._retired = False
        # A small call that finds no more than this in its lane is taken without another look: about nearly all it is
        # certain that there is room, somebody to answer, and time.
        self._easy = self._easy_bytes = 0
        self._budget = 0.0
        self._set_room(server)
        sweeper.queues.add(self)

    @property
    def ready(self) -> bool:
        return bool(self._workers)

    @property
    def replicas(self) -> int:
        return len(self._workers)

    @property
    def waiting(self) -> int:
        """Calls that wait for a replica."""
        return len(self._small) + len(self._large)

    @property
    def waiting_bytes(self) -> int:
        return self._small.bytes + self._large.bytes

    @property
    def busy(self) -> int:
        return len(self._small) + len(self._large) + self.in_flight

    def may_hold(self, now: float) -> bool:
        """Is a replica expected soon enough to wait for it?"""
        return now < self._hold_until and bool(self.server.addresses) and not self._retired

    def submit(self, call: Call) -> None:
        lane = self._small
        size = lane.bytes + call.size
        waits = len(lane)
        if waits >= self._easy or size > self._easy_bytes:
            if not self._admits(call):
                return
            if call.size > LARGE_BYTES:
                self._large.put(call)
                self._ease()
            else:
                lane.put(call)
        elif waits and call.deadline < lane[-1].deadline:
            lane.put(call)
        else:
            lane.append(call)
            lane.bytes = size
        if self._idle and not self._pumping:
            self._pumping = True
            self._call_soon(self._pump)
        if not self._sweeper.armed:
            self._sweeper.arm()

    # What replicas report

    def joined(self, worker: Worker, hello: Hello) -> None:
        self.greeted(hello)
        self._workers.add(worker)
        self._idle.append(worker)
        self._ease()
        self._pump()

    def greeted(self, hello: Hello) -> None:
        """A replica says what it is, also one that has joined: it may have been given other parameters."""
        self.hello = hello
        self.signature = signature_of(hello)

    def answered(self, worker: Worker, entries: Sequence[tuple[int, bytes]], service_seconds: float) -> None:
        """The replies to its batch, one entry per call, and the time the model took for all of them."""
        batch, lane, sent_at = self._out.pop(worker)
        items = len(batch)
        self.in_flight -= items
        now = self.answered_at = self._clock()
        self.compute_seconds += items * service_seconds
        self._turns.ended(lane, now - sent_at, now)
        if self._budget:
            self.room = next_room(self.room, self.server.batch_size, items, service_seconds, self._budget)
            self._ease()
        if worker in self._workers:
            self._idle.append(worker)
            if service_seconds >= QUICK_SECONDS:
                self._pump()  # before the answers are written: the replica computes while we write
            elif not self._pumping:
                self._pumping = True
                self._call_soon(self._pump_next_turn)
        for call, (status, payload) in zip(batch, entries, strict=True):
            if call.live:
                call.settle(_CODES[status], payload, now)

    def drains(self, worker: Worker) -> None:
        """It takes no more batches; it still answers the one it has."""
        if worker in self._workers:
            self._leave(worker)

    def lost(self, worker: Worker) -> None:
        """It is gone, and with it the answers it owed."""
        if worker in self._workers:
            self._leave(worker)
        out = self._out.pop(worker, None)
        if out is None:
            return
        batch, lane, _ = out
        self.in_flight -= len(batch)
        self._turns.gone(lane)
        again = []
        for call in batch:
            if not call.live:
                continue
            if self.server.idempotent and not call.alone and not self._retired:
                call.alone = True
                again.append(call)
            else:
                call.settle(LOST, f"the process serving {self._who()} was lost".encode(), self._clock())
        if again:
            self.retried += len(again)
            lane.put_back(again)
            self._ease()
            if not self._sweeper.armed:
                self._sweeper.arm()
        self._pump()

    # What the Table says

    def update(self, server: Server) -> None:
        """The same served version with other addresses or limits."""
        self._set_room(server)
        self.server = server
        if not self._workers and not server.addresses:
            self._refuse_waiting(self._clock())

    def retire(self) -> list[Call]:
        """The version is served no more: what waits is handed back, what is in flight may finish."""
        self._retired = True
        waiting = self._take_all()
        self._workers.clear()
        self._idle.clear()
        self._ease()
        if not self._out:
            self._sweeper.queues.discard(self)
        return waiting

    def sweep(self, now: float) -> None:
        self._expire_waiting(now)
        for batch, _, _ in self._out.values():
            for call in batch:
                if call.live and call.deadline <= now:
                    self._expire(call, now)
        if not self._workers and self.waiting and not self.may_hold(now):
            self._refuse_waiting(now)
        if self._retired and not self._out:
            self._sweeper.queues.discard(self)

    # Sending

    def _pump_next_turn(self) -> None:
        """After the loop has read what came in while answers were written: those calls join the batch."""
        self._call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        idle = self._idle
        while idle and (self._small or self._large):
            now = self._clock()
            lane = self._small
            if self._large:
                chosen, wait = self._turns.next(len(self._workers), now)
                if chosen is None:
                    self._wake(wait, now)
                    return
                lane = chosen
            if self.server.batch_wait and not self._is_due(lane, now):
                return
            batch = self._take(lane, now)
            if not batch:
                continue
            worker = idle.popleft()
            self._out[worker] = batch, lane, now
            self._turns.sent(lane, now)
            self.in_flight += len(batch)
            self.batches += 1
            self.batch_items += len(batch)
            self.queued_seconds += len(batch) * now - sum([call.began for call in batch])
            worker.send(batch)

    def _take(self, lane: Lane, now: float) -> list[Call]:
        """The next batch: calls that are still wanted and in time. Without any, the lane is empty."""
        if lane is self._small:
            batch, expired = lane.take(self.room, FRAME_BYTES, now)
        else:
            batch, expired = lane.take(1 if self._turns.mixed(now) else self.room, FRAME_BYTES, now)
            self._ease()
        for call in expired:
            self._expire(call, now)
        return batch

    def _is_due(self, lane: Lane, now: float) -> bool:
        """Has this batch waited long enough to fill? Its first deadline leaves time for the slowest run of late."""
        pace = self._turns.pace(lane)
        apart = lane[0].alone or (lane is self._large and self._turns.mixed(now))
        if apart or len(lane) >= self.room or not pace.known:
            return True
        oldest = min((call.began for call in lane if call.live), default=-math.inf)
        due = min(oldest + self.server.batch_wait, lane[0].deadline - pace.slowest)
        if due > now:
            self._wake(due, now)
        return due <= now

    def _wake(self, at: float, now: float) -> None:
        if at < self._wakes_at:
            self._wakes_at = at
            self._call_later(at - now, self._woken)

    def _woken(self) -> None:
        self._wakes_at = math.inf
        self._pump()

    # Taking in

    def _admits(self, call: Call) -> bool:
        """Is there somebody to answer it, room, and time? What is not admitted has its answer."""
        now = self._clock()
        if not self._workers and not self.may_hold(now):
            call.settle(UNAVAILABLE, f"no replica of {self._who()} is ready".encode(), now)
            return False
        full, late = self._is_full(call), self._comes_too_late(call, now)
        if (full or late) and now >= self._look_again:
            # Callers that have gone leave their calls behind until somebody looks; not at every call.
            self._look_again = now + LOOK_SECONDS
            self._expire_waiting(now)
            self._small.drop_dead()
            self._large.drop_dead()
            self._ease()
            full, late = self._is_full(call), self._comes_too_late(call, now)
        if full or late:
            self.shed += 1
            why = "is full" if full else "is too long for the deadline of this request"
            call.settle(UNAVAILABLE, f"the queue of {self._who()} {why}".encode(), now, self._retry_after())
        return not (full or late)

    def _is_full(self, call: Call) -> bool:
        waiting = self.waiting
        # Whatever its size, a call fits where no other waits: else it could never be answered.
        return waiting >= self._limit or (waiting > 0 and self.waiting_bytes + call.size > self._byte_limit)

    def _comes_too_late(self, call: Call, now: float) -> bool:
        """Would its deadline pass, even if all batches before its own were full, and none slower than the quickest of
        late? Never said of large calls, which differ too much, nor where no full batch waits: what is refused for its
        deadline teaches nothing, so the pace must be learned from others.
        """
        room = 2 * self.room if self._budget else self.room  # which may grow meanwhile
        batches = self._small.before(call.deadline) // room
        if not self._workers or call.size > LARGE_BYTES or not batches:
            return False
        # Those that are expected may be there any moment, and those that work on something else be free.
        replicas = max(len(self._workers), len(self.server.addresses))
        out = (self._out[worker] for worker in self._workers & self._out.keys())
        busy = [since for _, lane, since in out if lane is self._small]
        pace = self._turns.pace(self._small)
        best = shedding.end_at_best(now, pace, batches=batches, room=room, replicas=replicas, busy=busy)
        return best > call.deadline

    def _retry_after(self) -> int:
        small, large = self._small, self._large
        batches = (len(small) / self.room, self._turns.pace(small)), (len(large), self._turns.pace(large))
        return shedding.retry_after(batches, len(self._workers))

    def _set_room(self, server: Server) -> None:
        automatic = server.batch_auto and server.timeout_ms is not None
        started = self._budget > 0
        self._budget = BUDGET * (server.timeout_ms or 0) / 1000 if automatic else 0.0
        if not automatic:
            self.room = server.batch_size
        else:
            self.room = min(self.room, server.batch_size) if started else 1
        self._ease()

    def _ease(self) -> None:
        large = self._large
        self._easy = min(self.room * len(self._workers), self._limit - len(large))
        self._easy_bytes = min(LARGE_BYTES, self._byte_limit - large.bytes)

    def _leave(self, worker: Worker) -> None:
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self._ease()
        if not self._workers:
            self._hold_until = self._clock() + self._hold_seconds

    # Ends

    def _expire_waiting(self, now: float) -> None:
        for lane in (self._small, self._large):
            if lane and lane[0].deadline <= now:
                for call in lane.take_expired(now):
                    self._expire(call, now)
                self._ease()

    def _expire(self, call: Call, now: float) -> None:
        self.expired += 1
        call.settle(EXPIRED, f"{self._who()} gave no answer within the deadline".encode(), now)

    def _refuse_waiting(self, now: float) -> None:
        for call in self._take_all():
            call.settle(UNAVAILABLE, f"no replica of {self._who()} is ready".encode(), now)

    def _take_all(self) -> list[Call]:
        calls = [*self._small.take_all(), *self._large.take_all()]
        self._ease()
        return calls

    def _who(self) -> str:
        return f"'{self.server.id.rpartition('/')[2]}'"

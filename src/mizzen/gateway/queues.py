"""One queue per served version. Late binding: whichever replica is free takes what waits, up to a batch, at once.

There is no wait timer: a request goes out in the loop tick it came in with, unless every replica is busy. Each replica
has one batch in flight. All decisions about a call between its arrival and its end are taken here; sockets are not.

Hazards kept in mind: a call ends once (`live`), whatever arrives later; a request that takes its process down must not
take its neighbours down twice (`alone`); a big request must not hold up small ones (`FRAME_BYTES`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mizzen.gateway.signature import Hello, Signature, signature_of
from mizzen.graph.plan import Server
from mizzen.protocol import frames

FRAME_BYTES = 1 << 20
"""Of one frame, unless a single call has more."""
SWEEP_SECONDS = 0.01
LOOK_SECONDS = 0.05
"""Between two looks for calls that nobody waits for any more, in a full queue."""
QUICK_SECONDS = 0.001
"""A model that answers a batch sooner gains more from a larger next batch than from an early one."""

OK, BAD_REQUEST, FAILED, LOST, UNAVAILABLE, EXPIRED = 200, 400, 500, 502, 503, 504
_CODES = {frames.OK: OK, frames.BAD_INPUT: BAD_REQUEST, frames.MODEL_FAILED: FAILED}


class Call:
    """One request on its way to a replica. Whoever makes one sets all fields and gives `settle` a body."""

    __slots__ = ("alone", "deadline", "item", "live", "size")

    item: Any
    """Its entry in an INFER frame."""
    size: int
    """Bytes it takes in a frame, near enough."""
    deadline: float
    live: bool
    """Nobody waits for the answer of a call that is not."""
    alone: bool
    """It was in a batch whose process was lost: sent once more, and by itself."""

    def settle(self, code: int, payload: bytes, now: float) -> None:
        """The end: outputs as JSON text when the code is 200, else a message in UTF-8."""
        raise NotImplementedError

    def cancel(self, now: float) -> None:
        """The caller has gone. What was not sent yet never is."""
        raise NotImplementedError


class Worker(Protocol):
    """A replica that is ready, as its queue sees it."""

    def send(self, batch: list[Call]) -> None: ...


class Sweeper:
    """Ends what is over its time, in all queues, with one timer that runs only while something waits or is out."""

    def __init__(self, clock: Callable[[], float], call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self.queues: set[Queue] = set()
        self.armed = False
        self._clock = clock
        self._call_later = call_later

    def arm(self) -> None:
        self.armed = True
        self._call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self.armed = False
        now = self._clock()
        busy = 0
        for queue in list(self.queues):
            queue.sweep(now)
            busy += queue.busy
        if busy and not self.armed:
            self.arm()


class Queue:
    """The calls of one served version, and the replicas that are ready for them."""

    def __init__(
        self,
        server: Server,
        *,
        limit: int,
        byte_limit: int,
        hold_seconds: float,
        clock: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], object],
        sweeper: Sweeper,
    ) -> None:
        self.server = server
        self.hello: Hello | None = None
        """What a replica said last; kept while none is there."""
        self.signature: Signature | None = None
        self.waiting: deque[Call] = deque()
        self.waiting_bytes = 0
        self.in_flight = 0
        self.batches = self.batch_items = self.expired = self.retried = 0
        self._limit = limit
        self._byte_limit = byte_limit
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._call_soon = call_soon
        self._sweeper = sweeper
        self._workers: set[Worker] = set()
        self._idle: deque[Worker] = deque()
        self._out: dict[Worker, list[Call]] = {}
        self._pumping = False
        self._soonest = math.inf
        """No call that waits has an earlier deadline."""
        self._hold_until = clock() + hold_seconds
        self._look_again = 0.0
        self._retired = False
        sweeper.queues.add(self)

    @property
    def ready(self) -> bool:
        return bool(self._workers)

    @property
    def replicas(self) -> int:
        return len(self._workers)

    @property
    def busy(self) -> int:
        return len(self.waiting) + self.in_flight

    def may_hold(self, now: float) -> bool:
        """Is a replica expected soon enough to wait for it?"""
        return now < self._hold_until and bool(self.server.addresses) and not self._retired

    def submit(self, call: Call) -> None:
        waiting = self.waiting
        size = self.waiting_bytes + call.size
        if len(waiting) >= self._limit or size > self._byte_limit:
            if not self._make_room(call):
                call.settle(UNAVAILABLE, f"the queue of {self._who()} is full".encode(), self._clock())
                return
            size = self.waiting_bytes + call.size
        if not self._workers and not self.may_hold(now := self._clock()):
            call.settle(UNAVAILABLE, f"no replica of {self._who()} is ready".encode(), now)
            return
        waiting.append(call)
        self.waiting_bytes = size
        if call.deadline < self._soonest:  # noqa: PLR1730 - a call of min() costs twice as much
            self._soonest = call.deadline
        if self._idle and not self._pumping:
            self._pumping = True
            self._call_soon(self._pump)
        if not self._sweeper.armed:
            self._sweeper.arm()

    # What replicas report

    def joined(self, worker: Worker, hello: Hello) -> None:
        self.hello = hello
        self.signature = signature_of(hello)
        self._workers.add(worker)
        self._idle.append(worker)
        self._pump()

    def answered(self, worker: Worker, entries: Sequence[tuple[int, bytes]], service_seconds: float) -> None:
        """The replies to its batch, one entry per call, and the time the model took for all of them."""
        batch = self._out.pop(worker)
        self.in_flight -= len(batch)
        if worker in self._workers:
            self._idle.append(worker)
            if service_seconds >= QUICK_SECONDS:
                self._pump()  # before the answers are written: the replica computes while we write
            elif not self._pumping:
                self._pumping = True
                self._call_soon(self._pump_next_turn)
        now = self._clock()
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
        batch = self._out.pop(worker, None)
        if batch is None:
            return
        self.in_flight -= len(batch)
        again = []
        for call in batch:
            if not call.live:
                continue
            if self.server.idempotent and not call.alone and not self._retired:
                call.alone = True
                again.append(call)
            else:
                call.settle(LOST, f"the process serving {self._who()} was lost".encode(), self._clock())
        self.retried += len(again)
        self._put_back(again)

    # What the Table says

    def update(self, server: Server) -> None:
        """The same served version with other addresses or limits."""
        self.server = server
        if not self._workers and not server.addresses:
            self._refuse_waiting(self._clock())

    def retire(self) -> list[Call]:
        """The version is served no more: what waits is handed back, what is in flight may finish."""
        self._retired = True
        waiting = [call for call in self.waiting if call.live]
        self.waiting.clear()
        self.waiting_bytes = 0
        self._workers.clear()
        self._idle.clear()
        if not self._out:
            self._sweeper.queues.discard(self)
        return waiting

    def sweep(self, now: float) -> None:
        if self._soonest <= now:
            self._drop_dead(now)
        for batch in self._out.values():
            for call in batch:
                if call.live and call.deadline <= now:
                    self._expire(call, now)
        if self.waiting and not self._workers and not self.may_hold(now):
            self._refuse_waiting(now)
        if self._retired and not self._out:
            self._sweeper.queues.discard(self)

    def _pump_next_turn(self) -> None:
        """After the loop has read what came in while answers were written: those calls join the batch."""
        self._call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        idle = self._idle
        while idle and self.waiting:
            batch = self._take(self._clock())
            if not batch:
                return
            worker = idle.popleft()
            self._out[worker] = batch
            self.in_flight += len(batch)
            self.batches += 1
            self.batch_items += len(batch)
            worker.send(batch)

    def _take(self, now: float) -> list[Call]:
        """The next batch: calls that are still wanted and in time."""
        waiting = self.waiting
        batch: list[Call] = []
        room, size = self.server.batch_size, 0
        while waiting and room:
            call = waiting[0]
            if call.live and call.deadline > now:
                size += call.size
                if batch and (call.alone or size > FRAME_BYTES):
                    size -= call.size
                    break
                batch.append(call)
                room = 0 if call.alone else room - 1
            else:
                self.waiting_bytes -= call.size
                if call.live:
                    self._expire(call, now)
            waiting.popleft()
        self.waiting_bytes -= size
        if not waiting:
            self._soonest = math.inf
        return batch

    def _leave(self, worker: Worker) -> None:
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if not self._workers:
            self._hold_until = self._clock() + self._hold_seconds

    def _put_back(self, calls: list[Call]) -> None:
        if not calls:
            return
        self.waiting.extendleft(reversed(calls))
        self.waiting_bytes += sum(call.size for call in calls)
        self._soonest = min(self._soonest, *(call.deadline for call in calls))
        if not self._sweeper.armed:
            self._sweeper.arm()
        self._pump()

    def _make_room(self, call: Call) -> bool:
        """Callers that have gone leave their calls behind until somebody looks: in a full queue, not at every call."""
        now = self._clock()
        if now >= self._look_again:
            self._look_again = now + LOOK_SECONDS
            self._drop_dead(now)
        # Whatever its size, a call fits where no other waits: else it could never be answered.
        fits = not self.waiting or self.waiting_bytes + call.size <= self._byte_limit
        return fits and len(self.waiting) < self._limit

    def _drop_dead(self, now: float) -> None:
        calls = [call for call in self.waiting if call.live]
        self.waiting.clear()
        self.waiting.extend(call for call in calls if call.deadline > now)
        self.waiting_bytes = sum(call.size for call in self.waiting)
        self._soonest = min((call.deadline for call in self.waiting), default=math.inf)
        for call in calls:
            if call.deadline <= now:
                self._expire(call, now)

    def _expire(self, call: Call, now: float) -> None:
        self.expired += 1
        call.settle(EXPIRED, f"{self._who()} gave no answer within the deadline".encode(), now)

    def _refuse_waiting(self, now: float) -> None:
        calls = [call for call in self.waiting if call.live]
        self.waiting.clear()
        self.waiting_bytes = 0
        self._soonest = math.inf
        for call in calls:
            call.settle(UNAVAILABLE, f"no replica of {self._who()} is ready".encode(), now)

    def _who(self) -> str:
        return f"'{self.server.id.rpartition('/')[2]}'"

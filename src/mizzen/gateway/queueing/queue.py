"""One queue per served version. Late binding: whichever replica is free takes what waits, up to a batch, at once.

Earliest deadline first. There is no wait timer unless the version asks for one (`batch_wait`): a request goes out in
the loop tick it came in with, unless every replica is busy. Each replica has one batch in flight. All decisions about a
call between its arrival and its end are taken here; sockets are not.

Hazards kept in mind: a call ends once (`live`), whatever arrives later; a request that takes its process down must not
take its neighbours down twice (`alone`); a big request must not hold up small ones (`turns`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mizzen.gateway.inference.calls import BAD_REQUEST, EXPIRED, FAILED, LATE, LOST, NOBODY, OK, UNAVAILABLE, Call
from mizzen.gateway.inference.signature import Hello, Signature, signature_of
from mizzen.gateway.queueing.backlog import Waiting
from mizzen.gateway.queueing.batch_stats import Tally
from mizzen.gateway.queueing.deadline_timer import Sweeper
from mizzen.gateway.queueing.replica_set import Crew, Worker
from mizzen.gateway.queueing.scale_from_zero import UNBOUNDED, Bounds, Nap
from mizzen.graph.table_types import Server
from mizzen.protocol.frames import framing

if TYPE_CHECKING:
    from mizzen.gateway.cache.cached_queue import Cached

LOOK_SECONDS = 0.05
"""Between two looks for calls that nobody waits for any more, in a queue that is too long."""
QUICK_SECONDS = 0.001
"""A model that answers a batch sooner gains more from a larger next batch than from an early one."""

_CODES = {framing.OK: OK, framing.BAD_INPUT: BAD_REQUEST, framing.MODEL_FAILED: FAILED}


class Queue:
    """The calls of one served version, and the replicas that are ready for them."""

    # Looked at for every request: quicker to find than in a dict.
    __slots__ = (
        "_call_later", "_call_soon", "_clock", "_crew", "_elsewhere", "_gathers", "_hold_seconds", "_hold_until",
        "_idle", "_large", "_look_again", "_nap", "_offer", "_pumping", "_replaced", "_small", "_sweeper", "_turns",
        "_waiting", "_wakes_at", "cache", "era", "expired", "hello", "retried", "server", "shed", "signature",
        "tally",
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
        offer: Callable[[Call], bool] = lambda call: False,
        held: Bounds = UNBOUNDED,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`offer` gives a call to another server that answers now, if there is any for it. `held`: how much may wait
        for a server that has no replicas; `wake` is called for it to get one."""
        self.server = server
        self.hello: Hello | None = None
        """What a replica said last; kept while none is there."""
        self.signature: Signature | None = None
        self.era = 0
        """Grows when one of those who answered does no more, as soon as others do: they may answer otherwise, with
        another environment for example. All answers of one era are of processes that are there, or just lost."""
        self.cache: Cached | None = None
        """What stands before it, if it has one. Here it is told of deadlines and of its size."""
        self.expired = self.retried = self.shed = 0
        self.tally = Tally()
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._call_soon = call_soon
        self._call_later = call_later
        self._sweeper = sweeper
        self._offer = offer
        self._nap = Nap(held, wake)
        self._waiting = Waiting(limit, byte_limit)
        self._turns = self._waiting.turns
        self._small = self._waiting.small
        self._large = self._waiting.large
        self._crew = Crew()
        self._idle = self._crew.idle
        self._pumping = False
        self._gathers = False
        """Requests come several at a time, and the model is quick: those of one more turn of the loop join a batch."""
        self._wakes_at = math.inf
        self._hold_until = clock() + hold_seconds
        self._look_again = 0.0
        self._replaced = False
        """Somebody has left, and nobody has come yet."""
        self._elsewhere: Callable[[list[Call]], None] | None = None
        """Where calls go once this version is served no more."""
        self._waiting.limit_batches(server)
        sweeper.queues.add(self)

    @property
    def ready(self) -> bool:
        return bool(self._crew.ready)

    @property
    def replicas(self) -> int:
        return len(self._crew.ready)

    @property
    def waiting(self) -> int:
        """Calls that wait for a replica."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting.bytes

    @property
    def room(self) -> int:
        """Most calls of the next batch."""
        return self._waiting.room

    @property
    def in_flight(self) -> int:
        return self._crew.in_flight

    @property
    def busy(self) -> int:
        return len(self._small) + len(self._large) + self._crew.in_flight

    @property
    def unanswered(self) -> bytes:
        """What somebody is told whose time is over."""
        return f"{self._who()} gave no answer within the deadline".encode()

    def may_hold(self, now: float) -> bool:
        """Is a replica expected soon enough to wait for it?"""
        if self._elsewhere is not None:
            return False
        return self.server.wakes or (now < self._hold_until and bool(self.server.addresses))

    def rouse(self, now: float) -> None:
        """Somebody asks. Without any replica, one is started for them, if that is to be had."""
        if self.server.wakes and not self._crew.ready:
            self._nap.asked(now)

    def awaited(self, now: float) -> bool:
        """Does somebody ask for a replica where none is?"""
        return not self._crew.ready and self._nap.awaited(now)

    def submit(self, call: Call) -> None:
        lane, waiting = self._small, self._waiting
        size = lane.bytes + call.size
        waits = len(lane)
        if waits >= waiting.easy or size > waiting.easy_bytes:
            if not self._admits(call):
                return
            waiting.put(call)
        elif waits and call.deadline < lane[-1].deadline:
            lane.put(call)
        else:
            lane.append(call)
            lane.bytes = size
        if self._idle and not self._pumping:
            self._pumping = True
            self._call_soon(self._pump_next_turn if self._gathers else self._pump)
        if not self._sweeper.armed:
            self._sweeper.arm()

    def tell(self, feedback: bytes) -> bool:
        """One replica is told how well a request was answered, if one wants to know. As it happens: nobody hears
        whether it got there."""
        return any(worker.tell(feedback) for worker in self._crew.ready)

    # What replicas report

    def joined(self, worker: Worker, hello: Hello) -> None:
        self.hello = hello
        self.signature = signature_of(hello)
        if self._replaced:
            self._replaced = False
            self.era += 1
        self._crew.join(worker)
        self._nap.over(self._clock())
        self._count_workers()
        self._pump()

    def answered(
        self, worker: Worker, entries: Sequence[tuple[int, bytes]], service_seconds: float, before: float = 0.0,
        after: float = 0.0,
    ) -> None:  # fmt: skip
        """The replies to its batch, one entry per call, and the time the model took for all of them; and its runtime
        before and after it."""
        out = self._crew.back(worker)
        assert out is not None
        batch, lane, sent_at = out
        items = len(batch)
        now = self._clock()
        self.tally.answered(items, service_seconds, now, before, after)
        self._turns.ended(lane, now - sent_at, now)
        self._waiting.answered(items, service_seconds)
        self._gathers = items > 1 and service_seconds < QUICK_SECONDS
        if self._crew.rest(worker):
            if service_seconds >= QUICK_SECONDS:
                self._pump()  # before the answers are written: the replica computes while we write
            elif not self._pumping:
                self._pumping = True
                self._call_soon(self._pump_next_turn)
        for call, (status, payload) in zip(batch, entries, strict=True):
            if call.live:
                call.settle(_CODES[status], payload, now)
            else:
                call.missed(_CODES[status], payload)

    def drains(self, worker: Worker) -> None:
        """It takes no more batches; it still answers the one it has."""
        if self._crew.leave(worker):
            self._count_workers()
            if self._crew.ready:
                self.era += 1
            else:
                self._replaced = True
                self._hold_until = self._clock() + self._hold_seconds
                self._offer_waiting()
                if self._waiting:
                    self.rouse(self._clock())

    def lost(self, worker: Worker) -> None:
        """It is gone, and with it the answers it owed."""
        self.drains(worker)
        out = self._crew.back(worker)
        if out is None:
            return
        batch, lane, _ = out
        self._turns.gone(lane)
        again = []
        for call in batch:
            if not call.live:
                continue
            if self.server.idempotent and not call.alone:
                call.alone = True
                again.append(call)
            else:
                call.settle(LOST, f"the process serving {self._who()} was lost".encode(), self._clock())
        if again:
            self.retried += len(again)
            if self._elsewhere is not None:
                self._elsewhere(again)
                return
            self._waiting.put_back(lane, again)
            if not self._crew.ready:
                self._offer_waiting()
                self.rouse(self._clock())
            if not self._sweeper.armed:
                self._sweeper.arm()
        self._pump()

    # What the Table says

    def update(self, server: Server) -> None:
        """The same served version with other addresses or limits."""
        before = self.server.addresses
        if before and server.addresses and set(before).isdisjoint(server.addresses):
            self.era += 1
        self._waiting.limit_batches(server)
        if server.addresses and not before:  # who will be there soon
            self._hold_until = self._clock() + self._hold_seconds
        if self.cache is not None:
            self.cache.limit(server.cache_bytes)
        self.server = server
        if not self._crew.ready and not server.addresses and not server.wakes:
            self._refuse_waiting(self._clock())
        elif self._waiting:
            self.rouse(self._clock())

    def retire(self, elsewhere: Callable[[list[Call]], None]) -> None:
        """The version is served no more: what waits goes elsewhere, what is in flight may finish."""
        self._elsewhere = elsewhere
        waiting = self._waiting.take_all()
        self._crew.leave_all()
        self._count_workers()
        if not self._crew.out:
            self._sweeper.queues.discard(self)
        elsewhere(waiting)

    def sweep(self, now: float) -> None:
        if self.cache is not None:
            self.cache.sweep(now)
        self._expire_waiting(now)
        for batch, _, _ in self._crew.out.values():
            for call in batch:
                if call.live and call.deadline <= now:
                    self._expire(call, now)
        if not self._crew.ready and self._waiting and not self.may_hold(now):
            self._refuse_waiting(now)
        if self._elsewhere is not None and not self._crew.out:
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
                chosen, wait = self._turns.next(self._waiting.replicas, now)
                if chosen is None:
                    self._wake(wait, now)
                    return
                lane = chosen
            if self.server.batch_wait:
                due = self._waiting.due_at(lane, now, self.server.batch_wait)
                if due > now:
                    self._wake(due, now)
                    return
            batch, expired = self._waiting.take(lane, now)
            for call in expired:
                self._expire_unsent(call, now)
            if not batch:
                continue
            self._turns.sent(lane, now)
            self.tally.sent(batch, now)
            self._crew.send(batch, lane, now)

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
        if self._elsewhere is not None:  # of somebody who found this queue before the Table changed
            self._elsewhere([call])
            return False
        now = self._clock()
        if not self._crew.ready and self.server.wakes:
            return self._may_be_held(call, now)
        if not self._crew.ready and not self.may_hold(now):
            self._refuse_unready(call, now)
            return False
        full, late = self._waiting.is_full(call), self._is_too_late(call, now)
        if (full or late) and now >= self._look_again:
            # Callers that have gone leave their calls behind until somebody looks; not at every call.
            self._look_again = now + LOOK_SECONDS
            self._expire_waiting(now)
            self._waiting.drop_dead()
            full, late = self._waiting.is_full(call), self._is_too_late(call, now)
        if full or late:
            self.shed += 1
            why = "is full" if full else "is too long for the deadline of this request"
            text = f"the queue of {self._who()} {why}".encode()
            call.settle(UNAVAILABLE, text, now, self._waiting.retry_after(), lacking=b"" if full else LATE)
        return not (full or late)

    def _may_be_held(self, call: Call, now: float) -> bool:
        """For a replica that is started for it, or about to be."""
        self.rouse(now)
        waiting = self._waiting
        full = waiting.is_full(call) or self._nap.is_full(len(waiting) + 1, waiting.bytes + call.size)
        if full and now >= self._look_again:
            self._look_again = now + LOOK_SECONDS
            self._expire_waiting(now)
            waiting.drop_dead()
        if full and (waiting.is_full(call) or self._nap.is_full(len(waiting) + 1, waiting.bytes + call.size)):
            self.shed += 1
            self._send_away(call, now, "and too many wait for it already", NOBODY)
            return False
        return True

    def _send_away(self, call: Call, now: float, why: str, lacking: bytes) -> None:
        """Nobody could answer it yet."""
        phase = f": {self.server.phase}" if self.server.phase else ""
        text = f"{self._who()} has no replica that is ready{phase}, {why}".encode()
        call.settle(UNAVAILABLE, text, now, self._nap.retry_after(now), lacking=lacking)

    def _is_too_late(self, call: Call, now: float) -> bool:
        return self._waiting.is_too_long(call, now, len(self.server.addresses), self._crew.busy_since)

    def _count_workers(self) -> None:
        self._waiting.replicas = len(self._crew.ready)
        self._waiting.ease()

    # Ends

    def _expire_waiting(self, now: float) -> None:
        waking = self.server.wakes and not self._crew.ready
        for call in self._waiting.take_expired(now):
            if waking:  # nobody has seen it: it is not too late to ask again
                self.expired += 1
                self._send_away(call, now, "and was not within the deadline of this request", LATE)
                self._go_on(call)
            else:
                self._expire_unsent(call, now)

    def _expire_unsent(self, call: Call, now: float) -> None:
        self._expire(call, now)
        self._go_on(call)

    def _go_on(self, call: Call) -> None:
        if call.live:  # for others, who have more time
            self.submit(call)

    def _expire(self, call: Call, now: float) -> None:
        self.expired += 1
        call.settle(EXPIRED, self.unanswered, now, lacking=LATE)

    def _offer_waiting(self) -> None:
        """Nobody is there for them just now. Those that nobody else takes wait on."""
        for call in self._waiting.take_all():
            if not self._offer(call):
                self._waiting.put(call)

    def _refuse_waiting(self, now: float) -> None:
        for call in self._waiting.take_all():
            self._refuse_unready(call, now)

    def _refuse_unready(self, call: Call, now: float) -> None:
        call.settle(UNAVAILABLE, f"no replica of {self._who()} is ready".encode(), now, lacking=NOBODY)

    def _who(self) -> str:
        return f"'{self.server.id.rpartition('/')[2]}'"

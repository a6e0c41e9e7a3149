"""The queue of one served version. Late binding: a replica that becomes idle takes waiting calls, up to a batch.

Earliest deadline first. There is no wait timer unless the version asks for one (`batch_wait`). A request is sent in the
loop tick in which it arrived, unless every replica is busy. Each replica has one batch in flight. This module decides
everything about a call between its arrival and its end; it knows no sockets.

Hazards kept in mind: a call ends once (`pending`), even if a reply arrives later. A request that crashes its process
must not take the other calls of its batch down twice (`retry_alone`). A large request must not delay small ones
(`lane_scheduler`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from mizzen.gateway.queueing.backlog import Backlog
from mizzen.gateway.queueing.batch_stats import BatchStats
from mizzen.gateway.queueing.call import BAD_REQUEST, EXPIRED, FAILED, LATE, LOST, NOT_READY, OK, UNAVAILABLE, Call
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.queueing.replica_set import ReplicaHandle, ReplicaSet
from mizzen.gateway.queueing.scale_from_zero import UNLIMITED, Activator, HoldLimits
from mizzen.gateway.queueing.signature import Hello, SignatureCheck, signature_of
from mizzen.graph.table_types import Server
from mizzen.protocol.frames import framing

CLEANUP_SECONDS = 0.05
"""Minimum time between two cleanups of calls whose callers disconnected, in a queue that is too long."""
MAX_RETRIED_BYTES = 16 << 20
"""Larger calls are not sent again after their replica was lost: nothing else is as likely to have ended it."""
QUICK_SECONDS = 0.001
"""A model that answers a batch faster gains more from a larger next batch than from an early one."""

_CODES = {framing.OK: OK, framing.BAD_INPUT: BAD_REQUEST, framing.MODEL_FAILED: FAILED}


class QueueCache(Protocol):
    """The cache in front of a queue (`cache.cached_queue`), as the queue and its users see it."""

    hits: int
    misses: int
    coalesced: int
    hit_seconds: float

    @property
    def followers(self) -> int: ...

    @property
    def entries(self) -> int: ...

    @property
    def cached_bytes(self) -> int: ...

    @property
    def evicted(self) -> int: ...

    def set_limit(self, most: int) -> None: ...

    def sweep(self, now: float) -> None: ...


class Queue:
    """The calls of one served version, and the replicas that are ready for them."""

    # Read for every request: faster than in a dict.
    __slots__ = (
        "_activator", "_backlog", "_call_later", "_call_soon", "_clock", "_gathering", "_hold_seconds", "_hold_until",
        "_idle", "_large", "_next_cleanup", "_offer", "_pumping", "_replaced", "_replicas", "_reroute", "_scheduler",
        "_small", "_timer", "_wakes_at", "cache", "epoch", "expired", "hello", "retried", "server", "shed", "signature",
        "stats",
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
        sweeper: DeadlineTimer,
        offer: Callable[[Call], bool] = lambda call: False,
        held: HoldLimits = UNLIMITED,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`offer` hands a call to another ready server, if there is one. `held` limits what may wait for a server
        without replicas; `wake` is called so that it gets one."""
        self.server = server
        self.hello: Hello | None = None
        """The last hello of a replica; kept while there is no replica."""
        self.signature: SignatureCheck | None = None
        self.epoch = 0
        """Grows when a replica that answered is replaced by others: they may answer differently, for example with
        another environment. All answers of one epoch come from replicas that are present or were just lost."""
        self.cache: QueueCache | None = None
        """The cache in front of this queue, if it has one. The queue passes deadlines and the size limit on to it."""
        self.expired = self.retried = self.shed = 0
        self.stats = BatchStats()
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._call_soon = call_soon
        self._call_later = call_later
        self._timer = sweeper
        self._offer = offer
        self._activator = Activator(held, wake)
        self._backlog = Backlog(limit, byte_limit)
        self._scheduler = self._backlog.scheduler
        self._small = self._backlog.small
        self._large = self._backlog.large
        self._replicas = ReplicaSet()
        self._idle = self._replicas.idle
        self._pumping = False
        self._gathering = False
        """Requests arrive several at a time and the model is fast: a batch also takes those of the next loop turn."""
        self._wakes_at = math.inf
        self._hold_until = clock() + hold_seconds
        self._next_cleanup = 0.0
        self._replaced = False
        """The last replica has left, and no other has come yet."""
        self._reroute: Callable[[list[Call]], None] | None = None
        """Takes the calls once this version is no longer served."""
        self._backlog.limit_batches(server)
        sweeper.queues.add(self)

    @property
    def ready(self) -> bool:
        return bool(self._replicas.ready)

    @property
    def replicas(self) -> int:
        return len(self._replicas.ready)

    @property
    def waiting(self) -> int:
        """Calls that wait for a replica."""
        return len(self._backlog)

    @property
    def waiting_bytes(self) -> int:
        return self._backlog.bytes

    @property
    def batch_limit(self) -> int:
        """Most calls of the next batch."""
        return self._backlog.batch_limit

    @property
    def in_flight(self) -> int:
        return self._replicas.in_flight

    @property
    def busy(self) -> int:
        return len(self._small) + len(self._large) + self._replicas.in_flight

    @property
    def unanswered(self) -> bytes:
        """The message for a call whose deadline passed."""
        return f"{self._display_name()} gave no answer within the deadline".encode()

    def may_hold(self, now: float) -> bool:
        """Whether a replica is expected soon enough to wait for it."""
        if self._reroute is not None:
            return False
        return self.server.wakes or (now < self._hold_until and bool(self.server.addresses))

    def request_replica(self, now: float) -> None:
        """A request arrived. If there is no replica and the server scales from zero, ask for one."""
        if self.server.wakes and not self._replicas.ready:
            self._activator.on_request(now)

    def is_awaited(self, now: float) -> bool:
        """Whether callers wait for the first replica."""
        return not self._replicas.ready and self._activator.is_awaited(now)

    def submit(self, call: Call) -> None:
        lane, waiting = self._small, self._backlog
        size = lane.bytes + call.size
        waits = len(lane)
        if waits >= waiting.fast_admit or size > waiting.fast_admit_bytes:
            if not self._admit(call):
                return
            waiting.put(call)
        elif waits and call.deadline < lane[-1].deadline:
            lane.put(call)
        else:
            lane.append(call)
            lane.bytes = size
        if self._idle and not self._pumping:
            self._pumping = True
            self._call_soon(self._pump_next_turn if self._gathering else self._pump)
        if not self._timer.armed:
            self._timer.arm()

    def tell(self, feedback: bytes) -> bool:
        """Send feedback to one replica that takes it. False: none does. Delivery is not confirmed."""
        return any(replica.tell(feedback) for replica in self._replicas.ready)

    # Reports of replicas

    def on_ready(self, replica: ReplicaHandle, hello: Hello) -> None:
        self.hello = hello
        self.signature = signature_of(hello)
        if self._replaced:
            self._replaced = False
            self.epoch += 1
        self._replicas.add(replica)
        self._activator.on_ready(self._clock())
        self._update_replica_count()
        self._pump()

    def on_reply(
        self, replica: ReplicaHandle, entries: Sequence[tuple[int, bytes]], service_seconds: float, before: float = 0.0,
        after: float = 0.0,
    ) -> None:  # fmt: skip
        """The replies to a batch, one entry per call; the time that the model took for all of them, and its runtime
        before and after that."""
        out = self._replicas.take_batch(replica)
        assert out is not None
        batch, lane, sent_at = out
        items = len(batch)
        now = self._clock()
        self.stats.on_reply(items, service_seconds, now, before, after)
        self._scheduler.on_reply(lane, now - sent_at, now)
        self._backlog.on_reply(items, service_seconds)
        self._gathering = items > 1 and service_seconds < QUICK_SECONDS
        if self._replicas.mark_idle(replica):
            if service_seconds >= QUICK_SECONDS:
                self._pump()  # before the answers are written, so that the replica computes meanwhile
            elif not self._pumping:
                self._pumping = True
                self._call_soon(self._pump_next_turn)
        for call, (status, payload) in zip(batch, entries, strict=True):
            if call.pending:
                call.finish(_CODES[status], payload, now)
            else:
                call.on_late_answer(_CODES[status], payload)

    def on_drain(self, replica: ReplicaHandle) -> None:
        """The replica takes no more batches; it still answers the one it has."""
        if self._replicas.drain(replica):
            self._update_replica_count()
            if self._replicas.ready:
                self.epoch += 1
            else:
                self._replaced = True
                self._hold_until = self._clock() + self._hold_seconds
                self._offer_backlog()
                if self._backlog:
                    self.request_replica(self._clock())

    def on_out_of_memory(self, replica: ReplicaHandle, place: int) -> None:
        """The replica is ending because its memory ran out with this call of its batch, and no other. Sent again, the
        call would end the next replica, too."""
        out = self._replicas.batches.get(replica)
        if out is not None and place < len(out[0]) and out[0][place].pending:
            text = f"{self._display_name()} ran out of memory with this request, which is not sent again"
            out[0][place].finish(FAILED, text.encode(), self._clock())

    def on_disconnect(self, replica: ReplicaHandle) -> None:
        """The replica is gone, and with it the replies it owed."""
        self.on_drain(replica)
        out = self._replicas.take_batch(replica)
        if out is None:
            return
        batch, lane, _ = out
        self._scheduler.on_lost(lane)
        again = []
        for call in batch:
            if not call.pending:
                continue
            if self.server.idempotent and not call.retry_alone and call.size <= MAX_RETRIED_BYTES:
                call.retry_alone = True
                again.append(call)
            else:
                call.finish(LOST, f"the process serving {self._display_name()} was lost".encode(), self._clock())
        if again:
            self.retried += len(again)
            if self._reroute is not None:
                self._reroute(again)
                return
            self._backlog.requeue(lane, again)
            if not self._replicas.ready:
                self._offer_backlog()
                self.request_replica(self._clock())
            if not self._timer.armed:
                self._timer.arm()
        self._pump()

    # Changes by the Table

    def update(self, server: Server) -> None:
        """The same served version has other addresses or limits."""
        before = self.server.addresses
        # A server that is asleep keeps its cache; one that was scaled to zero by hand does not.
        if before and set(before).isdisjoint(server.addresses) and (server.addresses or not server.wakes):
            self.epoch += 1
        self._backlog.limit_batches(server)
        if server.addresses and not before:  # a replica will be ready soon
            self._hold_until = self._clock() + self._hold_seconds
        if self.cache is not None:
            self.cache.set_limit(server.cache_bytes)
        self.server = server
        if not self._replicas.ready and not server.addresses and not server.wakes:
            self._reject_backlog(self._clock())
        elif self._backlog:
            self.request_replica(self._clock())

    def retire(self, elsewhere: Callable[[list[Call]], None]) -> None:
        """The version is no longer served: waiting calls go elsewhere, calls in flight may finish."""
        self._reroute = elsewhere
        waiting = self._backlog.take_all()
        self._replicas.drain_all()
        self._update_replica_count()
        if not self._replicas.batches:
            self._timer.queues.discard(self)
        elsewhere(waiting)

    def sweep(self, now: float) -> None:
        if self.cache is not None:
            self.cache.sweep(now)
        self._expire_backlog(now)
        for batch, _, _ in self._replicas.batches.values():
            for call in batch:
                if call.pending and call.deadline <= now:
                    self._expire(call, now)
        if not self._replicas.ready and self._backlog and not self.may_hold(now):
            self._reject_backlog(now)
        if self._reroute is not None and not self._replicas.batches:
            self._timer.queues.discard(self)

    # Sending

    def _pump_next_turn(self) -> None:
        """Pump after the loop has read what arrived while answers were written, so that those calls join the batch."""
        self._call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        idle = self._idle
        while idle and (self._small or self._large):
            now = self._clock()
            lane = self._small
            if self._large:
                chosen, wait = self._scheduler.next(self._backlog.replicas, now)
                if chosen is None:
                    self._wake(wait, now)
                    return
                lane = chosen
            if self.server.batch_wait:
                due = self._backlog.due_at(lane, now, self.server.batch_wait)
                if due > now:
                    self._wake(due, now)
                    return
            batch, expired = self._backlog.take(lane, now)
            for call in expired:
                self._expire_unsent(call, now)
            if not batch:
                continue
            self._scheduler.on_sent(lane, now)
            self.stats.on_sent(batch, now)
            self._replicas.send(batch, lane, now)

    def _wake(self, at: float, now: float) -> None:
        if at < self._wakes_at:
            self._wakes_at = at
            self._call_later(at - now, self._on_wake)

    def _on_wake(self) -> None:
        self._wakes_at = math.inf
        self._pump()

    # Admission

    def _admit(self, call: Call) -> bool:
        """Whether there is a replica, room and time for a call. A call that is not admitted is finished here."""
        if self._reroute is not None:  # the caller found this queue before the Table changed
            self._reroute([call])
            return False
        now = self._clock()
        if not self._replicas.ready and self.server.wakes:
            return self._admit_held(call, now)
        if not self._replicas.ready and not self.may_hold(now):
            self._reject_unready(call, now)
            return False
        full, late = self._backlog.is_full(call), self._is_too_late(call, now)
        if (full or late) and now >= self._next_cleanup:
            # Calls of disconnected callers stay until a cleanup, which is too expensive for every call.
            self._next_cleanup = now + CLEANUP_SECONDS
            self._expire_backlog(now)
            self._backlog.drop_dead()
            full, late = self._backlog.is_full(call), self._is_too_late(call, now)
        if full or late:
            self.shed += 1
            why = "is full" if full else "is too long for the deadline of this request"
            text = f"the queue of {self._display_name()} {why}".encode()
            call.finish(UNAVAILABLE, text, now, self._backlog.retry_after(), lacking=b"" if full else LATE)
        return not (full or late)

    def _admit_held(self, call: Call, now: float) -> bool:
        """Whether a call may wait for a replica that is started for it. A call that may not is finished here."""
        self.request_replica(now)
        waiting = self._backlog
        full = waiting.is_full(call) or self._activator.is_full(len(waiting) + 1, waiting.bytes + call.size)
        if full and now >= self._next_cleanup:
            self._next_cleanup = now + CLEANUP_SECONDS
            self._expire_backlog(now)
            waiting.drop_dead()
        if full and (waiting.is_full(call) or self._activator.is_full(len(waiting) + 1, waiting.bytes + call.size)):
            self.shed += 1
            self._reject_held(call, now, "and too many requests already wait for one", NOT_READY)
            return False
        return True

    def _reject_held(self, call: Call, now: float, why: str, lacking: bytes) -> None:
        """Finish a call that no replica could answer yet."""
        phase = f": {self.server.phase}" if self.server.phase else ""
        text = f"{self._display_name()} has no ready replica{phase}, {why}".encode()
        call.finish(UNAVAILABLE, text, now, self._activator.retry_after(now), lacking=lacking)

    def _is_too_late(self, call: Call, now: float) -> bool:
        return self._backlog.is_too_long(call, now, len(self.server.addresses), self._replicas.busy_since)

    def _update_replica_count(self) -> None:
        self._backlog.replicas = len(self._replicas.ready)
        self._backlog.refresh_fast_admit()

    # Ends

    def _expire_backlog(self, now: float) -> None:
        waking = self.server.wakes and not self._replicas.ready
        for call in self._backlog.take_expired(now):
            if waking:  # no replica has seen it, so the caller may retry
                self.expired += 1
                self._reject_held(call, now, "and none became ready within the deadline of this request", LATE)
                self._resubmit_pending(call)
            else:
                self._expire_unsent(call, now)

    def _expire_unsent(self, call: Call, now: float) -> None:
        self._expire(call, now)
        self._resubmit_pending(call)

    def _resubmit_pending(self, call: Call) -> None:
        if call.pending:  # other callers have more time
            self.submit(call)

    def _expire(self, call: Call, now: float) -> None:
        self.expired += 1
        call.finish(EXPIRED, self.unanswered, now, lacking=LATE)

    def _offer_backlog(self) -> None:
        """No replica is ready: offer the waiting calls to other servers. The rest keep waiting."""
        for call in self._backlog.take_all():
            if not self._offer(call):
                self._backlog.put(call)

    def _reject_backlog(self, now: float) -> None:
        for call in self._backlog.take_all():
            self._reject_unready(call, now)

    def _reject_unready(self, call: Call, now: float) -> None:
        call.finish(UNAVAILABLE, f"no replica of {self._display_name()} is ready".encode(), now, lacking=NOT_READY)

    def _display_name(self) -> str:
        return f"'{self.server.id.rpartition('/')[2]}'"

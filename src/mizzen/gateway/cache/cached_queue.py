"""A queue with a cache in front of it, which callers use in place of the queue.

Three rules prevent stale answers. Another version, or other files, has another queue and its own cache. A queue whose
processes change begins a new epoch (`Queue.epoch`), which clears the cache. A call of one epoch is never cached in the
next, nor joined by requests of the next.

Only full answers of the model are cached, including those that came too late for their caller; never errors or
defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mizzen.gateway.cache.coalescing import CoalescedCall, CoalescedWaiters
from mizzen.gateway.cache.entries import CacheEntries, CacheEntry
from mizzen.gateway.cache.keys import key_of
from mizzen.gateway.queueing.call import EXPIRED, NOT_READY, OK, UNAVAILABLE, Call
from mizzen.gateway.queueing.queue import CLEANUP_SECONDS, Queue
from mizzen.gateway.queueing.scale_from_zero import FIRST_START_SECONDS
from mizzen.gateway.request.head import RequestHead

HIT = b"mizzen-cache: hit\r\n"
BODY_BYTES = 2048
"""Largest body that is indexed as a whole: parsing a larger one costs little compared with the rest."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """Limits on requests that wait for one served version, including those that wait for another one's call."""

    waiting: int
    held: int
    """While no replica is ready and one is starting."""


UNLIMITED = WaitLimits(1 << 30, 1 << 30)


def wrap_queue(queue: Queue, clock: Callable[[], float], limits: WaitLimits = UNLIMITED) -> Queue | CachedQueue:
    """Returns the queue, or its cache if the server currently has one."""
    most = queue.server.cache_bytes
    if most and queue.cache is None:
        queue.cache = CachedQueue(queue, most, clock, limits)
    return cache_of(queue) or queue


def cache_of(queue: Queue) -> CachedQueue | None:
    """The cache before a queue, by what the queue's server says now; None: it has none."""
    cache = queue.cache if queue.server.cache_bytes else None
    assert cache is None or isinstance(cache, CachedQueue)
    return cache


class CachedQueue:
    __slots__ = (
        "_cache", "_clock", "_epoch", "_joinable", "_last_hit", "_limits", "_look_again", "_open", "_queue", "_waiters",
        "coalesced", "hit_seconds", "hits", "misses",
    )  # fmt: skip

    def __init__(self, queue: Queue, most: int, clock: Callable[[], float], limits: WaitLimits = UNLIMITED) -> None:
        self.hits = self.coalesced = self.misses = 0
        """Requests answered from the cache, those that waited for another one's call, and those that made a call."""
        self.hit_seconds = 0.0
        self._queue = queue
        self._clock = clock
        self._epoch = queue.epoch
        self._cache = CacheEntries(most)
        self._last_hit: CacheEntry | None = None
        """The entry that answered the last request, if it was a hit."""
        self._joinable: dict[bytes, CoalescedCall] = {}
        """Calls that requests may join, by key."""
        self._open: set[CoalescedCall] = set()
        """All calls that may have waiting requests."""
        self._waiters = CoalescedWaiters(self._forget)
        self._limits = limits
        self._look_again = 0.0

    @property
    def ready(self) -> bool:
        return self._queue.ready

    @property
    def busy(self) -> int:
        return self._queue.busy

    @property
    def followers(self) -> int:
        """Requests that wait for another request's call."""
        return self._waiters.followers

    @property
    def entries(self) -> int:
        return len(self._cache)

    @property
    def cached_bytes(self) -> int:
        return self._cache.bytes

    @property
    def evicted(self) -> int:
        return self._cache.evicted

    def find_by_body(self, body: bytes, head: RequestHead) -> bytes | None:
        """Returns the cached payload for a body before it is parsed; None: it must be parsed."""
        if len(body) > BODY_BYTES or head.header_length is not None or head.timeout_ms is not None:
            return None
        if self._epoch != self._queue.epoch:
            self._begin_epoch()
        entry = self._cache.bodies.get(body)
        if entry is None:
            return None
        entry.used = True
        self.hits += 1
        return entry.payload

    def remember_body(self, body: bytes, head: RequestHead) -> None:
        """Indexes the body of the last submitted request, if it was a hit. Bodies with an id, however escaped, are
        unique; for bodies with binary data, only the headers say where the data begins."""
        if self._last_hit is None or len(body) > BODY_BYTES or head.header_length is not None:
            return
        if b'"id"' not in body and b"\\" not in body:
            self._cache.index_body(self._last_hit, body)

    def submit(self, call: Call) -> None:
        self._last_hit = None
        key = key_of(call.item, call.size)
        if key is None:
            self._queue.submit(call)
            return
        if self._epoch != self._queue.epoch:
            self._begin_epoch()
        entry = self._cache.entries.get(key)
        if entry is not None:
            self._last_hit = entry
            entry.used = True
            now = self._clock()
            self.hits += 1
            self.hit_seconds += now - call.began
            call.finish_from_cache(entry.payload, now, HIT)
            return
        shared = self._joinable.get(key)
        joins = shared is not None and shared.pending
        if (joins or self._waiters.followers) and self._is_full():
            self._reject(call)
            return
        if joins and shared is not None:
            self.coalesced += 1
            shared.join(call)
            if not self._queue.ready:
                self._queue.request_replica(self._clock())
            return
        self.misses += 1
        shared = self._joinable[key] = CoalescedCall(key, self._epoch, call, self._on_end, self._waiters)
        self._open.add(shared)
        self._queue.submit(shared)

    def set_limit(self, most: int) -> None:
        self._cache.set_limit(most)

    def sweep(self, now: float) -> None:
        """Ends joined requests whose deadline is earlier than that of their call; the queue only checks the call's.
        Calls without joined requests cost nothing here."""
        for shared in [each for each in self._waiters.early if each.due <= now]:
            if shared.deadline > now:
                self._expire(shared, now)
            if shared.due >= shared.deadline:
                self._waiters.early.discard(shared)

    def _expire(self, shared: CoalescedCall, now: float) -> None:
        queue = self._queue
        if queue.ready or queue.in_flight or not queue.server.wakes:
            queue.expired += shared.expire(EXPIRED, queue.unanswered, now)
            return
        for caller in shared.take_expired(now):  # the call was never sent: the queue answers as for any held call
            queue.submit(caller)

    @property
    def _asleep(self) -> bool:
        return self._queue.server.wakes and not self._queue.ready

    def _is_full(self) -> bool:
        room = self._limits.held if self._asleep else self._limits.waiting
        if self._queue.waiting + self._waiters.followers < room:
            return False
        now = self._clock()
        if now >= self._look_again:  # cancelled callers count until this check; too costly for every call
            self._look_again = now + CLEANUP_SECONDS
            for shared in list(self._open):
                shared.drop_cancelled()
        return self._queue.waiting + self._waiters.followers >= room

    def _reject(self, call: Call) -> None:
        now, server = self._clock(), self._queue.server
        self._queue.shed += 1
        who = f"'{server.id.rpartition('/')[2]}'"
        if self._asleep:
            self._queue.request_replica(now)
            phase = f": {server.phase}" if server.phase else ""
            text = f"{who} has no ready replica{phase}, and too many requests already wait for one"
            call.finish(UNAVAILABLE, text.encode(), now, math.ceil(FIRST_START_SECONDS), lacking=NOT_READY)
        else:
            call.finish(UNAVAILABLE, f"the queue of {who} is full".encode(), now)

    def _on_end(self, shared: CoalescedCall, code: int, payload: bytes) -> None:
        self._forget(shared)
        if code == OK and shared.epoch == self._queue.epoch:
            self._cache.add(shared.key, payload)

    def _forget(self, shared: CoalescedCall) -> None:
        self._open.discard(shared)
        self._waiters.early.discard(shared)
        if self._joinable.get(shared.key) is shared:
            del self._joinable[shared.key]

    def _begin_epoch(self) -> None:
        self._epoch = self._queue.epoch
        self._cache.clear()
        self._joinable = {}

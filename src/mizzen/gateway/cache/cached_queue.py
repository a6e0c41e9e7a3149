"""A server with a cache, as its callers see it: in the place of its queue.

Three things keep an old answer from being told as a new one. Another version, or other files, is another queue, and has
a cache of its own. A queue whose processes change moves on to another era (`Queue.era`), and what was kept in the one
before is forgotten. And what was asked in one era is never kept in the next, nor joined by those who come in it.

Kept are full answers of the model, also those that came too late for whoever asked; never an error, never a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mizzen.gateway.cache.coalescing import Crowd, Shared
from mizzen.gateway.cache.entries import Entry, Kept
from mizzen.gateway.cache.keys import key_of
from mizzen.gateway.inference.calls import EXPIRED, NOBODY, OK, UNAVAILABLE, Call
from mizzen.gateway.queueing.queue import LOOK_SECONDS, Queue
from mizzen.gateway.queueing.scale_from_zero import FIRST_GUESS

if TYPE_CHECKING:
    from mizzen.gateway.inference.protocols import Options

HIT = b"mizzen-cache: hit\r\n"
BODY_BYTES = 2048
"""Of bodies that are known whole: to read larger ones costs little beside the rest of them."""


@dataclass(frozen=True, slots=True)
class Room:
    """Most requests that wait for one served version, whoever's call it is."""

    waiting: int
    held: int
    """While none of its replicas is ready, and one is started."""


ENDLESS = Room(1 << 30, 1 << 30)


def before(queue: Queue, clock: Callable[[], float], room: Room = ENDLESS) -> Queue | Cached:
    """What calls are submitted to, by what the queue's server says now."""
    most = queue.server.cache_bytes
    if most and queue.cache is None:
        queue.cache = Cached(queue, most, clock, room)
    return queue.cache if most and queue.cache is not None else queue


class Cached:
    __slots__ = (
        "_clock",
        "_crowd",
        "_era",
        "_found",
        "_kept",
        "_look_again",
        "_open",
        "_queue",
        "_room",
        "_shared",
        "hit_seconds",
        "hits",
        "misses",
        "shares",
    )

    def __init__(self, queue: Queue, most: int, clock: Callable[[], float], room: Room = ENDLESS) -> None:
        self.hits = self.shares = self.misses = 0
        """Requests that were answered from here, that waited for another one's call, and that made one."""
        self.hit_seconds = 0.0
        self._queue = queue
        self._clock = clock
        self._era = queue.era
        self._kept = Kept(most)
        self._found: Entry | None = None
        """What the last request was answered with, if it was from here."""
        self._shared: dict[bytes, Shared] = {}
        """Those that may be joined."""
        self._open: set[Shared] = set()
        """All that somebody may wait for."""
        self._crowd = Crowd(self._forget)
        self._room = room
        self._look_again = 0.0

    @property
    def ready(self) -> bool:
        return self._queue.ready

    @property
    def busy(self) -> int:
        return self._queue.busy

    @property
    def followers(self) -> int:
        """Requests that wait for the call of another one."""
        return self._crowd.followers

    @property
    def entries(self) -> int:
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        return self._kept.bytes

    @property
    def evicted(self) -> int:
        return self._kept.evicted

    def known(self, body: bytes, options: Options) -> bytes | None:
        """The payload that answers it, known before it is read; None: it has to be."""
        if len(body) > BODY_BYTES or options.header_length is not None or options.timeout_ms is not None:
            return None
        if self._era != self._queue.era:
            self._begin_era()
        entry = self._kept.bodies.get(body)
        if entry is None:
            return None
        entry.used = True
        self.hits += 1
        return entry.payload

    def know(self, body: bytes, options: Options) -> None:
        """It is that of the request that was submitted last. One that has an id, however it is spelled, is unlike all
        others; in one that has bytes behind its text, only its head tells where they begin."""
        if self._found is None or len(body) > BODY_BYTES or options.header_length is not None:
            return
        if b'"id"' not in body and b"\\" not in body:
            self._kept.know(self._found, body)

    def submit(self, call: Call) -> None:
        self._found = None
        key = key_of(call.item, call.size)
        if key is None:
            self._queue.submit(call)
            return
        if self._era != self._queue.era:
            self._begin_era()
        entry = self._kept.entries.get(key)
        if entry is not None:
            self._found = entry
            entry.used = True
            now = self._clock()
            self.hits += 1
            self.hit_seconds += now - call.began
            call.found(entry.payload, now, HIT)
            return
        shared = self._shared.get(key)
        joins = shared is not None and shared.live
        if (joins or self._crowd.followers) and self._is_full():
            self._send_away(call)
            return
        if joins and shared is not None:
            self.shares += 1
            shared.join(call)
            if not self._queue.ready:
                self._queue.rouse(self._clock())
            return
        self.misses += 1
        shared = self._shared[key] = Shared(key, self._era, call, self._ended, self._crowd)
        self._open.add(shared)
        self._queue.submit(shared)

    def limit(self, most: int) -> None:
        self._kept.limit(most)

    def sweep(self, now: float) -> None:
        """The queue sees to the deadline of a shared call; to earlier ones of those who joined it nobody else does.
        Calls that nobody joined cost nothing here, however many wait."""
        for shared in [each for each in self._crowd.early if each.due <= now]:
            if shared.deadline > now:
                self._expire(shared, now)
            if shared.due >= shared.deadline:
                self._crowd.early.discard(shared)

    def _expire(self, shared: Shared, now: float) -> None:
        queue = self._queue
        if queue.ready or queue.in_flight or not queue.server.wakes:
            queue.expired += shared.expire(EXPIRED, queue.unanswered, now)
            return
        for caller in shared.take_late(now):  # nobody has seen it: the queue says so, as to any that it holds
            queue.submit(caller)

    @property
    def _asleep(self) -> bool:
        return self._queue.server.wakes and not self._queue.ready

    def _is_full(self) -> bool:
        room = self._room.held if self._asleep else self._room.waiting
        if self._queue.waiting + self._crowd.followers < room:
            return False
        now = self._clock()
        if now >= self._look_again:  # callers that have gone are counted until somebody looks; not at every call
            self._look_again = now + LOOK_SECONDS
            for shared in list(self._open):
                shared.drop_dead()
        return self._queue.waiting + self._crowd.followers >= room

    def _send_away(self, call: Call) -> None:
        now, server = self._clock(), self._queue.server
        self._queue.shed += 1
        who = f"'{server.id.rpartition('/')[2]}'"
        if self._asleep:
            self._queue.rouse(now)
            phase = f": {server.phase}" if server.phase else ""
            text = f"{who} has no replica that is ready{phase}, and too many wait for it already"
            call.settle(UNAVAILABLE, text.encode(), now, math.ceil(FIRST_GUESS), lacking=NOBODY)
        else:
            call.settle(UNAVAILABLE, f"the queue of {who} is full".encode(), now)

    def _ended(self, shared: Shared, code: int, payload: bytes) -> None:
        self._forget(shared)
        if code == OK and shared.era == self._queue.era:
            self._kept.keep(shared.key, payload)

    def _forget(self, shared: Shared) -> None:
        self._open.discard(shared)
        self._crowd.early.discard(shared)
        if self._shared.get(shared.key) is shared:
            del self._shared[shared.key]

    def _begin_era(self) -> None:
        self._era = self._queue.era
        self._kept.clear()
        self._shared = {}

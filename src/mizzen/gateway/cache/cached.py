"""A server with a cache, as its callers see it: in the place of its queue.

Three things keep an old answer from being told as a new one. Another version, or other files, is another queue, and has
a cache of its own. A queue whose processes change moves on to another era (`Queue.era`), and what was kept in the one
before is forgotten. And what was asked in one era is never kept in the next, nor joined by those who come in it.

Kept are full answers of the model, also those that came too late for whoever asked; never an error, never a default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mizzen.gateway.cache.kept import Entry, Kept
from mizzen.gateway.cache.keys import key_of
from mizzen.gateway.cache.shared import Shared
from mizzen.gateway.calls import EXPIRED, OK, Call
from mizzen.gateway.queues import Queue

if TYPE_CHECKING:
    from mizzen.gateway.dialects import Options

HIT = b"mizzen-cache: hit\r\n"
BODY_BYTES = 2048
"""Of bodies that are known whole: to read larger ones costs little beside the rest of them."""


def before(queue: Queue, clock: Callable[[], float]) -> Queue | Cached:
    """What calls are submitted to, by what the queue's server says now."""
    most = queue.server.cache_bytes
    if most and queue.cache is None:
        queue.cache = Cached(queue, most, clock)
    return queue.cache if most and queue.cache is not None else queue


class Cached:
    __slots__ = (
        "_clock",
        "_era",
        "_found",
        "_kept",
        "_open",
        "_queue",
        "_shared",
        "hit_seconds",
        "hits",
        "misses",
        "shares",
    )

    def __init__(self, queue: Queue, most: int, clock: Callable[[], float]) -> None:
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

    @property
    def ready(self) -> bool:
        return self._queue.ready

    @property
    def busy(self) -> int:
        return self._queue.busy

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
        if shared is not None and shared.live:
            self.shares += 1
            shared.join(call)
            return
        self.misses += 1
        shared = self._shared[key] = Shared(key, self._era, call, self._ended)
        self._open.add(shared)
        self._queue.submit(shared)

    def limit(self, most: int) -> None:
        self._kept.limit(most)

    def sweep(self, now: float) -> None:
        """The queue sees to the deadline of a shared call; to earlier ones of those who joined it nobody else does."""
        text = self._queue.unanswered
        for shared in list(self._open):
            if shared.deadline > now:
                self._queue.expired += shared.expire(EXPIRED, text, now)
            if not shared.live:
                self._forget(shared)

    def _ended(self, shared: Shared, code: int, payload: bytes) -> None:
        self._forget(shared)
        if code == OK and shared.era == self._queue.era:
            self._kept.keep(shared.key, payload)

    def _forget(self, shared: Shared) -> None:
        self._open.discard(shared)
        if self._shared.get(shared.key) is shared:
            del self._shared[shared.key]

    def _begin_era(self) -> None:
        self._era = self._queue.era
        self._kept.clear()
        self._shared = {}

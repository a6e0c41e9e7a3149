"""Cached answers by key, within a byte limit. Answers with a hit are also indexed by the whole body of the request,
which can be looked up before the body is parsed.

Eviction uses CLOCK: a hand moves around all entries and evicts the first that was not used since it last passed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

OVERHEAD = 288
"""Bytes of an entry in addition to its payload and key: objects, and slots in the dict and the ring."""
BODY_OVERHEAD = 160
"""The same for an indexed body."""


@dataclass(slots=True, eq=False)
class CacheEntry:
    key: bytes
    payload: bytes
    body: bytes | None = None
    """The body of a request that this entry answers, if indexed."""
    used: bool = False
    """Used since the hand last passed."""

    @property
    def size(self) -> int:
        of_body = 0 if self.body is None else len(self.body) + BODY_OVERHEAD
        return len(self.key) + len(self.payload) + OVERHEAD + of_body


class CacheEntries:
    __slots__ = ("_max_bytes", "_ring", "bodies", "bytes", "entries", "evicted")

    def __init__(self, most: int) -> None:
        self.entries: dict[bytes, CacheEntry] = {}
        """Code that takes an entry must set its `used`."""
        self.bodies: dict[bytes, CacheEntry] = {}
        """Some of the same entries, by body."""
        self.bytes = self.evicted = 0
        self._max_bytes = most
        self._ring: deque[CacheEntry] = deque()
        """The hand is at the left end; rotating the ring moves it."""

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, key: bytes, payload: bytes) -> None:
        """Ignores entries larger than the limit, and keys that exist already."""
        size = len(key) + len(payload) + OVERHEAD
        if size > self._max_bytes or key in self.entries:
            return
        self._make_room(self._max_bytes - size)
        entry = CacheEntry(key, payload)
        self.entries[key] = entry
        self._ring.append(entry)
        self.bytes += size

    def index_body(self, entry: CacheEntry, body: bytes) -> None:
        """Only the first body of an entry is indexed."""
        if entry.body is None and entry.size + len(body) + BODY_OVERHEAD <= self._max_bytes:
            entry.body = body
            self.bodies[body] = entry
            self.bytes += len(body) + BODY_OVERHEAD
            entry.used = True  # it must not be evicted for its own body
            self._make_room(self._max_bytes)

    def set_limit(self, most: int) -> None:
        self._max_bytes = most
        self._make_room(most)

    def clear(self) -> None:
        """Does not count as eviction: these answers would be stale."""
        self.entries = {}
        self.bodies = {}
        self._ring.clear()
        self.bytes = 0

    def _make_room(self, most: int) -> None:
        ring = self._ring
        while self.bytes > most:
            entry = ring.popleft()
            if entry.used:
                entry.used = False
                ring.append(entry)
                continue
            del self.entries[entry.key]
            if entry.body is not None:
                del self.bodies[entry.body]
            self.bytes -= entry.size
            self.evicted += 1

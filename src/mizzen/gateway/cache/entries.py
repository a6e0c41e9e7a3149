"""Answers by their keys, within a number of bytes. Those that are asked for again are known by the whole body of such a
request as well, which can be looked for before anything is read of it.

Which one has to go is decided by CLOCK: a hand goes round over all of them and takes the first that was not asked for
since it last came by.
"""

from __future__ import annotations

from collections import deque

OVERHEAD = 288
"""Bytes that an answer takes beside its own and those of its key: objects, and its places in dict and ring."""
BODY_OVERHEAD = 160
"""Likewise for a body."""


class Entry:
    __slots__ = ("body", "key", "payload", "used")

    def __init__(self, key: bytes, payload: bytes) -> None:
        self.key = key
        self.payload = payload
        self.body: bytes | None = None
        """Of a request that it answers."""
        self.used = False
        """Asked for since the hand came by."""

    @property
    def size(self) -> int:
        of_body = 0 if self.body is None else len(self.body) + BODY_OVERHEAD
        return len(self.key) + len(self.payload) + OVERHEAD + of_body


class Kept:
    __slots__ = ("_most", "_ring", "bodies", "bytes", "entries", "evicted")

    def __init__(self, most: int) -> None:
        self.entries: dict[bytes, Entry] = {}
        """Whoever takes an answer from here notes that it is `used`."""
        self.bodies: dict[bytes, Entry] = {}
        """Some of the same."""
        self.bytes = self.evicted = 0
        self._most = most
        self._ring: deque[Entry] = deque()
        """The hand is at its left end: going on is turning it."""

    def __len__(self) -> int:
        return len(self.entries)

    def keep(self, key: bytes, payload: bytes) -> None:
        """One that is larger than all may be together is not kept; of two under one key the first is."""
        size = len(key) + len(payload) + OVERHEAD
        if size > self._most or key in self.entries:
            return
        self._make_room(self._most - size)
        entry = Entry(key, payload)
        self.entries[key] = entry
        self._ring.append(entry)
        self.bytes += size

    def know(self, entry: Entry, body: bytes) -> None:
        """By the first body that comes; one answer needs no two."""
        if entry.body is None and entry.size + len(body) + BODY_OVERHEAD <= self._most:
            entry.body = body
            self.bodies[body] = entry
            self.bytes += len(body) + BODY_OVERHEAD
            entry.used = True  # it is not what has to go for it
            self._make_room(self._most)

    def limit(self, most: int) -> None:
        self._most = most
        self._make_room(most)

    def clear(self) -> None:
        """Not an eviction: these answers would be wrong now."""
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

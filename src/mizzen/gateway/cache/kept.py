"""Answers by their keys, within a number of bytes. Which one has to go is decided by CLOCK: a hand goes round over all
of them and takes the first that was not asked for since it last came by.
"""

from __future__ import annotations

from collections import deque

OVERHEAD = 288
"""Bytes that an answer takes beside its own and those of its key: objects, and its places in dict and ring."""


class Entry:
    __slots__ = ("key", "payload", "used")

    def __init__(self, key: bytes, payload: bytes) -> None:
        self.key = key
        self.payload = payload
        self.used = False
        """Asked for since the hand came by."""


class Kept:
    __slots__ = ("_most", "_ring", "bytes", "entries", "evicted")

    def __init__(self, most: int) -> None:
        self.entries: dict[bytes, Entry] = {}
        """Whoever takes an answer from here notes that it is `used`."""
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

    def limit(self, most: int) -> None:
        self._most = most
        self._make_room(most)

    def clear(self) -> None:
        """Not an eviction: these answers would be wrong now."""
        self.entries = {}
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
            self.bytes -= len(entry.key) + len(entry.payload) + OVERHEAD
            self.evicted += 1

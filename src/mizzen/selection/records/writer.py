"""What a gateway writes: the records of one graph or model.

Writing is an assignment to mapped memory: every process sees it at once, it survives the end of this one, and no record
costs a call of the system. A new segment is begun when one is full, or has been in use for an eighth of the time that
records are kept; then the oldest ones are removed, as far as they are too old or too many bytes.

A prediction never fails for this. Where nothing can be written its id is a plain one, that names no record, and
`lost` counts it.
"""

from __future__ import annotations

import logging
import os
from binascii import unhexlify
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from mizzen.graph import table_types
from mizzen.selection.records import segments
from mizzen.selection.records.client_id_index import Index, remove_unless, size_for
from mizzen.selection.records.segments import (
    FIRST_SLOT,
    HEAD,
    MAX_OUTPUTS,
    MAX_SLOTS,
    MAX_USER,
    PLAIN,
    SLOT,
    SLOT_BYTES,
    TAIL,
    TOO_LARGE,
    Header,
    Segment,
)

FIRST_BYTES, LEAST_BYTES, MOST_BYTES = 256 << 10, 16 << 10, 8 << 20
"""Of a segment: the first one, those of somebody who keeps little, and any."""
PARTS = 16
"""So many segments, at least, are within the bound of bytes."""
SPANS = 8
"""So many, at least, within that of time."""
LINGER_SECONDS = 120.0
"""How long a segment that is full can still be written to: longer than any request lives."""
RETRY_SECONDS = 1.0
"""Between two attempts to make a file where one has failed."""
_LOW = MAX_SLOTS * SLOT_BYTES
"""Bodies that stand higher leave room for all slots."""
_WORD = 16
_BLOCK_BYTES = 4096

log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    """A segment on disk."""

    path: Path
    size: int
    until: float


class Log:
    __slots__ = (
        "_at", "_complained", "_current", "_end", "_gateway", "_home", "_index", "_index_bytes", "_kept", "_lingering",
        "_prefix", "_retry_at", "_segment_bytes", "_segments", "_slot", "_until", "_wall", "_words", "lost",
    )  # fmt: skip

    def __init__(self, folder: Path, gateway: int, kept: table_types.Kept, *, wall: Callable[[], float]) -> None:
        """`folder`: of all records. `wall`: seconds since 1970. Nothing is opened before it is needed."""
        if not 0 <= gateway <= segments.MAX_GATEWAY:
            raise ValueError(f"gateway {gateway} is beyond {segments.MAX_GATEWAY}")
        self.lost = 0
        """Requests whose record could not be kept."""
        self._home = folder / kept.uid / str(gateway)
        self._gateway = gateway
        self._kept = kept
        self._index_bytes = size_for(kept.max_bytes)
        self._wall = wall
        self._current: Segment | None = None
        self._index: Index | None = None
        self._segments: deque[_Kept] | None = None
        """Those on disk but for the current one, the oldest first; None: nobody has looked."""
        self._lingering: deque[tuple[float, Segment]] = deque()
        self._segment_bytes = FIRST_BYTES
        self._retry_at = 0.0
        self._complained = False
        # Of the current segment, here because each request looks at them.
        self._prefix = b""
        self._slot = self._end = 0
        self._until = 0.0
        self._words, self._at = b"", 0

    def reserve(self) -> bytes:
        """A new id: the address of a record that is unknown until it is written."""
        slot = self._slot
        if slot >= self._end or self._wall() >= self._until:
            if not self._begin():
                self.lost += 1
                return PLAIN + os.urandom(10).hex().encode()
            slot = self._slot
        self._slot = slot + 1
        at = self._at
        if at >= len(self._words):
            self._words, at = os.urandom(_BLOCK_BYTES).hex().encode(), 0
        self._at = at + _WORD
        return b"%b%04x%b" % (self._prefix, slot, self._words[at : at + _WORD])

    def write(self, id_: bytes, what: bytes, user: bytes, outputs: bytes) -> None:
        """What is to be known of the request with this id. `what`: of `what_of`; `outputs`: the payload of the answer,
        of which is kept that it was too large where it has more than MAX_OUTPUTS bytes."""
        slot, word = TAIL.unpack(unhexlify(id_[12:]))
        length = len(outputs)
        if length > MAX_OUTPUTS:
            outputs, length = b"", TOO_LARGE
        if len(user) > MAX_USER:
            user = b""
        body = b"".join((HEAD.pack(word, self._wall(), len(what), len(user), length), what, user, outputs))
        size = len(body)
        own = self._current
        if own is None or id_[:12] != self._prefix or (top := own.top - size) < self._slot * SLOT_BYTES:
            self._write_late(id_[:12], slot, body)
            return
        table = own.map
        table[top : top + size] = body
        own.top = top
        if top < _LOW:
            self._end = top // SLOT_BYTES
        SLOT.pack_into(table, slot * SLOT_BYTES, own.serial, top, crc32(body, own.seed))

    def name(self, id_: bytes, chosen: bytes) -> None:
        """The record is found by an id that the client has chosen, too."""
        if id_.startswith(PLAIN):
            return
        index, now = self._index, self._wall()
        if index is None:
            if now < self._retry_at <= now + RETRY_SECONDS:
                return
            try:
                self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
                index = self._index = Index(self._home, self._index_bytes)
            except OSError as error:
                self._complain(error, now)
                return
        index.put(chosen, id_, now)

    def close(self) -> None:
        """What was written stays."""
        self._forget_index()
        for _, segment in self._lingering:
            segment.close()
        self._lingering.clear()
        if self._current is not None:
            self._current.close()
            self._current = None
        self._prefix, self._slot, self._end = b"", 0, 0

    # When a segment is full

    def _write_late(self, prefix: bytes, slot: int, body: bytes) -> None:
        """The slot may be in a segment that was left since, and the body has to go where there is room."""
        place = self._opened(prefix)
        if place is None or not self._has_room(len(body)):
            self.lost += prefix != PLAIN
            return
        own = self._current
        assert own is not None
        top = own.top = own.top - len(body)
        own.map[top : top + len(body)] = body
        self._end = min(self._end, top // SLOT_BYTES)
        SLOT.pack_into(place.map, slot * SLOT_BYTES, own.serial, top, crc32(body, own.seed))

    def _has_room(self, size: int) -> bool:
        own = self._current
        if own is not None and own.top - size >= self._slot * SLOT_BYTES:
            return True
        return size <= min(self._next_bytes() // 2, segments.MAX_BODY) and self._begin()

    def _opened(self, prefix: bytes) -> Segment | None:
        if self._current is not None and prefix == self._current.prefix:
            return self._current
        return next((segment for _, segment in self._lingering if segment.prefix == prefix), None)

    def _begin(self) -> bool:
        """A new segment is the current one. False: it cannot be made just now."""
        now = self._wall()
        if now < self._retry_at <= now + RETRY_SECONDS:
            return False
        was = self._current
        if was is not None and now < self._until:  # it is full before its time
            self._segment_bytes *= 2
        try:
            fresh = self._created(now)
        except OSError as error:
            self._segment_bytes = FIRST_BYTES
            self._complain(error, now)
            return False
        if was is not None:
            self._lingering.append((now + LINGER_SECONDS, was))
            assert self._segments is not None
            self._segments.append(_Kept(was.path, was.size, was.until))
        while self._lingering and self._lingering[0][0] <= now:
            self._lingering.popleft()[1].close()
        if self._index is not None and not self._index.there:
            self._forget_index()
        self._complained = False
        self._current = fresh
        self._prefix, self._slot, self._until = fresh.prefix, FIRST_SLOT, fresh.until
        self._end = min(MAX_SLOTS, fresh.top // SLOT_BYTES)
        return True

    def _created(self, now: float) -> Segment:
        """OSError."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._segments is None:
            self._segments = _on_disk(self._home)
        if self._index is None:
            remove_unless(self._home, self._index_bytes)
        size = self._next_bytes()
        self._remove_old(size, now)
        until = now + self._kept.max_seconds / SPANS
        last = max((segments.serial_of(each.path.name) or 0 for each in self._segments), default=0)
        serial = max(last, self._current.serial if self._current is not None else 0) + 1
        while True:
            seed = int.from_bytes(os.urandom(4), "little")
            try:
                return segments.create(self._home, Header(self._gateway, serial, seed, until, size))
            except FileExistsError:  # one of this number still ends while the next has begun
                serial += 1

    def _next_bytes(self) -> int:
        part = min(max(self._kept.max_bytes // PARTS, LEAST_BYTES), MOST_BYTES)
        self._segment_bytes = min(self._segment_bytes, part)
        return self._segment_bytes & ~0xFFF

    def _remove_old(self, size: int, now: float) -> None:
        assert self._segments is not None
        current = 0 if self._current is None else self._current.size
        total = size + current + self._index_bytes + sum(each.size for each in self._segments)
        while self._segments:
            oldest = self._segments[0]
            if total <= self._kept.max_bytes and not expired(oldest.until, self._kept.max_seconds, now):
                return
            oldest.path.unlink(missing_ok=True)
            self._segments.popleft()
            total -= oldest.size

    def _complain(self, error: OSError, now: float) -> None:
        self._retry_at = now + RETRY_SECONDS
        if not self._complained:
            log.warning("records of what answered cannot be kept in %s: %s", self._home, error)
            self._complained = True

    def _forget_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def expired(until: float, max_seconds: float, now: float) -> bool:
    """Is everything in a segment too old that gave ids away until then?"""
    return now > until + max_seconds + LINGER_SECONDS


def _on_disk(home: Path) -> deque[_Kept]:
    found = []
    for path in home.iterdir():
        serial = segments.serial_of(path.name)
        if serial is None:
            continue
        try:
            size = path.stat().st_size
            found.append((serial, _Kept(path, size, segments.header(path).until)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # cut short, or not ours: the first to go
            found.append((serial, _Kept(path, 0, 0.0)))
    return deque(each for _, each in sorted(found, key=lambda one: one[0]))

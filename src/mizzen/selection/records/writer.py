"""Writes one gateway's records of one graph or model.

A write is an assignment to mapped memory: every process sees it at once, it survives the end of this process, and it
needs no system call. A new segment starts when the current one is full, or has been in use for an eighth of the
retention time. Then the oldest segments are removed, if they are too old or exceed the size limit.

A prediction never fails because of this. If nothing can be written, its id is a plain one without a record, and `lost`
counts it.
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
from mizzen.selection.records.client_id_index import ClientIdIndex, remove_unless_size, size_for
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
    RecordSegment,
)

FIRST_BYTES, MIN_BYTES, MAX_BYTES = 256 << 10, 16 << 10, 8 << 20
"""Size of a segment: the first, the minimum for small limits, and the maximum."""
PARTS = 16
"""Minimum number of segments within the size limit."""
SPANS = 8
"""Minimum number of segments within the retention time."""
LINGER_SECONDS = 120.0
"""How long a full segment can still be written to: longer than any request takes."""
RETRY_SECONDS = 1.0
"""Between attempts to create a file after a failure."""
_LOW = MAX_SLOTS * SLOT_BYTES
"""Bodies above this offset leave space for all slots."""
_WORD = 16
_BLOCK_BYTES = 4096

log = logging.getLogger(__name__)


class _SegmentFile(NamedTuple):
    """A segment on disk."""

    path: Path
    size: int
    until: float


class RecordLog:
    __slots__ = (
        "_at", "_current", "_end", "_gateway", "_home", "_index", "_index_bytes", "_limits", "_lingering", "_prefix",
        "_retry_at", "_segment_bytes", "_segments", "_slot", "_until", "_wall", "_warned", "_words", "lost",
    )  # fmt: skip

    def __init__(
        self, folder: Path, gateway: int, limits: table_types.RecordLimits, *, wall: Callable[[], float]
    ) -> None:
        """`folder`: of all records. `wall`: returns seconds since 1970. Files are opened when needed."""
        if not 0 <= gateway <= segments.MAX_GATEWAY:
            raise ValueError(f"gateway {gateway} is not within 0 to {segments.MAX_GATEWAY}")
        self.lost = 0
        """Requests whose record could not be stored."""
        self._home = folder / limits.uid / str(gateway)
        self._gateway = gateway
        self._limits = limits
        self._index_bytes = size_for(limits.max_bytes)
        self._wall = wall
        self._current: RecordSegment | None = None
        self._index: ClientIdIndex | None = None
        self._segments: deque[_SegmentFile] | None = None
        """Segments on disk except the current one, oldest first; None: not listed yet."""
        self._lingering: deque[tuple[float, RecordSegment]] = deque()
        self._segment_bytes = FIRST_BYTES
        self._retry_at = 0.0
        self._warned = False
        # Of the current segment; copied here because each request uses them.
        self._prefix = b""
        self._slot = self._end = 0
        self._until = 0.0
        self._words, self._at = b"", 0

    def reserve(self) -> bytes:
        """Return a new id: the address of a record that is unknown until it is written."""
        slot = self._slot
        if slot >= self._end or self._wall() >= self._until:
            if not self._begin_segment():
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
        """Write the record with this id. `what`: from `encode_record`. `outputs`: the payload of the answer; if it has
        more than MAX_OUTPUTS bytes, only TOO_LARGE is stored."""
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

    def add_client_id(self, id_: bytes, chosen: bytes) -> None:
        """Make the record findable by an id that the client chose."""
        if id_.startswith(PLAIN):
            return
        index, now = self._index, self._wall()
        if index is None:
            if now < self._retry_at <= now + RETRY_SECONDS:
                return
            try:
                self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
                index = self._index = ClientIdIndex(self._home, self._index_bytes)
            except OSError as error:
                self._warn_once(error, now)
                return
        index.put(chosen, id_, now)

    def close(self) -> None:
        """Close the files; the records stay on disk."""
        self._forget_index()
        for _, segment in self._lingering:
            segment.close()
        self._lingering.clear()
        if self._current is not None:
            self._current.close()
            self._current = None
        self._prefix, self._slot, self._end = b"", 0, 0

    # Changing segments

    def _write_late(self, prefix: bytes, slot: int, body: bytes) -> None:
        """Write a body to the current segment, although its slot may be in an earlier one."""
        place = self._find_open_segment(prefix)
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
        return size <= min(self._next_bytes() // 2, segments.MAX_BODY) and self._begin_segment()

    def _find_open_segment(self, prefix: bytes) -> RecordSegment | None:
        if self._current is not None and prefix == self._current.prefix:
            return self._current
        return next((segment for _, segment in self._lingering if segment.prefix == prefix), None)

    def _begin_segment(self) -> bool:
        """Start a new segment. False: it cannot be created now."""
        now = self._wall()
        if now < self._retry_at <= now + RETRY_SECONDS:
            return False
        was = self._current
        if was is not None and now < self._until:  # it filled up early
            self._segment_bytes *= 2
        try:
            fresh = self._create_segment(now)
        except OSError as error:
            self._segment_bytes = FIRST_BYTES
            self._warn_once(error, now)
            return False
        if was is not None:
            self._lingering.append((now + LINGER_SECONDS, was))
            assert self._segments is not None
            self._segments.append(_SegmentFile(was.path, was.size, was.until))
        while self._lingering and self._lingering[0][0] <= now:
            self._lingering.popleft()[1].close()
        if self._index is not None and not self._index.exists:
            self._forget_index()
        self._warned = False
        self._current = fresh
        self._prefix, self._slot, self._until = fresh.prefix, FIRST_SLOT, fresh.until
        self._end = min(MAX_SLOTS, fresh.top // SLOT_BYTES)
        return True

    def _create_segment(self, now: float) -> RecordSegment:
        """Raises OSError."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._segments is None:
            self._segments = _list_segment_files(self._home)
        if self._index is None:
            remove_unless_size(self._home, self._index_bytes)
        size = self._next_bytes()
        self._remove_old(size, now)
        until = now + self._limits.max_seconds / SPANS
        last = max((segments.serial_of(each.path.name) or 0 for each in self._segments), default=0)
        serial = max(last, self._current.serial if self._current is not None else 0) + 1
        while True:
            seed = int.from_bytes(os.urandom(4), "little")
            try:
                return segments.create(self._home, Header(self._gateway, serial, seed, until, size))
            except FileExistsError:  # a stopping gateway of this number overlaps with its successor
                serial += 1

    def _next_bytes(self) -> int:
        part = min(max(self._limits.max_bytes // PARTS, MIN_BYTES), MAX_BYTES)
        self._segment_bytes = min(self._segment_bytes, part)
        return self._segment_bytes & ~0xFFF

    def _remove_old(self, size: int, now: float) -> None:
        assert self._segments is not None
        current = 0 if self._current is None else self._current.size
        total = size + current + self._index_bytes + sum(each.size for each in self._segments)
        while self._segments:
            oldest = self._segments[0]
            if total <= self._limits.max_bytes and not is_expired(oldest.until, self._limits.max_seconds, now):
                return
            oldest.path.unlink(missing_ok=True)
            self._segments.popleft()
            total -= oldest.size

    def _warn_once(self, error: OSError, now: float) -> None:
        self._retry_at = now + RETRY_SECONDS
        if not self._warned:
            log.warning("records cannot be stored in %s: %s", self._home, error)
            self._warned = True

    def _forget_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def is_expired(until: float, max_seconds: float, now: float) -> bool:
    """Whether every record is too old in a segment that handed out ids until `until`."""
    return now > until + max_seconds + LINGER_SECONDS


def _list_segment_files(home: Path) -> deque[_SegmentFile]:
    found = []
    for path in home.iterdir():
        serial = segments.serial_of(path.name)
        if serial is None:
            continue
        try:
            size = path.stat().st_size
            found.append((serial, _SegmentFile(path, size, segments.read_header(path).until)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):  # truncated or foreign: removed first
            found.append((serial, _SegmentFile(path, 0, 0.0)))
    return deque(each for _, each in sorted(found, key=lambda one: one[0]))

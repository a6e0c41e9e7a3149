"""Records of when a log reached which size, next to the log, so that several logs can be merged by time.

The log's content up to that size was there by that time. Neither value ever decreases from one record to the next.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RECORD = struct.Struct("<dQ")
"""Seconds since 1970, and bytes."""


@dataclass(frozen=True, slots=True)
class Mark:
    time: float
    size: int


class TimesFile:
    """Appended to by one runner. A record truncated by a full disk is removed when the next one is written."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._end = os.fstat(self._handle).st_size // RECORD.size * RECORD.size
        self.last = _mark(self._handle, self._end // RECORD.size - 1) if self._end else Mark(0.0, 0)

    def note(self, time: float, size: int) -> None:
        """Add a record, unless the log has not grown. Raises OSError."""
        if size <= self.last.size:
            return
        mark = Mark(max(time, self.last.time), size)
        if os.pwrite(self._handle, RECORD.pack(mark.time, mark.size), self._end) == RECORD.size:
            self._end += RECORD.size
            self.last = mark

    def close(self) -> None:
        os.close(self._handle)


class Times:
    """Random access to records while they are written. `handle` is the caller's."""

    def __init__(self, handle: int | None) -> None:
        """None: no times are known."""
        self._handle = handle

    def __len__(self) -> int:
        return os.fstat(self._handle).st_size // RECORD.size if self._handle is not None else 0

    def __getitem__(self, index: int) -> Mark:
        if self._handle is None:
            raise IndexError(index)
        return _mark(self._handle, index)

    def first_after(self, time: float) -> int:
        """Return the index of the first record that is not older; the number of records if all are."""
        return self._first(lambda mark: mark.time >= time)

    def first_beyond(self, size: int) -> int:
        """Return the index of the first record of more than this many bytes."""
        return self._first(lambda mark: mark.size > size)

    def _first(self, holds: Callable[[Mark], bool]) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(self[middle]) else (middle + 1, high)
        return low


def _mark(handle: int, index: int) -> Mark:
    return Mark(*RECORD.unpack(os.pread(handle, RECORD.size, index * RECORD.size)))

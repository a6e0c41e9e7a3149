"""The log of one attempt with its times: in growing files, or in blobs.

It is read in whole lines. A line longer than `LONGEST`, or without an end, is split into chunks of that size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from mizzen.errors import NotFound
from mizzen.runs import log_segments
from mizzen.runs.log_segments import StoredLog
from mizzen.runs.log_times import Mark, Times
from mizzen.runs.paths import JobPlace

if TYPE_CHECKING:
    from mizzen.blobs.documents import FileDocuments
    from mizzen.blobs.file_store import FileBlobs

LONGEST = 1 << 16
"""Maximum bytes of a line; also the size of one read."""
_UNRECORDED = 2.0
"""Seconds after which a log may have grown without a record: its runner is gone."""


class Track:
    def __init__(self, content: _Growing | _Stored, times: Times, closing: ExitStack) -> None:
        self._content = content
        self._times = times
        self._closing = closing
        self._at = 0
        self._mark = Mark(0.0, 0)
        """The size up to which it may be read, and the time by which it had that size."""
        self._index = 0
        self._line = b""
        """The beginning of a line whose end has not been read yet."""

    @property
    def position(self) -> int:
        """Bytes up to which all lines were returned."""
        return self._at - len(self._line)

    def size(self) -> int:
        return self._content.size()

    def close(self) -> None:
        self._closing.close()

    def go_to(self, offset: int) -> None:
        """Seek to the beginning of the line that holds this byte."""
        self._at, self._line = self._line_start(offset), b""
        self._index = self._times.first_beyond(self._at)
        self._mark = self._times[self._index - 1] if self._index else Mark(0.0, 0)

    def first_since(self, time: float) -> int:
        """Return the first byte that was not there by this time; the size, if all were."""
        index = self._times.first_after(time)
        if index < len(self._times):
            return self._times[index - 1].size if index else 0
        recorded = self._times[index - 1].size if index else 0
        return recorded if self._content.last_change() >= time else self._content.size()

    def head(self, live: bool, now: float) -> float | None:
        """Return by when its next byte was there; None: there is none, or its time is not known yet."""
        while self._at >= self._mark.size:
            following = self._next_mark(live, now)
            if following is None:
                return None
            self._mark = following
        return self._mark.time

    def take(self, until: float, live: bool, now: float) -> bytes:
        """Return whole lines of the content up to the time `until`, within the next chunk. May be empty."""
        while self._mark.size - self._at < LONGEST:
            following = self._next_mark(live, now, until)
            if following is None:
                break
            self._mark = max(self._mark, following, key=lambda mark: mark.size)
        data = self._content.read(self._at, min(self._mark.size - self._at, LONGEST))
        if not data:  # the file was truncated: there is nothing more to read
            self._at = self._mark.size
        self._at += len(data)
        return self._split_lines(data)

    def rest(self) -> bytes:
        rest, self._line = self._line, b""
        return rest + b"\n" if rest else b""

    def backwards(self, begin: int) -> Iterator[tuple[float, int, int]]:
        """Yield chunks from the end back to `begin`: their time, start, and number of line ends. A chunk without a line
        end is one line, as when reading forward."""
        at = end = self._content.size()
        index = len(self._times)
        mark = self._times[index - 1] if index else Mark(0.0, 0)
        when = max(self._content.last_change(), mark.time)
        while at > begin:
            while index and mark.size >= at:
                index -= 1
                when = mark.time
                mark = self._times[index - 1] if index else Mark(0.0, 0)
            start = max(mark.size if mark.size < at else 0, at - LONGEST, begin)
            data = self._content.read(start, at - start)
            count = data.count(b"\n") or int(len(data) == LONGEST and at < end)
            yield when, start, count + int(at == end and not data.endswith(b"\n"))
            at = start

    def _next_mark(self, live: bool, now: float, until: float = float("inf")) -> Mark | None:
        """Return the next record, if it is not later than `until`."""
        if self._index < len(self._times):
            found = self._times[self._index]
            if found.time > until:
                return None
            self._index += 1
            return found
        size, changed = self._content.size(), self._content.last_change()
        if size <= self._mark.size or (live and now - changed < _UNRECORDED):
            return None
        found = Mark(max(changed, self._mark.time), size)
        return found if found.time <= until else None

    def _split_lines(self, data: bytes) -> bytes:
        data = self._line + data
        pieces = []
        end = data.find(b"\n")
        while (len(data) if end < 0 else end) > LONGEST:
            pieces.append(data[:LONGEST] + b"\n")
            data, end = data[LONGEST:], end - LONGEST if end >= 0 else -1
        whole = data.rfind(b"\n") + 1
        self._line = data[whole:]
        return b"".join((*pieces, data[:whole]))

    def _line_start(self, offset: int) -> int:
        start = max(0, offset - LONGEST)
        before = self._content.read(start, offset - start)
        return start + before.rfind(b"\n") + 1 if b"\n" in before or not start else offset


def open_track(documents: FileDocuments, blobs: FileBlobs, job: JobPlace, replica: str, attempt: int) -> Track | None:
    """Open the log; None if there is none. Raises Unavailable."""
    place = job.replica(replica)
    with ExitStack() as closing:
        times = None
        try:
            # In this order: the log is removed before its times.
            with suppress(FileNotFoundError):
                times = closing.enter_context(place.times(attempt).open("rb", buffering=0)).fileno()
            log = closing.enter_context(place.log(attempt).open("rb", buffering=0)).fileno()
            return Track(_Growing(log), Times(times), closing.pop_all())
        except FileNotFoundError:
            pass
    stored = log_segments.read(documents, log_segments.name_of(job.uid, replica, attempt))
    if stored is None:
        return None
    with ExitStack() as closing:
        handle = None
        if stored.times:
            with suppress(NotFound, FileNotFoundError):
                handle = closing.enter_context(blobs.path(stored.times).open("rb", buffering=0)).fileno()
        return Track(_Stored(stored, blobs, Times(handle)), Times(handle), closing.pop_all())


class _Growing:
    """A log in a file."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def last_change(self) -> float:
        return os.fstat(self._handle).st_mtime

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._handle, size, offset)


class _Stored:
    """A log in blobs."""

    def __init__(self, stored: StoredLog, blobs: FileBlobs, times: Times) -> None:
        self._log = stored
        self._blobs = blobs
        self._times = times

    def size(self) -> int:
        return self._log.size

    def last_change(self) -> float:
        """Return when its last byte was there, as far as known."""
        return self._times[len(self._times) - 1].time if len(self._times) else 0.0

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes. Raises NotFound for a segment that is gone; Unavailable."""
        data = b""
        for segment in self._log.segments:
            if size > len(data) and offset < segment.size:
                with self._blobs.path(segment.digest).open("rb", buffering=0) as file:
                    data += os.pread(file.fileno(), size - len(data), max(offset, 0))
            offset -= segment.size
        return data

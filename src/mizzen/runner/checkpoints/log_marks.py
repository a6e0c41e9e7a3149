"""The log of a command: when it reached which size, and its last lines."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mizzen.runs.log_times import TimesFile
from mizzen.runs.paths import ReplicaPlace

LAST_LINES = 20
_LAST_BYTES = 4000


class CommandLog:
    """Ignores full disks: a time that cannot be recorded now is recorded later, for more lines."""

    def __init__(self, place: ReplicaPlace, attempt: int) -> None:
        """Raises OSError."""
        self._path = place.log(attempt)
        self.handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._times = TimesFile(place.times(attempt))

    def note(self, now: float) -> bool:
        """Record the log's size; return whether it has grown."""
        size = self.size()
        if size <= self._times.last.size:
            return False
        with suppress(OSError):
            self._times.note(now, size)
        return True

    def size(self) -> int:
        return os.fstat(self.handle).st_size

    def last_lines(self) -> str:
        """Return the last lines, as many as a record may hold."""
        size = self.size()
        data = os.pread(self.handle, _LAST_BYTES, max(0, size - _LAST_BYTES))
        if size > _LAST_BYTES:
            data = data.partition(b"\n")[2] or data
        text = data.decode(errors="replace").replace("\0", "")
        return "\n".join(text.rstrip().split("\n")[-LAST_LINES:])


def append_line(path: Path, line: str) -> None:
    """Append a message of the runner on its own line. Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o644)
    try:
        size = os.fstat(handle).st_size
        begun = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" * begun + f"{line}\n".encode())
    finally:
        os.close(handle)

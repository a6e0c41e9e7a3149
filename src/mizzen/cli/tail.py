"""Reading log files from their end, and on as they grow. One that was rotated meanwhile is read from its start."""

from __future__ import annotations

import heapq
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path


def read(files: Sequence[Path], lines: int | None, *, follow: bool) -> Iterator[str]:
    """The last `lines` lines (None: all); with `follow` also what is added, for ever.

    Lines of several files are put in order as texts: they have to begin with their time.
    """
    logs = [_Log(file) for file in files]
    there = heapq.merge(*(log.more() for log in logs))
    yield from there if lines is None else deque(there, maxlen=lines)
    while follow:
        time.sleep(0.2)
        yield from heapq.merge(*(log.more() for log in logs))


class _Log:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._at, self._inode = 0, 0

    def more(self) -> Iterator[str]:
        """What has been added since the last time."""
        try:
            with self._file.open(errors="replace") as log:
                found = os.fstat(log.fileno())
                if found.st_ino != self._inode or found.st_size < self._at:
                    self._at, self._inode = 0, found.st_ino
                log.seek(self._at)
                while line := log.readline():
                    yield line
                self._at = log.tell()
        except FileNotFoundError:
            return

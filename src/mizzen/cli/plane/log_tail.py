"""Reading log files from their end, and on as they grow. Of one that was rotated meanwhile, the rest is read first."""

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
        self._aside = file.with_name(f"{file.name}.1")
        self._at = 0
        self._older: int | None = None
        """Which file was put aside when it was last read: each time another one is."""

    def more(self) -> Iterator[str]:
        """What has been added since the last time."""
        older = _inode(self._aside)
        if self._older not in (None, older):
            yield from self._lines(self._aside)  # the rest of what was put aside since
            self._at = 0
        self._older = older
        yield from self._lines(self._file)

    def _lines(self, file: Path) -> Iterator[str]:
        try:
            with file.open(errors="replace") as log:
                if os.fstat(log.fileno()).st_size < self._at:
                    self._at = 0
                log.seek(self._at)
                while line := log.readline():
                    yield line
                self._at = log.tell()
        except FileNotFoundError:
            return


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return 0

"""Tailing of log files. If a file was rotated meanwhile, the rest of the old file is read first."""

from __future__ import annotations

import heapq
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path


def tail(files: Sequence[Path], lines: int | None, *, follow: bool) -> Iterator[str]:
    """The last `lines` lines (None: all); with `follow`, also new lines, forever.

    Lines of several files are sorted as text, so they must begin with their time.
    """
    logs = [_Log(file) for file in files]
    present = heapq.merge(*(log.read_new() for log in logs))
    yield from present if lines is None else deque(present, maxlen=lines)
    while follow:
        time.sleep(0.2)
        yield from heapq.merge(*(log.read_new() for log in logs))


class _Log:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._rotated = file.with_name(f"{file.name}.1")
        self._offset = 0
        self._rotated_inode: int | None = None
        """Inode of the rotated file at the last read; it changes with each rotation."""

    def read_new(self) -> Iterator[str]:
        """Lines added since the last call."""
        inode = _inode(self._rotated)
        if self._rotated_inode not in (None, inode):
            yield from self._lines(self._rotated)  # the rest of the file that was rotated since
            self._offset = 0
        self._rotated_inode = inode
        yield from self._lines(self._file)

    def _lines(self, file: Path) -> Iterator[str]:
        try:
            with file.open(errors="replace") as log:
                if os.fstat(log.fileno()).st_size < self._offset:
                    self._offset = 0
                log.seek(self._offset)
                while line := log.readline():
                    yield line
                self._offset = log.tell()
        except FileNotFoundError:
            return


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return 0

"""Reading log files line by line while they grow and are rotated to `<log>.1`. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

_NO_FILE = os.stat_result([0] * 10)
_CHUNK = 1 << 18


class LogReader:
    """Reads a log that a process appends to, and that may be renamed, or truncated after a copy, to `<log>.1`."""

    def __init__(self, path: Path, tail: int | None, at: str = "") -> None:
        """Start at the last `tail` lines, or at the first line that still exists; or continue at position `at`."""
        self._path = path
        self._older = path.with_name(f"{path.name}.1")
        self._partial = b""
        self._inode = 0
        self._older_inode = _stat(self._older).st_ino
        if at:
            offset, _, older = at.partition("-")
            self._offset, self._older_offset = int(offset), -1
            if int(older) != self._older_inode:  # it was rotated since: the rest is in the older file
                self._older_offset, self._offset = self._offset, 0
            return
        self._offset, found = _offset_of_last(path, tail)
        # Lines of the older file are read first; -1: none of them.
        self._older_offset = -1
        if tail is None or found < tail:
            self._older_offset, _ = _offset_of_last(self._older, None if tail is None else tail - found)

    @classmethod
    def from_start(cls, path: Path) -> LogReader:
        """Start at the first line of the file, without the older file."""
        return cls(path, None, f"0-{_stat(path.with_name(f'{path.name}.1')).st_ino}")

    def read_lines(self) -> bytes:
        """The next whole lines; empty when there are no more for now."""
        while True:
            data = self._next()
            if not data:
                return b""
            lines, newline, self._partial = (self._partial + data).rpartition(b"\n")
            if newline:
                return lines + newline

    def position(self) -> str:
        """The offset after the lines read so far, and the inode of the older file, which changes with each rotation.

        Empty while the older file is being read: a reader cannot continue in the middle of it.
        """
        if self._older_offset >= 0:
            return ""
        return f"{self._offset - len(self._partial)}-{_stat(self._older).st_ino}"

    def read_rest(self) -> bytes:
        """The last line without a newline, with one added."""
        rest, self._partial = self._partial, b""
        return rest + b"\n" if rest else b""

    def _next(self) -> bytes:
        if self._older_offset >= 0:
            data = _read(self._older, self._older_offset)
            self._older_offset = self._older_offset + len(data) if data else -1
            if data:
                return data
        if self._was_rotated():  # the unread part is in the older file now
            self._older_offset, self._offset = self._offset, 0
            return self._next()
        data = _read(self._path, self._offset)
        self._offset += len(data)
        return data

    def _was_rotated(self) -> bool:
        """Was the log renamed, or copied and truncated, since the last call?"""
        log, older = _stat(self._path), _stat(self._older).st_ino
        renamed = self._inode not in (0, log.st_ino)
        self._inode = log.st_ino
        # Between copy and truncation, the log still has what the copy has. A truncated one may be as long as before.
        refilled = older != self._older_inode and self._end_of_read(self._path) != self._end_of_read(self._older)
        if renamed or log.st_size < self._offset or refilled:
            self._older_inode = older
            return True
        return False

    def _end_of_read(self, path: Path) -> bytes:
        """The bytes of a file just before the current offset."""
        start = max(self._offset - 64, 0)
        return _read(path, start, self._offset - start)


def _offset_of_last(path: Path, lines: int | None) -> tuple[int, int]:
    """The offset of the last `lines` lines, and how many there are (counted only if `lines` is a number)."""
    if lines is None:
        return 0, 0
    at, found = _stat(path).st_size, 0
    if lines == 0 or at == 0:
        return at, 0
    end = at
    while at > 0:
        start = max(at - _CHUNK, 0)
        block = _read(path, start, at - start)
        position = len(block)
        while (position := block.rfind(b"\n", 0, position)) >= 0:
            if start + position + 1 == end:
                continue  # the end of the last line, not the beginning of another
            found += 1
            if found == lines:
                return start + position + 1, found
        at = start
    return 0, found + 1


def _read(path: Path, offset: int, length: int = _CHUNK) -> bytes:
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), length, offset)
    except FileNotFoundError:
        return b""


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:
        return _NO_FILE

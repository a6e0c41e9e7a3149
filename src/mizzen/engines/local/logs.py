"""The output of replicas, read and followed in their log files, and the retention of those files."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from mizzen.engines.local.process_specs import split_key

KEEP = 20
"""Deleted workloads whose logs are kept: a failed deployment is deleted at once, and its log says why it failed."""

FIRST = "0-0"
"""The position before the first line of a log that was never rotated."""

_POLL_INTERVAL = 0.2
_NO_FILE = os.stat_result([0] * 10)
_CHUNK = 1 << 18


async def read(
    find: Callable[[], Mapping[int, Path]],
    *,
    tail: int | None,
    follow: Callable[[], bool],
    places: dict[int, str] | None = None,
) -> AsyncIterator[bytes]:
    """Whole lines, replica after replica; then, while `follow` returns true, new lines as they are written.

    `find` returns the log of each replica by index. Lines start with `[index] ` when there are several replicas.
    `places`: as in `Engine.logs`.
    """
    readers: dict[int, LogReader] = {}
    resumed = bool(places)
    while True:
        live = follow()  # checked before reading, so that the last output is read, too
        for index, path in find().items():
            if index not in readers:
                # The log of a replica that started while no reader was connected is read from its first line.
                at = (places or {}).get(index, FIRST if resumed else "")
                readers[index] = await asyncio.to_thread(LogReader, path, tail, at)
                if places is not None:
                    places[index] = readers[index].position() or at or FIRST
                    yield b""
        for index, reader in readers.items():
            prefix = b"[%d] " % index if len(readers) > 1 else b""
            while chunk := await asyncio.to_thread(reader.read_lines):
                if places is not None:
                    places[index] = reader.position() or places[index]
                yield _with_prefix(chunk, prefix)
            if not live and (rest := reader.read_rest()):
                yield _with_prefix(rest, prefix)
        if not live:
            return
        await asyncio.sleep(_POLL_INTERVAL)


def prune(folder: Path, lives: Callable[[str], bool], keep: int = KEEP) -> None:
    """Remove the logs of deleted workloads, except for the most recently written ones. `lives` takes a uid."""
    logs: dict[str, list[Path]] = defaultdict(list)
    for path in folder.glob("[!.]*.log*"):
        found = split_key(path.name.partition(".log")[0])
        if found is not None:
            logs[found[0]].append(path)
    newest = {uid: max(_stat(path).st_mtime for path in paths) for uid, paths in logs.items() if not lives(uid)}
    for uid in sorted(newest, key=newest.__getitem__, reverse=True)[keep:]:
        for path in logs[uid]:
            path.unlink(missing_ok=True)


class LogReader:
    """Reads a log that a process appends to, and that may be truncated after a copy to `<log>.1`."""

    def __init__(self, path: Path, tail: int | None, at: str = "") -> None:
        """Start at the last `tail` lines, or at the first line that still exists; or continue at position `at`."""
        self._path = path
        self._older = path.with_name(f"{path.name}.1")
        self._partial = b""
        if at:
            offset, _, older = at.partition("-")
            self._offset, self._older_offset = int(offset), -1
            if int(older) != _stat(self._older).st_ino:  # it was rotated since: the rest is in the older file
                self._older_offset, self._offset = self._offset, 0
            return
        self._offset, found = _offset_of_last(path, tail)
        # Lines of the older file are read first; -1: none of them.
        self._older_offset = -1
        if tail is None or found < tail:
            self._older_offset, _ = _offset_of_last(self._older, None if tail is None else tail - found)

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
        if _stat(self._path).st_size < self._offset:  # it was rotated: the unread part is in the older file now
            self._older_offset, self._offset = self._offset, 0
            return self._next()
        data = _read(self._path, self._offset)
        self._offset += len(data)
        return data


def _with_prefix(chunk: bytes, prefix: bytes) -> bytes:
    if not prefix:
        return chunk
    return b"".join(prefix + line for line in chunk.splitlines(keepends=True))


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

"""A journal of names that were added and removed on purpose, so that a name that was lost otherwise is noticed.

One line per change, appended under a lock by any process. A line is written after its name exists, and before its name
is removed: a crash in between never makes a name look lost. A journal that is missing or damaged knows fewer names.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDED, _REMOVED = "+", "-"


class NameJournal:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, name: str) -> None:
        self._append(_ADDED, name)

    def remove(self, name: str) -> None:
        self._append(_REMOVED, name)

    def find_lost(self, present: Iterable[str]) -> list[str]:
        """Returns names that were added and not removed, and are not `present`. Raises OSError."""
        return sorted(self._names() - set(present))

    def reset(self, present: Iterable[str]) -> None:
        """Makes it a journal of exactly these names. Raises OSError."""
        with self._hold_lock() as handle:
            text = "".join(f"{_ADDED}{name}\n" for name in sorted(present)).encode()
            os.ftruncate(handle, 0)
            os.pwrite(handle, text, 0)
            os.fsync(handle)

    def _names(self) -> set[str]:
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return set()
        names: set[str] = set()
        for line in lines:
            if line[:1] == _ADDED:
                names.add(line[1:])
            else:
                names.discard(line[1:])
        return names

    def _append(self, sign: str, name: str) -> None:
        with self._hold_lock() as handle:
            # Begins with a line break after a torn line.
            size = os.fstat(handle).st_size
            whole = size == 0 or os.pread(handle, 1, size - 1) == b"\n"
            os.write(handle, f"{'' if whole else chr(10)}{sign}{name}\n".encode())

    @contextmanager
    def _hold_lock(self) -> Iterator[int]:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

"""Free space on the disk of a data dir, and which writes may still use it.

    free >= low           everything is allowed
    low > free            no new files; existing objects keep running and can be changed
    critical > free       no additions to the store either; only deletions and the audit log may write

Writes are rejected before they begin, so that the store does not run into a full disk if that can be avoided.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mizzen.errors import NoRoom

_FREE = "delete unused versions, or other files on that disk; the plane continues by itself when there is room"

_freeing: ContextVar[bool] = ContextVar("freeing", default=False)


@contextmanager
def freeing() -> Iterator[None]:
    """Marks work that frees space in the end, though it may have to write something first."""
    before = _freeing.set(True)
    try:
        yield
    finally:
        _freeing.reset(before)


class Level(StrEnum):
    ENOUGH = "enough"
    LOW = "low"
    CRITICAL = "critical"


def free_bytes(folder: Path) -> int:
    """Returns the bytes available to non-root users."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class Room:
    folder: Path
    low: int
    """0: all space may be used."""
    critical: int
    free: Callable[[Path], int] = free_bytes

    def level(self) -> Level:
        left = self.free(self.folder)
        if left < self.critical:
            return Level.CRITICAL
        return Level.LOW if left < self.low else Level.ENOUGH

    def for_files(self, size: int = 0) -> None:
        """Raises NoRoom if files of this size would leave less than `low`."""
        more = f" for {size:,} bytes more" if size else ""
        self._keep_free(self.low, "disk_low_bytes", size, f"the disk has no room{more}")

    def for_copies(self, size: int) -> None:
        """Raises NoRoom if so many bytes would leave less than `critical`.

        For copies of stored files that serving needs: a rollback works even when no new version is accepted.
        """
        self._keep_free(
            self.critical, "disk_critical_bytes", size, f"the disk has no room for a copy of {size:,} bytes"
        )

    def for_writes(self) -> None:
        """Raises NoRoom if nothing may be added to the store, except within `freeing`."""
        if not _freeing.get():
            self._keep_free(self.critical, "disk_critical_bytes", 0, "the disk is full")

    def _keep_free(self, least: int, setting: str, size: int, problem: str) -> None:
        if least and (left := self.free(self.folder)) - size < least:
            raise NoRoom(f"{problem}: {left:,} bytes are free, and {least:,} must stay free ({setting})", hint=_FREE)

    def describe(self) -> str:
        """Returns a readable description of the free space."""
        left = self.free(self.folder)
        match self.level():
            case Level.ENOUGH:
                return f"{left:,} bytes are free"
            case Level.LOW:
                return f"{left:,} bytes are free: no files are accepted until {self.low:,} are free; {_FREE}"
            case Level.CRITICAL:
                return f"{left:,} bytes are free: nothing is added until {self.critical:,} are free; {_FREE}"

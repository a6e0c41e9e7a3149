"""Log rotation and expiry: bounds the size of log files and removes old ones."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20
_DAY = 86_400
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSES = 100
"""Maximum number of extra copy passes for newly written data before a log is truncated."""


@dataclass(frozen=True, slots=True)
class LogRetention:
    """How much of each log is kept."""

    bytes: int = 32 << 20
    """Size at which a log is rotated to `<log>.1`."""
    files: int = 1
    """Number of rotated files; `.1` is the newest."""
    days: float = 0.0
    """Days to keep a log after the last write, once no process writes to it; 0 keeps it forever."""


def is_too_long(path: Path, limit: int) -> bool:
    try:
        return path.stat().st_size > limit
    except FileNotFoundError:
        return False


def rotate(path: Path, files: int = 1) -> None:
    """Copies a log to `<log>.1` and empties it; writers keep their descriptors.

    Writers must open the log in append mode; otherwise they continue at their old offset. Lines written during the copy
    are copied too, unless they arrive faster than the copy. Only a line written between the last check and the
    truncation is lost.

    If the disk has no room for a copy, the log is emptied without one: the store needs the remaining space.
    """
    fresh = path.with_name(f".{path.name}.1")
    try:
        _copy_and_empty(path, fresh, files)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.errno not in _FULL:
            raise
        os.truncate(path, 0)


def _copy_and_empty(path: Path, fresh: Path, files: int) -> None:
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with path.open("rb", buffering=0) as log, open(handle, "wb", buffering=0) as to:
        _copy(log.fileno(), to.fileno())
        shift(path, files)
        fresh.replace(aside(path, 1))  # first, so that a reader who sees the truncated log finds the rest there
        for _ in range(_PASSES):
            if not _copy(log.fileno(), to.fileno()):
                break
        os.truncate(path, 0)


def shift(path: Path, files: int) -> None:
    """Makes room for a new `<log>.1`. Removes files beyond the limit, also after the limit was lowered."""
    for old in path.parent.glob(f"{path.name}.*"):
        number = old.name.removeprefix(f"{path.name}.")
        if number.isdecimal() and int(number) >= files:
            old.unlink(missing_ok=True)
    for index in range(files - 1, 0, -1):
        if aside(path, index).exists():
            aside(path, index).replace(aside(path, index + 1))


def aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def expire(folder: Path, written_to: Collection[Path], now: float, days: float) -> list[Path]:
    """Removes logs not written to for `days`, except those in `written_to`. Returns the removed paths."""
    gone: list[Path] = []
    if days <= 0:
        return gone
    for path in folder.glob("[!.]*.log*"):
        try:
            state = path.lstat()
            old = stat.S_ISREG(state.st_mode) and state.st_mtime < now - days * _DAY
            if old and path not in written_to:
                path.unlink()
                gone.append(path)
        except OSError:  # already removed, or not permitted: a log must not end the supervisor
            continue
    return gone


def _copy(source: int, target: int) -> int:
    """Copies all data available now and returns the number of bytes."""
    left = size = os.fstat(source).st_size - os.lseek(source, 0, os.SEEK_CUR)
    while left > 0 and (data := os.read(source, min(_CHUNK, left))):
        left -= len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    return size

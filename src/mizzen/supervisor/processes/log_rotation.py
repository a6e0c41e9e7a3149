"""Keeps log files from growing without end, and old ones from staying for ever."""

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
_LOOKS = 100
"""Most times that it is asked whether more has come, before a log is cut."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept of each log."""

    bytes: int = 32 << 20
    """Then it is put aside, as `<log>.1`."""
    files: int = 1
    """That are put aside: `.1` is the newest."""
    days: float = 0.0
    """Since anything was written to one that nobody writes to any more; 0: for ever."""


def too_long(path: Path, limit: int) -> bool:
    try:
        return path.stat().st_size > limit
    except FileNotFoundError:
        return False


def rotate(path: Path, files: int = 1) -> None:
    """Copies a log to `<log>.1` and empties it; writers keep their descriptors.

    They must append, else they would go on at their old offset. What comes while it is copied is copied, too, unless it
    comes faster than that: only a line that is written in the moment of the cut, after the last look, is lost.

    Where there is no room for a copy, the log is emptied without one: what is left of the disk is the store's.
    """
    fresh = path.with_name(f".{path.name}.1")
    try:
        _put_aside(path, fresh, files)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.errno not in _FULL:
            raise
        os.truncate(path, 0)


def _put_aside(path: Path, fresh: Path, files: int) -> None:
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with path.open("rb", buffering=0) as log, open(handle, "wb", buffering=0) as to:
        _copy(log.fileno(), to.fileno())
        shift(path, files)
        fresh.replace(aside(path, 1))  # first, so that whoever sees the cut finds the rest there
        for _ in range(_LOOKS):
            if not _copy(log.fileno(), to.fileno()):
                break
        os.truncate(path, 0)


def shift(path: Path, files: int) -> None:
    """Makes room for a new `<log>.1`. Those beyond the last that is kept go, also when fewer are kept than before."""
    for old in path.parent.glob(f"{path.name}.*"):
        told = old.name.removeprefix(f"{path.name}.")
        if told.isdecimal() and int(told) >= files:
            old.unlink(missing_ok=True)
    for number in range(files - 1, 0, -1):
        if aside(path, number).exists():
            aside(path, number).replace(aside(path, number + 1))


def aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def expire(folder: Path, written_to: Collection[Path], now: float, days: float) -> list[Path]:
    """Removes logs that nobody has written to for so long, but those that somebody may. Returns them."""
    gone: list[Path] = []
    if days <= 0:
        return gone
    for path in folder.glob("[!.]*.log*"):
        try:
            found = path.lstat()
            old = stat.S_ISREG(found.st_mode) and found.st_mtime < now - days * _DAY
            if old and path not in written_to:
                path.unlink()
                gone.append(path)
        except OSError:  # somebody else did, or it is not ours to remove: no log is worth ending a supervisor
            continue
    return gone


def _copy(source: int, target: int) -> int:
    """What is there now; how much that was."""
    left = size = os.fstat(source).st_size - os.lseek(source, 0, os.SEEK_CUR)
    while left > 0 and (data := os.read(source, min(_CHUNK, left))):
        left -= len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    return size

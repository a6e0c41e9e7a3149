"""Small files that others write, perhaps with ill will: never followed elsewhere, never waited for, never large."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path


class NoFile(OSError):
    """There is something else in its place: a pipe, a device, a folder."""


def open_regular_file(path: Path) -> io.FileIO:
    """To read. A link could name anything, and a pipe would block whoever opens it: NoFile, or OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NoFile(f"{path} is no file")
    return open(handle, "rb", buffering=0)


def small(path: Path, most: int) -> tuple[bytes, float]:
    """All of it, and when it was written. OSError; ValueError when there are more than `most` bytes."""
    with open_regular_file(path) as file:
        found = os.fstat(file.fileno())
        data = bytearray()
        while len(data) <= most and (more := file.read(most + 1 - len(data))):
            data += more
    if len(data) > most:
        raise ValueError(f"{path} has more than {most:,} bytes")
    return bytes(data), found.st_mtime

"""Safe reads of small files from untrusted writers: no links followed, no blocking, no large files."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path


class NoFile(OSError):
    """The path is not a regular file but a pipe, a device or a folder."""


def open_regular_file(path: Path) -> io.FileIO:
    """Open a file to read. A link could name anything, and a pipe would block the reader: NoFile, or OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NoFile(f"{path} is not a regular file")
    return open(handle, "rb", buffering=0)


def open_beneath(root: Path, path: str) -> io.FileIO:
    """Open the file at a relative path below `root`, without following any link on the way: whoever writes there could
    exchange a folder for a link at any time. NoFile, or OSError."""
    *folders, name = path.split("/")
    if ".." in folders:
        raise NoFile(f"{path} leads out of {root}")
    at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            at, above = os.open(folder, flags, dir_fd=at), at
            os.close(above)
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NoFile(f"{path} in {root} is not a regular file")
    return open(handle, "rb", buffering=0)


def read_small(path: Path, most: int) -> tuple[bytes, float]:
    """Return the content, and when it was written. Raises OSError; ValueError if there are more than `most` bytes."""
    with open_regular_file(path) as file:
        found = os.fstat(file.fileno())
        data = bytearray()
        while len(data) <= most and (more := file.read(most + 1 - len(data))):
            data += more
    if len(data) > most:
        raise ValueError(f"{path} has more than {most:,} bytes")
    return bytes(data), found.st_mtime

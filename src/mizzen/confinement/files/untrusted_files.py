"""Reading small files in folders that confined processes may write to: no links followed, no blocking, no large files.

A link could lead the reader, which is not confined, to a file that its author cannot read; a pipe would block it.
"""

from __future__ import annotations

import os
import stat


def read_beginning(path: str | os.PathLike[str], most: int) -> bytes:
    """Returns the first `most` bytes. Raises OSError, also if the path is not a regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is not a regular file")
        return os.read(handle, most)
    finally:
        os.close(handle)

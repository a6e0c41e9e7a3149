"""The pipe that takes the output of a process: its reader decides how much of it is kept.

It has a name, and its writer has it open to read as well. So it outlives its reader: a writer gets no SIGPIPE, the next
reader opens it by its name, and what is in it is not lost while anyone has it open. A full pipe blocks its writer.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

SIZE = 1 << 20
"""Bytes that it takes while no one reads. An ordinary user gets less once many are open."""
_F_SETPIPE_SZ = 1031


class OutputPipe:
    def __init__(self, path: Path) -> None:
        """Opens an existing pipe to read. Raises OSError."""
        self.path = path
        # Also open to write: a pipe without writers would always be readable, with nothing in it.
        self.handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)

    @classmethod
    def create(cls, path: Path) -> OutputPipe:
        """A new pipe, in place of an earlier one. Raises OSError."""
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        pipe = cls(path)
        with suppress(OSError):
            fcntl.fcntl(pipe.handle, _F_SETPIPE_SZ, SIZE)
        return pipe

    def open_to_write(self) -> int:
        """Returns a descriptor for the output of a process; the caller closes it. Raises OSError."""
        return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    def read(self, most: int) -> bytes:
        """Returns what is there now, at most so many bytes."""
        try:
            return os.read(self.handle, most)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self.handle)

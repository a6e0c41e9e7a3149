"""A number in shared memory that changes after each change of state.db.

A writer commits first, then stores a new number here (`bump`), and only then acknowledges the change. A reader reads
the number first, then the file, and does not read the file again while the number stays the same. So a commit is either
part of what was read, or its number is stored later and differs from the one the reader saw.

This holds for any number of writers without a lock, because no number is used twice: each comes from the system's
random source. A counter would not work. A writer that is delayed between reading and writing it could restore a number
that a reader has already seen, after other commits.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

FILE = "selection"
"""In the run folder."""
_SIZE = 8


class ChangeMarker:
    """The mapped file. Its content need not survive."""

    def __init__(self, path: Path) -> None:
        """Creates the file if it is missing. Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < _SIZE:
                # Written, not only extended: on a full disk, a write to a mapped hole would kill the process.
                os.pwrite(file, os.urandom(_SIZE), 0)
            self._map = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self.cell = memoryview(self._map).cast("Q")
        """`cell[0]` is the number."""

    def bump(self) -> None:
        self.cell[0] = int.from_bytes(os.urandom(_SIZE), "little")

    def close(self) -> None:
        self.cell.release()
        self._map.close()

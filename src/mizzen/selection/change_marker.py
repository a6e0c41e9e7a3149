"""One number in memory that all gateways share: it is another one after each change of state.db.

Who writes commits first and then puts a new number here (`bump`), before anybody is told of the change. Who reads looks
at the number first and then into the file, and need not look into the file again while the number is the same. So
a commit is either in what was read, or its number comes after the one that was looked at, and differs from it.

That holds with any number of writers, and without a lock, because no number comes twice: each is drawn from the
system's randomness. A counter would not do. A writer that is held up between reading and writing it could put back a
number that somebody has seen, after other commits.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

FILE = "selection"
"""In the run folder."""
_SIZE = 8


class Word:
    """The file, mapped. Nothing of it is worth keeping."""

    def __init__(self, path: Path) -> None:
        """Makes the file if it is not there. OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < _SIZE:
                # Written and not only made longer: in a hole of a full disk, a write to mapped memory ends the process.
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

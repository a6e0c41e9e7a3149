"""Reading a log file from its end, and on as it grows. One that was rotated meanwhile is read from its start."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path


def read(file: Path, lines: int | None, *, follow: bool) -> Iterator[str]:
    """The last `lines` lines (None: all); with `follow` also what is added, for ever."""
    with file.open(errors="replace") as log:
        yield from log if lines is None else deque(log, maxlen=lines)
        at, inode = log.tell(), os.fstat(log.fileno()).st_ino
    while follow:
        time.sleep(0.2)
        try:
            with file.open(errors="replace") as log:
                found = os.fstat(log.fileno())
                if found.st_ino != inode or found.st_size < at:
                    at, inode = 0, found.st_ino
                log.seek(at)
                yield from log
                at = log.tell()
        except FileNotFoundError:
            continue

"""Tailing of log files, several as one."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from mizzen.rotated_log import LogReader


def tail(files: Sequence[Path], lines: int | None, *, follow: bool) -> Iterator[str]:
    """The last `lines` lines (None: all); with `follow`, also new lines, forever.

    Lines of several files are sorted as text, so they must begin with their time.
    """
    logs = [LogReader.from_start(file) for file in files]
    present = heapq.merge(*(_read_new(log, rest=not follow) for log in logs))
    yield from present if lines is None else deque(present, maxlen=lines)
    while follow:
        time.sleep(0.2)
        yield from heapq.merge(*map(_read_new, logs))


def _read_new(log: LogReader, *, rest: bool = False) -> Iterator[str]:
    """Lines added since the last call; with `rest`, also an unfinished last one."""
    while chunk := log.read_lines():
        yield from (f"{line.decode(errors='replace')}\n" for line in chunk[:-1].split(b"\n"))
    if rest and (line := log.read_rest()):
        yield line.decode(errors="replace")

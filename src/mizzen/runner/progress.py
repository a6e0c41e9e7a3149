"""The progress that the code reports in MIZZEN_PROGRESS: polled, with its history stored next to it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mizzen.runs import progress, safe_read
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Progress

MOST_LINES = 5000
"""At this number every other line is dropped: the rest shows the same, less finely."""
MOST_HISTORY = 256 << 20
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgressReader:
    def __init__(self, place: ReplicaPlace) -> None:
        self._place = place
        self._seen = (0, 0)
        self._lines = _count(place.past_progress)
        self.last: Progress | None = None

    def forget(self) -> None:
        """Ignore the present report: an earlier attempt wrote it."""
        self._seen = self._look()

    def look(self) -> None:
        seen = self._look()
        if seen == self._seen:
            return
        report = progress.read(self._place)
        if report is None:  # half written, by code that does not rename: read again later
            return
        self._seen, self.last = seen, report
        with suppress(OSError, ValueError):
            self._keep(report)

    def _look(self) -> tuple[int, int]:
        try:
            found = self._place.progress.lstat()
        except OSError:
            return self._seen
        return found.st_mtime_ns, found.st_ino

    def _keep(self, report: Progress) -> None:
        path = self._place.past_progress
        if self._lines >= MOST_LINES:
            lines = safe_read.read_small(path, MOST_HISTORY)[0].splitlines(keepends=True)[::2]
            new = path.with_name(f".{path.name}.tmp")
            new.write_bytes(b"".join(lines))
            new.rename(path)
            self._lines = len(lines)
        # The code could have put a pipe in its place, which has no reader.
        handle = os.open(path, _APPEND, 0o644)
        with open(handle, "ab", buffering=0) as file:
            file.write(json.dumps(asdict(report)).encode() + b"\n")
        self._lines += 1


def _count(path: Path) -> int:
    try:
        return safe_read.read_small(path, MOST_HISTORY)[0].count(b"\n")
    except (OSError, ValueError):
        return 0

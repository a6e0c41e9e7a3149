"""What the code says of itself in MIZZEN_PROGRESS: looked at now and then, and what it said before kept beside it."""

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
"""Then every other one goes: what is left tells the same, less finely."""
MOST_HISTORY = 256 << 20
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgressReader:
    def __init__(self, place: ReplicaPlace) -> None:
        self._place = place
        self._seen = (0, 0)
        self._lines = _count(place.past_progress)
        self.last: Progress | None = None

    def forget(self) -> None:
        """What stands there now: an attempt before said it."""
        self._seen = self._look()

    def look(self) -> None:
        seen = self._look()
        if seen == self._seen:
            return
        said = progress.read(self._place)
        if said is None:  # half written, by somebody who does not rename: looked at again
            return
        self._seen, self.last = seen, said
        with suppress(OSError, ValueError):
            self._keep(said)

    def _look(self) -> tuple[int, int]:
        try:
            found = self._place.progress.lstat()
        except OSError:
            return self._seen
        return found.st_mtime_ns, found.st_ino

    def _keep(self, said: Progress) -> None:
        path = self._place.past_progress
        if self._lines >= MOST_LINES:
            lines = safe_read.small(path, MOST_HISTORY)[0].splitlines(keepends=True)[::2]
            new = path.with_name(f".{path.name}.tmp")
            new.write_bytes(b"".join(lines))
            new.rename(path)
            self._lines = len(lines)
        # The code could have put a pipe in its place, which nobody reads.
        handle = os.open(path, _APPEND, 0o644)
        with open(handle, "ab", buffering=0) as file:
            file.write(json.dumps(asdict(said)).encode() + b"\n")
        self._lines += 1


def _count(path: Path) -> int:
    try:
        return safe_read.small(path, MOST_HISTORY)[0].count(b"\n")
    except (OSError, ValueError):
        return 0

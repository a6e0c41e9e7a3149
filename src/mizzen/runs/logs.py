"""The log of a job set: the logs of all its replicas and attempts merged by time, past and future.

It is read from the files that the commands write to, and from blobs where those are gone. However long a log or slow a
reader, little of it is in memory: one block, and the beginning of a line for each replica.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from mizzen.blobs.fs.cancellable_thread import in_thread
from mizzen.errors import Unavailable
from mizzen.runs import log_segments
from mizzen.runs.log_track import Track, open_track
from mizzen.runs.paths import JobPlace

if TYPE_CHECKING:
    from mizzen.blobs.documents import FileDocuments
    from mizzen.blobs.file_store import FileBlobs

BLOCK = 1 << 18
"""Approximate bytes of one block."""
SETTLED = 0.5
"""Seconds after which no runner will report anything older: until then new lines are held back, to keep the order."""
_LOOK_EVERY = 0.2
_ASK_EVERY = 25
"""Number of checks of the folder per check of the documents."""


async def lines(
    documents: FileDocuments,
    blobs: FileBlobs,
    job: JobPlace,
    *,
    replicas: Collection[str] | None = None,
    tail: int | None = None,
    since: float | None = None,
    follow: Callable[[], bool] = lambda: False,
    places: dict[str, str] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield blocks of whole lines, each after `[worker-0] `; then, while `follow` returns True, new lines as they
    arrive.

    `replicas`: only these. `tail`: only the last lines, over all replicas. `since`: only output from then on. `places`:
    the position in each replica's log, updated with each block; passed in again, reading continues there.
    """
    # A cancelled reader waits for its thread: files must not be closed while they are read.
    reading = await in_thread(
        lambda _: Reading(documents, blobs, job, replicas=replicas, tail=tail, since=since, places=places)
    )
    try:
        while True:
            live = follow()  # checked before reading, so that output up to the end is read, too
            await in_thread(lambda _, live: reading.look(live=live), live)
            while block := await in_thread(lambda _, live: reading.more(live=live), live):
                if places is not None:
                    places.update(reading.places())
                yield block
            if not live:
                return
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        reading.close()


class Reading:
    """The same for blocking code."""

    def __init__(
        self,
        documents: FileDocuments,
        blobs: FileBlobs,
        job: JobPlace,
        *,
        replicas: Collection[str] | None = None,
        tail: int | None = None,
        since: float | None = None,
        places: dict[str, str] | None = None,
    ) -> None:
        self._documents = documents
        self._blobs = blobs
        self._job = job
        self._wanted = replicas
        self._since = since
        self._logs: dict[str, _ReplicaLog] = {}
        self._looks = 0
        self._skip = 0
        """Surplus lines that were counted but not requested."""
        self._look(at=places or {})
        if tail is not None and not places:
            self._skip = _to_last(list(self._logs.values()), tail)

    def look(self, *, live: bool) -> None:
        """Look for new replicas and attempts."""
        self._looks += 1
        self._look(documents=not live or self._looks % _ASK_EVERY == 0)

    def more(self, *, live: bool) -> bytes:
        """Return the next lines; empty if there are none for now. `live`: more will come, so lines wait for their
        order."""
        now = time.time()
        until = now - SETTLED if live and len(self._logs) > 1 else float("inf")
        block = bytearray()
        while len(block) < BLOCK:
            heads = sorted((head, log.name) for log in self._logs.values() if (head := log.head(live, now)) is not None)
            if not heads or heads[0][0] > until:
                break
            name, bound = heads[0][1], until
            if len(heads) > 1:  # at equal times, names decide the order, also when read from the end
                when, other = heads[1]
                bound = min(until, when if name < other else math.nextafter(when, -math.inf))
            block += self._without_skipped(self._logs[name].take(bound, live, now))
        if not block and not live:
            for log in self._logs.values():
                block += self._without_skipped(log.rest())
        return bytes(block)

    def places(self) -> dict[str, str]:
        return {name: log.place() for name, log in self._logs.items()}

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def _look(self, *, at: dict[str, str] | None = None, documents: bool = True) -> None:
        found: set[tuple[str, int]] = set()
        for place in self._job.replicas():
            numbers = (path.name.removesuffix(".log") for path in place.folder.glob("*.log"))
            found.update((place.name, int(number)) for number in numbers if number.isdecimal())
        if documents:
            with suppress(Unavailable):  # local files are still read
                found.update(log_segments.list_logs(self._documents, self._job.uid))
        for name, attempt in sorted(found):
            if self._wanted is not None and name not in self._wanted:
                continue
            if name not in self._logs:
                self._logs[name] = _ReplicaLog(name, self._open, self._since, (at or {}).get(name, ""))
            self._logs[name].add_attempt(attempt)

    def _open(self, replica: str, attempt: int) -> Track | None:
        return open_track(self._documents, self._blobs, self._job, replica, attempt)

    def _without_skipped(self, block: bytes) -> bytes:
        start = 0
        while self._skip and start < len(block):
            start = block.index(b"\n", start) + 1
            self._skip -= 1
        return block[start:] if start else block


class _ReplicaLog:
    """One replica: its attempts, one after the other."""

    def __init__(self, name: str, open_: Callable[[str, int], Track | None], since: float | None, at: str) -> None:
        self.name = name
        self._prefix = f"[{name}] ".encode()
        self._open = open_
        self._since = since
        attempt, _, offset = at.partition(":")
        self._begin: tuple[int, int] | None = (int(attempt), int(offset)) if offset else None
        self._attempts: list[int] = []
        """Attempts to read after the present one."""
        self._known: set[int] = set()
        self._attempt = -1
        self._track: Track | None = None
        self._left = b""
        """A last line without an end, of an attempt that another one followed."""

    def add_attempt(self, attempt: int) -> None:
        if attempt not in self._known:
            self._known.add(attempt)
            if self._begin is None or attempt >= self._begin[0]:
                self._attempts = sorted((*self._attempts, attempt))

    def begin(self, attempt: int, offset: int) -> None:
        """Continue at this position; earlier content is not read."""
        self.close()
        self._begin = attempt, offset
        self._attempts = sorted(each for each in self._known if each >= attempt)

    def head(self, live: bool, now: float) -> float | None:
        """Return by when its next bytes were there; None: there are none for now."""
        while True:
            if self._track is not None and (found := self._track.head(live and not self._attempts, now)) is not None:
                return found
            if self._track is not None and not self._attempts:
                return None
            if not self._next():
                return None

    def take(self, until: float, live: bool, now: float) -> bytes:
        """Return whole lines of the content up to that time, or of its beginning. May be empty."""
        assert self._track is not None
        left, self._left = self._left, b""
        return self._mark(left + self._track.take(until, live and not self._attempts, now))

    def rest(self) -> bytes:
        """Return a last line without an end, with one added."""
        left, self._left = self._left, b""
        return self._mark(left + (self._track.rest() if self._track is not None else b""))

    def backwards(self) -> Iterator[tuple[float, int, int, int]]:
        """Yield from the end: time, attempt, start byte, and number of line ends."""
        for attempt in sorted(self._known, reverse=True):
            track = self._open(self.name, attempt)
            if track is None:
                continue
            try:
                begin = track.first_since(self._since) if self._since is not None else 0
                for when, start, count in track.backwards(begin):
                    yield when, attempt, start, count
            finally:
                track.close()

    def end(self) -> tuple[int, int]:
        """Return the position after all present content."""
        attempt = max(self._known)
        track = self._open(self.name, attempt)
        if track is None:
            return attempt, 0
        size = track.size()
        track.close()
        return attempt, size

    def place(self) -> str:
        return f"{self._attempt}:{self._track.position}" if self._track is not None else ""

    def close(self) -> None:
        if self._track is not None:
            self._track.close()
            self._track = None

    def _next(self) -> bool:
        """Open the next attempt. False if there is none."""
        while self._attempts:
            attempt = self._attempts.pop(0)
            track = self._open(self.name, attempt)
            if track is None:
                continue
            if self._track is not None:
                self._left += self._track.rest()
                self._track.close()
            self._attempt, self._track = attempt, track
            if self._begin is not None and self._begin[0] == attempt:
                track.go_to(self._begin[1])
            elif self._since is not None:
                track.go_to(track.first_since(self._since))
            return True
        return False

    def _mark(self, block: bytes) -> bytes:
        if not block:
            return b""
        return self._prefix + block[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n"


def _to_last(logs: list[_ReplicaLog], count: int) -> int:
    """Make all of them begin where the last `count` lines of all do; return the number of surplus lines."""
    begins = {log.name: log.end() for log in logs}
    pieces = {log.name: log.backwards() for log in logs}
    heads = {name: piece for name, found in pieces.items() if (piece := next(found, None)) is not None}
    counted = 0
    while heads and counted < count:
        name = max(heads, key=lambda each: (heads[each][0], each))
        _, attempt, start, ended = heads.pop(name)
        counted += ended
        begins[name] = attempt, start
        following = next(pieces[name], None)
        if following is not None:
            heads[name] = following
    for log in logs:
        log.begin(*begins[log.name])
    return max(0, counted - count)

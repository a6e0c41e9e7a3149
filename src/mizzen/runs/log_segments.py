"""Logs in Blobs: in segments while they are written, and whole once an attempt is over.

A document says which segments there are. Together they are the log from its first byte, as far as they go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from mizzen.errors import NotFound
from mizzen.runs.checkpoints import Documents
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Task

FOLDER = "logs"
SEGMENT = 16 << 20
"""Bytes that are put away together while the command runs."""


class Blob(Protocol):
    @property
    def digest(self) -> str: ...

    @property
    def size(self) -> int: ...


class Readable(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


class Blobs(Protocol):
    """As `blobs.files.FileBlobs`. Blocking."""

    def put(self, source: Readable) -> Blob: ...
    def path(self, digest: str) -> Path: ...


@dataclass(frozen=True, slots=True)
class Segment:
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What is kept of the log of one attempt."""

    segments: tuple[Segment, ...]
    times: str
    """Digest of its times; empty while it goes on."""
    complete: bool
    """All that it will ever hold, as far as is known: one that was stopped may go on."""
    namespace: str
    model: str
    version: str
    version_uid: str
    job: str

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def name_of(job_uid: str, replica: str, attempt: int) -> str:
    return f"{FOLDER}/{job_uid}/{replica}/{attempt}.json"


def read(documents: Documents, name: str) -> StoredLog | None:
    """None when there is none that can be read."""
    try:
        data = json.loads(documents.get(name))
        segments = tuple(Segment(**segment) for segment in data["segments"])
        return StoredLog(**{**data, "segments": segments})
    except (NotFound, ValueError, TypeError, KeyError):
        return None


def list_logs(documents: Documents, job_uid: str) -> Iterator[tuple[str, int]]:
    """Replica and attempt of all logs of a job of which something is kept."""
    for name in documents.names(f"{FOLDER}/{job_uid}/"):
        *_, replica, file = name.split("/")
        attempt = file.removesuffix(".json")
        if attempt.isdecimal():
            yield replica, int(attempt)


class Keeping:
    """Puts away the log of one attempt. What fails may be tried again: nothing is put twice, and nothing left out.

    Blocking. Unavailable, NoRoom: as Blobs say. OSError for a log that cannot be read.
    """

    def __init__(self, blobs: Blobs, documents: Documents, place: ReplicaPlace, task: Task, attempt: int) -> None:
        """`attempt`: that of the task, or one before it, of which somebody left the log here."""
        self._blobs = blobs
        self._documents = documents
        self._log, self._times = place.log(attempt), place.times(attempt)
        self._name = name_of(task.job_uid, task.replica, attempt)
        none = StoredLog((), "", False, task.namespace, task.model, task.version, task.version_uid, task.job)
        self._kept = read(documents, self._name) or none
        if self._log.exists() and _size(self._log) < self._kept.size:  # begun anew, on another disk
            self._kept = none

    @property
    def complete(self) -> bool:
        return self._kept.complete and self._kept.size >= _size(self._log)

    def restore(self) -> None:
        """The log as it was, where it is gone: what comes is appended to it."""
        if self._log.exists() or not self._kept.segments:
            return
        new = self._log.with_name(f".{self._log.name}.tmp")
        with new.open("wb") as file:
            for segment in self._kept.segments:
                with self._blobs.path(segment.digest).open("rb") as content:
                    while chunk := content.read(1 << 20):
                        file.write(chunk)
        if self._kept.times:
            self._times.write_bytes(self._blobs.path(self._kept.times).read_bytes())
        new.rename(self._log)

    def due(self, size: int) -> bool:
        """Is there a whole segment to put, of a log of this size?"""
        return size - self._kept.size >= SEGMENT

    def advance(self, size: int) -> None:
        """All whole segments up to this size."""
        while self.due(size):
            self._put(SEGMENT)

    def finish(self) -> None:
        """All of it. What is put of a log that goes on later stays put."""
        if self.complete:
            return
        while (left := _size(self._log) - self._kept.size) > 0:
            self._put(min(left, SEGMENT))
        times = ""
        if _size(self._times):
            with self._times.open("rb", buffering=0) as file:
                times = self._blobs.put(file).digest
        self._write(replace(self._kept, times=times, complete=True))

    def drop(self) -> None:
        """The files here, once all of it is kept. Readers that have opened them read on."""
        if self.complete:
            self._log.unlink(missing_ok=True)  # first: a log without its times would be read without them
            self._times.unlink(missing_ok=True)

    def _put(self, size: int) -> None:
        with self._log.open("rb", buffering=0) as file:
            blob = self._blobs.put(_Part(file.fileno(), self._kept.size, size))
        segments = (*self._kept.segments, Segment(blob.digest, blob.size))
        self._write(replace(self._kept, segments=segments, times="", complete=False))

    def _write(self, kept: StoredLog) -> None:
        self._documents.put(self._name, json.dumps(kept.to_json()).encode())
        self._kept = kept


class _Part:
    """Some bytes of a file that grows."""

    def __init__(self, handle: int, start: int, size: int) -> None:
        self._handle = handle
        self._at, self._end = start, start + size

    def read(self, size: int, /) -> bytes:
        data = os.pread(self._handle, min(size, self._end - self._at), self._at)
        self._at += len(data)
        return data


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

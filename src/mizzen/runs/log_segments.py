"""Logs in blobs: in segments while they are written, and whole once an attempt is over.

A document lists the segments. Together they are the log from its first byte, as far as they go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mizzen.errors import NotFound
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Task

if TYPE_CHECKING:
    from mizzen.blobs.documents import FileDocuments
    from mizzen.blobs.file_store import FileBlobs

FOLDER = "logs"
SEGMENT = 16 << 20
"""Bytes of one segment while the command runs."""


@dataclass(frozen=True, slots=True)
class Segment:
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The stored part of one attempt's log."""

    segments: tuple[Segment, ...]
    times: str
    """Digest of its times; empty while the log still grows."""
    complete: bool
    """The log is complete, as far as known: a stopped attempt may continue."""
    namespace: str
    model: str
    version: str
    version_uid: str
    job: str

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


def name_of(job_uid: str, replica: str, attempt: int) -> str:
    return f"{FOLDER}/{job_uid}/{replica}/{attempt}.json"


def read(documents: FileDocuments, name: str) -> StoredLog | None:
    """Read the document; None if there is no valid one."""
    try:
        data = json.loads(documents.get(name))
        segments = tuple(Segment(**segment) for segment in data["segments"])
        return StoredLog(**{**data, "segments": segments})
    except (NotFound, ValueError, TypeError, KeyError):
        return None


def list_logs(documents: FileDocuments, job_uid: str) -> Iterator[tuple[str, int]]:
    """Yield replica and attempt of all stored logs of a job."""
    for name in documents.names(f"{FOLDER}/{job_uid}/"):
        *_, replica, file = name.split("/")
        attempt = file.removesuffix(".json")
        if attempt.isdecimal():
            yield replica, int(attempt)


class LogUploader:
    """Stores the log of one attempt. Failures may be retried: nothing is stored twice or left out.

    Blocking. Raises Unavailable and NoRoom as blobs do, and OSError for a log that cannot be read.
    """

    def __init__(
        self, blobs: FileBlobs, documents: FileDocuments, place: ReplicaPlace, task: Task, attempt: int
    ) -> None:
        """`attempt`: that of the task, or an earlier one whose log is still here."""
        self._blobs = blobs
        self._documents = documents
        self._log, self._times = place.log(attempt), place.times(attempt)
        self._name = name_of(task.job_uid, task.replica, attempt)
        none = StoredLog((), "", False, task.namespace, task.model, task.version, task.version_uid, task.job)
        self._stored = read(documents, self._name) or none
        if self._log.exists() and _size(self._log) < self._stored.size:  # started from the beginning, on another disk
            self._stored = none

    @property
    def complete(self) -> bool:
        return self._stored.complete and self._stored.size >= _size(self._log)

    def restore(self) -> None:
        """Restore a missing log from the store: new output is appended to it."""
        if self._log.exists() or not self._stored.segments:
            return
        new = self._log.with_name(f".{self._log.name}.tmp")
        with new.open("wb") as file:
            for segment in self._stored.segments:
                with self._blobs.path(segment.digest).open("rb") as content:
                    while chunk := content.read(1 << 20):
                        file.write(chunk)
        if self._stored.times:
            self._times.write_bytes(self._blobs.path(self._stored.times).read_bytes())
        new.rename(self._log)

    def due(self, size: int) -> bool:
        """Return whether a log of this size has a whole segment to store."""
        return size - self._stored.size >= SEGMENT

    def advance(self, size: int) -> None:
        """Store all whole segments up to this size."""
        while self.due(size):
            self._put(SEGMENT)

    def finish(self) -> None:
        """Store all of it. The stored part stays valid if the log continues later."""
        if self.complete:
            return
        while (left := _size(self._log) - self._stored.size) > 0:
            self._put(min(left, SEGMENT))
        times = ""
        if _size(self._times):
            with self._times.open("rb", buffering=0) as file:
                times = self._blobs.put(file).digest
        self._write(replace(self._stored, times=times, complete=True))

    def drop(self) -> None:
        """Delete the local files, once everything is stored. Readers that have them open can continue."""
        if self.complete:
            self._log.unlink(missing_ok=True)  # first: a log without its times would be read without them
            self._times.unlink(missing_ok=True)

    def _put(self, size: int) -> None:
        with self._log.open("rb", buffering=0) as file:
            blob = self._blobs.put(_Part(file.fileno(), self._stored.size, size))
        segments = (*self._stored.segments, Segment(blob.digest, blob.size))
        self._write(replace(self._stored, segments=segments, times="", complete=False))

    def _write(self, stored: StoredLog) -> None:
        self._documents.put(self._name, json.dumps(asdict(stored)).encode())
        self._stored = stored


class _Part:
    """A byte range of a growing file."""

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

"""Blobs in a folder: `sha256/ab/<hex>`, read-only, whole or not there at all.

Blocking code: callers on an event loop use a thread. Any number of threads and processes may put at the same time.
"""

from __future__ import annotations

import io
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mizzen.blobs import content, folders
from mizzen.blobs.folders import HasContent
from mizzen.errors import Fault, Invalid, NotFound, Unavailable

DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Blob:
    digest: str
    """sha256:<hex>"""
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a folder: where it stands, with forward slashes, and its blob."""

    path: str
    digest: str
    size: int


class FileBlobs:
    def __init__(self, root: Path) -> None:
        self._root = root

    def put_file(self, source: Path) -> Blob:
        """Durable when this returns. Content that is there already is kept, unless it is damaged: then it is replaced.

        NotFound; Unavailable for a full disk.
        """
        with _open_regular(source) as file:
            return self._put(file)

    def put_bytes(self, data: bytes) -> Blob:
        """As `put_file`."""
        return self._put(io.BytesIO(data))

    def path(self, digest: str) -> Path:
        """Where the content is, to read and never to write. NotFound; Invalid when it is no digest."""
        place = self._place(digest)
        if not place.is_file():
            raise NotFound(f"no blob {digest}")
        return place

    def collect(self, source: Path) -> tuple[Entry, ...]:
        """Store a file, or every file of a folder, ordered by path. Invalid, with all faults, before storing any."""
        entries = []
        for path, file in folders.files_of(source):
            blob = self.put_file(file)
            entries.append(Entry(path, blob.digest, blob.size))
        return tuple(entries)

    def lay_out(self, entries: Iterable[HasContent], target: Path) -> None:
        """Make `target` a folder that holds exactly these files; nothing happens when it does already.

        It appears whole, or not at all. What is done to its files is not done to the blobs. One caller at a time for
        each target. NotFound, also for a blob that is damaged; Invalid for a path that leads out of it.
        """
        files = {path: (digest, self.path(digest)) for path, digest in folders.checked(entries).items()}
        try:
            folders.lay_out(files, target)
        except OSError as error:
            raise Unavailable(f"cannot lay out {target}: {error}") from error

    def sweep(self) -> None:
        """Remove what killed processes left half-written. For starting up, when nobody puts."""
        for left in self._root.glob("incoming/*"):
            left.unlink(missing_ok=True)

    def _put(self, source: BinaryIO | io.RawIOBase) -> Blob:
        try:
            incoming = _folder(self._root / "incoming")
            handle, name = tempfile.mkstemp(dir=incoming)
            temporary = Path(name)
            try:
                with open(handle, "wb", buffering=0) as file:
                    blob = Blob(*content.copy(source, file))
                    os.fchmod(file.fileno(), 0o444)
                    os.fsync(file.fileno())
                self._keep(temporary, blob)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(f"cannot store a file: {error}", hint="look for a full disk") from error
        return blob

    def _keep(self, temporary: Path, blob: Blob) -> None:
        place = self._place(blob.digest)
        _folder(place.parent)
        # What differs is damage from outside, which putting the content again repairs.
        if not (place.is_file() and place.stat().st_size == blob.size and content.digest_of(place) == blob.digest):
            temporary.rename(place)
        # Also when it was there: whoever renamed it may not have got this far yet.
        _sync(place.parent)

    def _place(self, digest: str) -> Path:
        match = DIGEST.fullmatch(digest)
        if match is None:
            raise Invalid.of("digest", (Fault("digest", f"{digest[:100]!r} is not sha256:<64 hex digits>"),))
        return self._root / "sha256" / match[1][:2] / match[1]


def _open_regular(source: Path) -> io.FileIO:
    try:
        # Not blocking: opening a pipe would wait for a writer.
        handle = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"no file {source}") from error
    except OSError as error:
        raise Invalid.of(str(source), (Fault("", f"cannot be read: {error.strerror}"),)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Invalid.of(str(source), (Fault("", "not a regular file"),))
    return open(handle, "rb", buffering=0)


def _folder(path: Path) -> Path:
    """Make it, durably."""
    if not path.is_dir():
        _folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)
    return path


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

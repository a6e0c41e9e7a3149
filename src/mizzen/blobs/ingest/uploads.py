"""Resumable uploads by digest, in chunks, separate for each sender.

    blobs/uploads/<owner>/<hex>.part   the bytes received so far
    blobs/uploads/<owner>/<hex>        empty: this owner has sent this content completely

Only the sender of content may reference it by digest: knowing a digest does not prove having the content. Blocking
code.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from mizzen.blobs.file_store import BlobDescriptor, FileBlobs
from mizzen.blobs.fs import content
from mizzen.blobs.ingest.spool import disk_faults
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import Conflict, Fault, Invalid, TooLarge, Unavailable

_AT_ONCE = 64 << 20
"""Bytes written between two checks of the free space."""
_FINISH = "finish some uploads in progress; abandoned ones are removed after a while"


class Uploads:
    def __init__(self, blobs: FileBlobs, limits: IngestLimits = IngestLimits()) -> None:  # noqa: B008 - frozen
        self._blobs = blobs
        self._limits = limits

    def has_sent(self, owner: str, digest: str) -> bool:
        """Whether this owner has recently sent the whole content."""
        return self._mark(owner, digest).exists()

    def offset(self, owner: str, digest: str) -> int:
        """Returns the number of bytes received so far."""
        try:
            return self._part(owner, digest).stat().st_size
        except FileNotFoundError:
            return 0

    @contextmanager
    def piece(self, owner: str, digest: str, start: int, total: int) -> Iterator[Piece]:
        """Opens the upload for writing from `start` on.

        Raises Conflict if earlier bytes are missing or another request is writing. Raises TooLarge also if this owner
        has too many bytes or too many files unfinished. Raises NoRoom.
        """
        most = self._limits.upload_bytes
        if total > most:
            raise TooLarge(
                f"the file has {total:,} bytes; at most {most:,} are accepted",
                hint="raise the setting max_upload_bytes",
            )
        if self._blobs.room is not None:
            self._blobs.room.for_files(total - start)
        path = self._part(owner, digest)
        if not path.exists() and len(_sizes(path.parent)) >= (limit := self._limits.partials):
            raise TooLarge(f"{limit:,} uploads are unfinished, and no more are accepted", hint=_FINISH)
        with disk_faults():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(handle, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(f"another request is uploading {digest}", hint="wait until it has finished") from None
            have = os.fstat(handle).st_size
            if not _is(path, os.fstat(handle).st_ino):
                raise Conflict(f"another request has just uploaded {digest}", hint="ask again which files are missing")
            if start > have:
                raise Conflict(f"{digest} continues at byte {have}, not {start}", hint=f"send it from byte {have}")
            file.truncate(start)
            file.seek(start)
            try:
                yield Piece(file, total, lambda: self._room(path))
            except Unavailable:  # a full disk: free the partial data
                path.unlink(missing_ok=True)
                raise

    def finish(self, owner: str, digest: str, total: int) -> BlobDescriptor | None:
        """Stores the file if it is complete; returns None if bytes are missing. Raises Invalid for another digest.

        Call it while holding the piece that was written last.
        """
        path = self._part(owner, digest)
        if self.offset(owner, digest) < total:
            return None
        file = path.stat().st_ino
        try:
            received = content.digest_of(path)
            if received != digest:
                message = f"the received content has the digest {received}, not {digest}"
                raise Invalid.of("the file", (Fault("digest", message),))
            self._blobs.keep(path, BlobDescriptor(digest, total))
            with disk_faults():
                self._mark(owner, digest).touch()
            return BlobDescriptor(digest, total)
        finally:
            # Once it is moved to its place, another request may have begun a new upload here.
            if _is(path, file):
                path.unlink()

    def collect(self, untouched_since: datetime) -> int:
        """Removes abandoned uploads. Returns how many."""
        gone = 0
        for file in self._blobs.root.glob("uploads/*/*"):
            with suppress(FileNotFoundError):  # it was finished meanwhile
                if datetime.fromtimestamp(file.stat().st_mtime, UTC) < untouched_since:
                    file.unlink()
                    gone += 1
        return gone

    def _room(self, path: Path) -> int:
        """Returns the bytes allowed for this file, given the owner's other partial files. Raises NoRoom."""
        if self._blobs.room is not None:
            self._blobs.room.for_files()
        return self._limits.partial_bytes - sum(size for part, size in _sizes(path.parent).items() if part != path)

    def _part(self, owner: str, digest: str) -> Path:
        return self._mark(owner, digest).with_suffix(".part")

    def _mark(self, owner: str, digest: str) -> Path:
        # User names may contain any character.
        folder = hashlib.sha256(owner.encode()).hexdigest()[:32]
        return self._blobs.root / "uploads" / folder / content.hex_of(digest)


class Piece:
    def __init__(self, file: io.FileIO, total: int, room: Callable[[], int]) -> None:
        """`room`: returns the bytes allowed now. Called repeatedly, because other uploads run at the same time."""
        self._file = file
        self._left = total - file.tell()
        self._room = room
        self._free = 0

    def write(self, data: bytes) -> None:
        """Raises TooLarge beyond the announced size, or beyond the limit of unfinished bytes per owner."""
        self._left -= len(data)
        if self._left < 0:
            raise TooLarge("more bytes arrived than announced")
        if len(data) > self._free:
            room = self._room() - self._file.tell()
            if len(data) > room:
                raise TooLarge("the unfinished uploads hold too many bytes", hint=_FINISH)
            self._free = max(len(data), min(room, _AT_ONCE))
        self._free -= len(data)
        with disk_faults():
            content.write_all(self._file, data)


def _sizes(folder: Path) -> dict[Path, int]:
    """Returns the partial files of one owner, with their sizes."""
    found = {}
    for path in folder.glob("*.part"):
        with suppress(FileNotFoundError):  # just finished
            found[path] = path.stat().st_size
    return found


def _is(path: Path, file: int) -> bool:
    try:
        return path.stat().st_ino == file
    except FileNotFoundError:
        return False

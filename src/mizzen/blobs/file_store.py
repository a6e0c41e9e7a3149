"""Blobs in a folder: `sha256/ab/<hex>`, read-only, each complete or absent.

Blocking code: callers on an event loop use a thread. Any number of threads and processes may put at the same time.

The files are published, listed and deleted through obstore, with operations that S3 has as well. This module adds the
durability that S3 has built in: it syncs a file before publishing it, and its folder before acknowledging it.

**Garbage collection.** Unreferenced content is deleted once it has not been touched for a while (`remove`). Putting
existing content, and `hold`, count as touching it. Both take the folder's lock shared. Deleting takes it exclusively
and checks the time again, so it never deletes content that was just put or held. While any process has the folder
pinned (`pin`), as a backup does, nothing is deleted at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore

from mizzen.blobs.disk_room import Room
from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.fs import content, folders
from mizzen.blobs.fs.cancellable_thread import CancellableReader
from mizzen.blobs.fs.content import ByteReader
from mizzen.blobs.fs.folders import HasContent
from mizzen.blobs.fs.fsync import make_folder, sync_folder
from mizzen.blobs.ingest.spool import Spool, disk_faults, hold_lock, remove_leftover
from mizzen.blobs.store import Stored
from mizzen.errors import Conflict, Fault, Invalid, NotFound, Unavailable

PIN = ".pinned"
"""A lock file, shared by all processes that need deletes to be off."""


@dataclass(frozen=True, slots=True)
class BlobDescriptor:
    digest: str
    """sha256:<hex>"""
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a folder: its path, with forward slashes, and its blob."""

    path: str
    digest: str
    size: int


class FileBlobs:
    def __init__(self, root: Path, room: Room | None = None) -> None:
        """`room`: checked before bytes are written. None: the whole disk may be used."""
        self.root = root.absolute()  # absolute, like the paths of incoming files
        self.room = room
        self._objects: LocalStore | None = None
        self.documents = FileDocuments(self.root)

    def put_file(self, source: Path) -> BlobDescriptor:
        """Stores a file, durably when this returns. Existing content is kept, or replaced if it is damaged.

        Raises NotFound, Conflict if the file is written to meanwhile, and Unavailable for a full disk.
        """
        return _put_file(source, self.put)

    def put_bytes(self, data: bytes) -> BlobDescriptor:
        """Like `put_file`."""
        return self.put(io.BytesIO(data))

    def put(self, source: ByteReader) -> BlobDescriptor:
        """Like `put_file`, for any readable source of any length; reads in chunks."""
        with self.spool() as spool:
            spool.fill(source)
            return self.keep(spool.path, BlobDescriptor(spool.digest, spool.size))

    @contextmanager
    def batch(self, stop: threading.Event | None = None) -> Iterator[Callable[[ByteReader], BlobDescriptor]]:
        """`put` for many files: durable when the batch ends, and equal content is stored once.

        Raises Unavailable once `stop` is set.
        """
        seen: set[str] = set()
        folders_: set[Path] = set()

        def put(source: ByteReader) -> BlobDescriptor:
            source = source if stop is None else CancellableReader(source, stop)
            start = source.read(content.CHUNK) or b""
            more = source.read(content.CHUNK) or b"" if start else b""
            # Small files are often equal: detect that before writing a file.
            if not more and (digest := content.digest_name(hashlib.sha256(start).hexdigest())) in seen:
                return BlobDescriptor(digest, len(start))
            with self.spool() as spool:
                spool.write(start)
                spool.write(more)
                spool.fill(source)
                blob = BlobDescriptor(spool.digest, spool.size)
                if blob.digest not in seen:
                    folders_.add(self._move_into_place(spool.path, blob))
                    seen.add(blob.digest)
                return blob

        yield put
        with disk_faults():
            for folder in folders_:
                sync_folder(folder)

    def spool(self, most: int | None = None) -> Spool:
        """Returns a temporary file, for callers that must check all content before it is kept."""
        return Spool(self.root / "incoming", most, self.room)

    def keep(self, file: Path, blob: BlobDescriptor) -> BlobDescriptor:
        """Moves a file from below `root` to its place, durably. The caller guarantees its digest."""
        folder = self._move_into_place(file, blob)
        with disk_faults():
            sync_folder(folder)
        return blob

    def path(self, digest: str) -> Path:
        """Returns the path of the content; never write to it. Raises NotFound, or Invalid for a malformed digest."""
        place = self._place(digest)
        if not place.is_file():
            raise NotFound(f"no blob {digest}")
        return place

    def head(self, digest: str) -> BlobDescriptor:
        """Raises NotFound."""
        return BlobDescriptor(digest, self.path(digest).stat().st_size)

    def uri(self, digest: str) -> str:
        """Returns the address of the content for display, whether or not it exists."""
        return self._place(digest).as_uri()

    def hold(self, digests: Iterable[str]) -> frozenset[str]:
        """Touches these blobs and returns the missing ones. Call before a version references them."""
        missing = set()
        with self._hold_lock(fcntl.LOCK_SH):
            for digest in digests:
                try:
                    os.utime(self._place(digest))
                except FileNotFoundError:
                    missing.add(digest)
        return frozenset(missing)

    @contextmanager
    def pin(self) -> Iterator[None]:
        """Keeps all current blobs until the block, or the process, ends."""
        with ExitStack() as stack:
            # A delete in progress has not seen the pin; its blob was unreferenced before this returns.
            with self._hold_lock(fcntl.LOCK_SH):
                stack.enter_context(hold_lock(self.root / PIN, fcntl.LOCK_SH, os.O_RDWR | os.O_CREAT))
            yield

    def _is_pinned(self) -> bool:
        try:
            handle = os.open(self.root / PIN, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def stored(self) -> Iterator[Stored]:
        """Yields all blobs, in no order."""
        for page in obstore.list(self._store(), "sha256", chunk_size=1000):
            for item in page:
                digest = content.digest_name(Path(item["path"]).name)
                if content.DIGEST.fullmatch(digest):
                    yield Stored(digest, item["size"], item["last_modified"])

    def remove(self, digest: str, untouched_since: datetime) -> bool:
        """Deletes a blob, unless it was touched after that time or the folder is pinned."""
        key = content.blob_key(digest)
        with self._hold_lock(fcntl.LOCK_EX), _store_faults():
            if self._is_pinned():
                return False
            try:
                if obstore.head(self._store(), key)["last_modified"] >= untouched_since:
                    return False
                obstore.delete(self._store(), key)
            except FileNotFoundError:
                return False
        return True

    def list_behind(self) -> Iterator[Stored]:
        """Yields all blobs of the backing store, in no order. Raises Unavailable."""
        return iter(())

    def remove_behind(self, digest: str) -> bool:
        """Deletes a blob from the backing store, unless it is on this disk. Raises Unavailable."""
        return False

    def put_behind(self, digest: str) -> None:
        """Copies a blob from this disk to the backing store. Raises Unavailable."""

    def collect(self, source: Path, stop: threading.Event | None = None) -> tuple[Entry, ...]:
        """Stores a file, or every file of a folder, ordered by path. Raises Invalid, with all faults, before that.

        `stop`: as in `batch`.
        """
        entries = []
        with self.batch(stop) as put:
            for path, file in folders.files_of(source):
                blob = _put_file(file, put)
                entries.append(Entry(path, blob.digest, blob.size))
        return tuple(entries)

    def lay_out(self, entries: Iterable[HasContent], target: Path) -> None:
        """Makes `target` a folder of exactly these files; does nothing if it already is.

        The folder appears complete or not at all. Changes to its files do not affect the blobs. One caller at a time
        per target. Raises NotFound, also for a damaged blob; Invalid for a path that leads out of it; NoRoom.
        """
        files = {path: (digest, self.path(digest)) for path, digest in folders.check_entries(entries).items()}
        try:
            folders.lay_out(files, target, self.room.for_copies if self.room is not None else None)
        except OSError as error:
            raise Unavailable(f"cannot lay out {target}: {error}") from error

    def sweep(self) -> None:
        """Removes partial files of killed processes.

        Keeps files that others are writing, such as runners that keep running while their plane restarts.
        """
        for left in self.root.glob("incoming/*"):
            remove_leftover(left)

    def sweep_unpinned(self) -> None:
        """Like `sweep`, for a folder that every writer pins: does nothing while it is pinned."""
        with self._hold_lock(fcntl.LOCK_EX), disk_faults():
            if not self._is_pinned():
                self.sweep()

    def _move_into_place(self, file: Path, blob: BlobDescriptor) -> Path:
        """Moves a file to its place. Returns the folder to sync before acknowledging it."""
        with disk_faults():
            os.chmod(file, 0o444)
            os.utime(file)
            with file.open("rb", buffering=0) as written:
                os.fsync(written.fileno())
            self._publish(file, blob)
        # Also if it already existed: the process that renamed it may not have synced yet.
        return self._place(blob.digest).parent

    def _publish(self, file: Path, blob: BlobDescriptor) -> None:
        place, key = self._place(blob.digest), content.blob_key(blob.digest)
        new = file.relative_to(self.root).as_posix()
        with self._hold_lock(fcntl.LOCK_SH), _store_faults():
            make_folder(place.parent)
            if not _touch_if_same(place, blob):
                try:
                    obstore.rename(self._store(), new, key, overwrite=False)
                except AlreadyExistsError:
                    # Another put was faster; otherwise it is external damage, which this put repairs.
                    if not _touch_if_same(place, blob):
                        obstore.rename(self._store(), new, key, overwrite=True)

    def _hold_lock(self, how: int) -> AbstractContextManager[None]:
        """Holds the folder's lock: shared to add and touch, exclusive to delete."""
        with disk_faults():
            return hold_lock(make_folder(self.root), how, os.O_RDONLY | os.O_DIRECTORY)

    def _store(self) -> LocalStore:
        if self._objects is None:
            self._objects = LocalStore(make_folder(self.root))
        return self._objects

    def _place(self, digest: str) -> Path:
        return self.root / content.blob_key(digest)


def _put_file(source: Path, put: Callable[[ByteReader], BlobDescriptor]) -> BlobDescriptor:
    with _open_regular(source) as file:
        before = _file_state(file)
        blob = put(file)
        if _file_state(file) != before:
            raise Conflict(f"{source} changed while it was read", hint="try again when no process writes to it")
    return blob


def _touch_if_same(place: Path, blob: BlobDescriptor) -> bool:
    """Touches the file and returns True if it has exactly this content."""
    if not (place.is_file() and place.stat().st_size == blob.size and content.digest_of(place) == blob.digest):
        return False
    os.utime(place)
    return True


@contextmanager
def _store_faults() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        message = str(error).partition("\n")[0]
        raise Unavailable(f"cannot store a file: {message}", hint="check for a full disk") from error


def _open_regular(source: Path) -> io.FileIO:
    try:
        # Non-blocking: opening a pipe would wait for a writer.
        handle = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"no file {source}") from error
    except OSError as error:
        raise Invalid.of(str(source), (Fault("", f"cannot be read: {error.strerror}"),)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Invalid.of(str(source), (Fault("", "not a regular file"),))
    return open(handle, "rb", buffering=0)


def _file_state(file: io.FileIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns

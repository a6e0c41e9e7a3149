"""Blobs in a folder: `sha256/ab/<hex>`, read-only, whole or not there at all.

Blocking code: callers on an event loop use a thread. Any number of threads and processes may put at the same time.

The files are published, listed and deleted through obstore, with verbs that S3 has as well; what S3 does by itself is
done here by hand: a file is on disk before it is published, and its folder before that is acknowledged.

**What is collected.** Content that nobody names is deleted once it has been left alone for a while (`remove`). Putting
content that is there already, and `hold`, count as touching it. Both take the folder's lock shared, and deleting takes
it alone and looks at the time again: so what was just put or held is never what is just being deleted. While anybody
has the folder `pinned`, as a backup does, nothing is deleted at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore

from mizzen.blobs.disk_room import Room
from mizzen.blobs.documents import Documents
from mizzen.blobs.fs import content, folders
from mizzen.blobs.fs.cancellable_thread import CancellableReader
from mizzen.blobs.fs.content import Readable
from mizzen.blobs.fs.folders import HasContent
from mizzen.blobs.fs.fsync import make_folder, sync_folder
from mizzen.blobs.ingest.spool import Spool, disk_faults, remove_left
from mizzen.blobs.store import Stored
from mizzen.errors import Conflict, Fault, Invalid, NotFound, Unavailable

PIN = ".pinned"
"""A file whose lock is shared by all who need that nothing is deleted."""


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
    def __init__(self, root: Path, room: Room | None = None) -> None:
        """`room`: asked before bytes are taken. None: the disk is used to its end."""
        self.root = root.absolute()  # as files on their way here are named
        self.room = room
        self._objects: LocalStore | None = None
        self.documents = Documents(self.root)

    def put_file(self, source: Path) -> Blob:
        """Durable when this returns. Content that is there already is kept, unless it is damaged: then it is replaced.

        NotFound; Conflict when somebody writes to the file meanwhile; Unavailable for a full disk.
        """
        return _put_file(source, self.put)

    def put_bytes(self, data: bytes) -> Blob:
        """As `put_file`."""
        return self.put(io.BytesIO(data))

    def put(self, source: Readable) -> Blob:
        """As `put_file`, of whatever can be read: in pieces, however long it is."""
        with self.spool() as spool:
            spool.fill(source)
            return self.keep(spool.path, Blob(spool.digest, spool.size))

    @contextmanager
    def batch(self, stop: threading.Event | None = None) -> Iterator[Callable[[Readable], Blob]]:
        """`put` for many files: durable when the batch ends, and equal content is stored once.

        Unavailable from when `stop` is set on.
        """
        seen: set[str] = set()
        folders_: set[Path] = set()

        def put(source: Readable) -> Blob:
            source = source if stop is None else CancellableReader(source, stop)
            start = source.read(content.CHUNK) or b""
            more = source.read(content.CHUNK) or b"" if start else b""
            # Many small files are often equal: that is found out without a file of their own.
            if not more and (digest := content.digest_name(hashlib.sha256(start).hexdigest())) in seen:
                return Blob(digest, len(start))
            with self.spool() as spool:
                spool.write(start)
                spool.write(more)
                spool.fill(source)
                blob = Blob(spool.digest, spool.size)
                if blob.digest not in seen:
                    folders_.add(self._move_into_place(spool.path, blob))
                    seen.add(blob.digest)
                return blob

        yield put
        with disk_faults():
            for folder in folders_:
                sync_folder(folder)

    def spool(self, most: int | None = None) -> Spool:
        """A file to write to first, for who must see all of it before it may be kept."""
        return Spool(self.root / "incoming", most, self.room)

    def keep(self, file: Path, blob: Blob) -> Blob:
        """Move a file from below `root` to its place, durably. The caller knows that this is its digest."""
        folder = self._move_into_place(file, blob)
        with disk_faults():
            sync_folder(folder)
        return blob

    def path(self, digest: str) -> Path:
        """Where the content is, to read and never to write. NotFound; Invalid when it is no digest."""
        place = self._place(digest)
        if not place.is_file():
            raise NotFound(f"no blob {digest}")
        return place

    def head(self, digest: str) -> Blob:
        """NotFound."""
        return Blob(digest, self.path(digest).stat().st_size)

    def uri(self, digest: str) -> str:
        """Where people find the content, whether or not it is there."""
        return self._place(digest).as_uri()

    def hold(self, digests: Iterable[str]) -> frozenset[str]:
        """Touch these, and say which are not there. For whoever is about to name them in a version."""
        missing = set()
        with self._turn(fcntl.LOCK_SH):
            for digest in digests:
                try:
                    os.utime(self._place(digest))
                except FileNotFoundError:
                    missing.add(digest)
        return frozenset(missing)

    @contextmanager
    def pin(self) -> Iterator[None]:
        """What is here when this begins is here until it ends, or the process does."""
        with disk_faults():
            handle = os.open(make_folder(self.root) / PIN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Whoever deletes just now has seen no pin; what they delete was named by nobody before this returns.
            with self._turn(fcntl.LOCK_SH):
                fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

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
        """All there is, in no order."""
        for page in obstore.list(self._store(), "sha256", chunk_size=1000):
            for item in page:
                digest = content.digest_name(Path(item["path"]).name)
                if content.DIGEST.fullmatch(digest):
                    yield Stored(digest, item["size"], item["last_modified"])

    def remove(self, digest: str, untouched_since: datetime) -> bool:
        """Delete a blob, unless somebody touched it after that time, or has the folder pinned."""
        key = self._key(digest)
        with self._turn(fcntl.LOCK_EX), _store_faults():
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
        """All that a store behind this folder has, in no order. Unavailable."""
        return iter(())

    def remove_behind(self, digest: str) -> bool:
        """Delete a blob there, unless it is here. Unavailable."""
        return False

    def put_behind(self, digest: str) -> None:
        """Put one there that is here. Unavailable."""

    def collect(self, source: Path, stop: threading.Event | None = None) -> tuple[Entry, ...]:
        """Store a file, or every file of a folder, ordered by path. Invalid, with all faults, before storing any.

        `stop`: as for `batch`.
        """
        entries = []
        with self.batch(stop) as put:
            for path, file in folders.files_of(source):
                blob = _put_file(file, put)
                entries.append(Entry(path, blob.digest, blob.size))
        return tuple(entries)

    def lay_out(self, entries: Iterable[HasContent], target: Path) -> None:
        """Make `target` a folder that holds exactly these files; nothing happens when it does already.

        It appears whole, or not at all. What is done to its files is not done to the blobs. One caller at a time for
        each target. NotFound, also for a blob that is damaged; Invalid for a path that leads out of it; NoRoom.
        """
        files = {path: (digest, self.path(digest)) for path, digest in folders.check_entries(entries).items()}
        try:
            folders.lay_out(files, target, self.room.for_copies if self.room is not None else None)
        except OSError as error:
            raise Unavailable(f"cannot lay out {target}: {error}") from error

    def sweep(self) -> None:
        """Remove what killed processes left half-written, and nothing that others write just now, such as runners
        that go on while their plane is started again."""
        for left in self.root.glob("incoming/*"):
            remove_left(left)

    def sweep_unpinned(self) -> None:
        """The same while others may put, for a folder that all who put have pinned: nothing while anybody has."""
        with self._turn(fcntl.LOCK_EX), disk_faults():
            if not self._is_pinned():
                self.sweep()

    def _move_into_place(self, file: Path, blob: Blob) -> Path:
        """Move a file to its place. The folder that has to be synced before anybody relies on it."""
        with disk_faults():
            os.chmod(file, 0o444)
            os.utime(file)
            with file.open("rb", buffering=0) as written:
                os.fsync(written.fileno())
            self._publish(file, blob)
        # Also when it was there: whoever renamed it may not have got this far yet.
        return self._place(blob.digest).parent

    def _publish(self, file: Path, blob: Blob) -> None:
        place, key = self._place(blob.digest), self._key(blob.digest)
        new = file.relative_to(self.root).as_posix()
        with self._turn(fcntl.LOCK_SH), _store_faults():
            make_folder(place.parent)
            if not _touch_if_same(place, blob):
                try:
                    obstore.rename(self._store(), new, key, overwrite=False)
                except AlreadyExistsError:
                    # Somebody was faster; else it is damage from outside, which putting the content again repairs.
                    if not _touch_if_same(place, blob):
                        obstore.rename(self._store(), new, key, overwrite=True)

    @contextmanager
    def _turn(self, how: int) -> Iterator[None]:
        """The folder's own lock: shared by those who add and touch, alone for who deletes."""
        with disk_faults():
            handle = os.open(make_folder(self.root), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)

    def _store(self) -> LocalStore:
        if self._objects is None:
            self._objects = LocalStore(make_folder(self.root))
        return self._objects

    def _place(self, digest: str) -> Path:
        return self.root / self._key(digest)

    def _key(self, digest: str) -> str:
        hex_ = content.hex_of(digest)
        return f"sha256/{hex_[:2]}/{hex_}"


def _put_file(source: Path, put: Callable[[Readable], Blob]) -> Blob:
    with _open_regular(source) as file:
        before = _look(file)
        blob = put(file)
        if _look(file) != before:
            raise Conflict(f"{source} changed while it was read", hint="try again when nobody writes to it")
    return blob


def _touch_if_same(place: Path, blob: Blob) -> bool:
    """True, and touched, when exactly this content is there."""
    if not (place.is_file() and place.stat().st_size == blob.size and content.digest_of(place) == blob.digest):
        return False
    os.utime(place)
    return True


@contextmanager
def _store_faults() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        said = str(error).partition("\n")[0]
        raise Unavailable(f"cannot store a file: {said}", hint="look for a full disk") from error


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


def _look(file: io.FileIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns

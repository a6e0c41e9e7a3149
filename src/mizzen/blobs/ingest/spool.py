"""A temporary file for incoming content: written and hashed as it arrives, removed unless it is kept."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mizzen.blobs.disk_room import Room
from mizzen.blobs.fs import content
from mizzen.blobs.fs.content import ByteReader
from mizzen.errors import TooLarge, Unavailable


class Spool:
    """Blocking code. Use as a context manager: on exit its file is removed, if it still exists."""

    def __init__(self, folder: Path, most: int | None = None, room: Room | None = None) -> None:
        """`most`: maximum bytes; beyond it, writes raise TooLarge.

        Raises Unavailable if the file cannot be created, and NoRoom if the disk is too full.
        """
        self._most = most
        self._room = room
        if room is not None:
            room.for_files()
        with disk_faults():
            folder.mkdir(parents=True, exist_ok=True)
            handle, self.path = new_file(folder)
        self._file = open(handle, "w+b", buffering=0)  # noqa: SIM115 - closed in __exit__
        self._hasher = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    @property
    def digest(self) -> str:
        """The digest of the bytes written so far."""
        return content.digest_name(self._hasher.hexdigest())

    def write(self, data: bytes) -> None:
        """Raises TooLarge, and NoRoom or Unavailable for a full disk."""
        if self._most is not None and self.size + len(data) > self._most:
            raise TooLarge(
                f"more than {self._most:,} bytes are not accepted",
                hint="send less, or raise the setting max_upload_bytes",
            )
        if self._room is not None:
            self._room.for_files(len(data))
        with disk_faults():
            content.write_all(self._file, data)
        self._hasher.update(data)
        self.size += len(data)

    def fill(self, source: ByteReader) -> None:
        while chunk := source.read(content.CHUNK):
            self.write(chunk)

    def restart(self) -> None:
        """Discards the bytes written so far."""
        with disk_faults():
            self._file.seek(0)
            self._file.truncate()
        self._hasher = hashlib.sha256()
        self.size = 0

    def content(self) -> io.FileIO:
        """Returns the file, positioned at its start. Reads and writes share a position: write first, then read."""
        self._file.seek(0)
        return self._file


def new_file(folder: Path) -> tuple[int, Path]:
    """Creates a locked file; `remove_leftover` keeps it while it is open."""
    while True:
        handle, name = tempfile.mkstemp(dir=folder)
        if _is_ours(handle):
            return handle, Path(name)


def new_folder(folder: Path, prefix: str) -> tuple[int, Path]:
    """Like `new_file`, for a folder; it is locked until the handle is closed."""
    while True:
        name = tempfile.mkdtemp(prefix=prefix, dir=folder)
        with suppress(FileNotFoundError):
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if _is_ours(handle):
                return handle, Path(name)


def _is_ours(handle: int) -> bool:
    """Returns False, and closes the handle, if another process removed it before it was locked."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    if os.fstat(handle).st_nlink:
        return True
    os.close(handle)
    return False


def remove_leftover(path: Path) -> None:
    """Removes a leftover, unless a process has it locked as above."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # While we hold the lock: a process that just created it then sees that it is gone.
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return
    finally:
        os.close(handle)


@contextmanager
def hold_lock(path: Path, how: int, flags: int) -> Iterator[None]:
    """Holds the lock of a file or folder, shared or exclusive. Its parent folder must exist."""
    with disk_faults():
        handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


@contextmanager
def disk_faults() -> Iterator[None]:
    """Converts disk errors to Mizzen errors."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"cannot store a file: {error}", hint="check for a full disk, or a data dir that is not writable"
        ) from error

"""The checkpoint file: which store is in this folder, and how many commits it had.

The writer notes each commit after SQLite has made it durable, so the file is never ahead of the store. A commit is
noted in place, without waiting for the disk, which survives kill -9 at once. The file is synced at most once a second,
so after a power loss it may be behind the store by what was committed in the last seconds. The two lines of the file
are written in turn, and each has its own digest, so a torn write leaves the other one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

LINE: Final = 1024
SYNC_SECONDS: Final = 1.0
_LINES: Final = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreMark:
    """What a store had reached."""

    store: str
    """The random id of the store."""
    commits: int
    resource_version: int
    clean: bool = False
    """The store was closed: it has no write-ahead log."""
    held: str = ""
    """Why files without a reference are kept; empty: they may be collected."""
    sequence: int = 0
    """Of the line; the higher one holds."""


_FIELDS: Final = tuple(StoreMark.__dataclass_fields__)


class DamagedCheckpoint(Exception):
    """The file exists, and none of its lines is valid."""


def path_of(database: Path) -> Path:
    return database.with_suffix(".checkpoint")


def read(path: Path) -> StoreMark | None:
    """Returns the newest mark, or None if there is no file. Raises DamagedCheckpoint."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error.strerror}") from error
    found = [mark for mark in (_parse(data[at : at + LINE]) for at in range(0, _LINES * LINE, LINE)) if mark]
    if not found:
        raise DamagedCheckpoint(f"{path} is damaged")
    return max(found, key=lambda mark: mark.sequence)


class StoreCheckpoint:
    """The open file of a store. One thread at a time uses it."""

    def __init__(self, path: Path, mark: StoreMark) -> None:
        """Creates or replaces the file, durably. Raises OSError."""
        self._path = path
        self._mark = replace(mark, sequence=mark.sequence + 1, clean=False)
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        self._file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(self._file, _format(self._mark) + b" " * (LINE - 1) + b"\n", 0)
            os.fsync(self._file)
            draft.replace(path)
            _sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()
        self._failed = self._closed = False

    @property
    def mark(self) -> StoreMark:
        return self._mark

    def note(self, commits: int, resource_version: int) -> None:
        """Call after the commit. A failure is logged: the commit stands, and the file stays behind it."""
        self._mark = replace(
            self._mark, commits=commits, resource_version=resource_version, sequence=self._mark.sequence + 1
        )
        try:
            self._write()
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                os.fdatasync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            if not self._failed:
                log.warning("%s cannot be written: %s; a loss of newer changes would not be noticed", self._path, error)
            self._failed = True
        else:
            self._failed = False

    def close(self, *, clean: bool) -> None:
        """`clean`: the database is closed, and has everything that the write-ahead log had. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if clean:
                self._mark = replace(self._mark, clean=True, sequence=self._mark.sequence + 1)
                self._write()
            os.fsync(self._file)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)
        finally:
            os.close(self._file)

    def _write(self) -> None:
        os.pwrite(self._file, _format(self._mark), self._mark.sequence % _LINES * LINE)


def _format(mark: StoreMark) -> bytes:
    fields = json.dumps({name: getattr(mark, name) for name in _FIELDS})
    line = f'{fields[:-1]}, "seal": "{_seal(fields)}"}}'.encode()
    if len(line) >= LINE:
        raise ValueError("the mark is too long")
    return line.ljust(LINE - 1) + b"\n"


def _parse(line: bytes) -> StoreMark | None:
    try:
        data = json.loads(line)
        seal = data.pop("seal")
        mark = StoreMark(**data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return mark if seal == _seal(json.dumps(data)) else None


def _seal(fields: str) -> str:
    return hashlib.sha256(fields.encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

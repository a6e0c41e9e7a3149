"""Temporary files for incomplete results: a file next to a backup, a folder next to a data dir.

The writer holds a lock on it. A killed writer leaves it behind, with keys in it and as large as a plane; the next
writer to the same place removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mizzen.blobs.fs import content
from mizzen.blobs.fs.fsync import sync_folder
from mizzen.errors import Conflict, MizzenError, Unavailable


@contextmanager
def open_file_draft(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Yields a file that becomes `target` at the end, and a path next to it for the database."""
    draft, scratch = target.with_name(f".{target.name}.part"), target.with_name(f".{target.name}.db")
    with disk_faults():
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "wb", buffering=content.CHUNK) as file:
        if not _try_lock(handle, draft):
            raise Conflict(f"another backup to {target} is in progress", hint="wait until it has finished")
        try:
            file.truncate(0)
            scratch.unlink(missing_ok=True)
            os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield file, scratch
            with disk_faults():
                file.flush()
                os.fsync(handle)
                scratch.unlink()
                draft.replace(target)  # from here on another writer may use the names
                sync_folder(target.parent)
        except BaseException:
            if _try_lock(handle, draft):
                _remove(draft)
            raise


@contextmanager
def open_folder_draft(data_dir: Path) -> Iterator[Path]:
    """Yields a private folder next to the data dir. Removes it at the end, unless it was renamed."""
    name = re.compile(rf"\.{re.escape(data_dir.name)}\.[0-9a-f]{{8}}\.part")
    draft = data_dir.with_name(f".{data_dir.name}.{secrets.token_hex(4)}.part")
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        for leftover in data_dir.parent.iterdir():
            if name.fullmatch(leftover.name) and leftover.is_dir() and not leftover.is_symlink():
                with _try_hold(leftover) as ours:
                    if ours:
                        shutil.rmtree(leftover, ignore_errors=True)
        draft.mkdir(mode=0o700)
        try:
            with _try_hold(draft):
                yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise Unavailable(
            f"{data_dir} cannot be created: {error}", hint="free space on the disk, or name another folder"
        ) from error


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Removes drafts with this prefix that no process is writing."""
    for leftover in folder.glob(f".{prefix}*.part"):
        with disk_faults(), _try_hold(leftover) as ours:
            if ours:
                _remove(leftover)


@contextmanager
def disk_faults() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise MizzenError("the reader of the backup closed the pipe", hint="check the command that reads it") from error
    except OSError as error:
        raise Unavailable(
            f"the backup cannot be written: {error}", hint="free space on the disk, or name another folder"
        ) from error


def _remove(draft: Path) -> None:
    """Removes a draft, its database first: without the draft, no process would look for the database."""
    scratch = draft.with_suffix(".db")
    for leftover in (scratch.with_name(f"{scratch.name}-journal"), scratch, draft):
        leftover.unlink(missing_ok=True)


@contextmanager
def _try_hold(path: Path) -> Iterator[bool]:
    """Yields whether this process got the lock. False: another process is writing it, or it is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(handle, path)
    finally:
        os.close(handle)


def _try_lock(handle: int, path: Path) -> bool:
    """Returns False also if `path` is no longer this file: it was completed meanwhile."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False

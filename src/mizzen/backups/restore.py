"""Restoring a backup to a data dir: it is fully verified first, and the folder appears complete or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from mizzen.backups import archive, snapshot, temp_files
from mizzen.backups.create import BackupProgress
from mizzen.backups.documents import restore_documents
from mizzen.backups.manifest import (
    DATABASE,
    DOCUMENTS,
    LEARNT,
    MANIFEST,
    SEAL,
    Item,
    Manifest,
    damage_error,
    digest_of_path,
)
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs import content
from mizzen.blobs.fs.fsync import sync_folder
from mizzen.errors import BadRequest, Conflict, Forbidden, NotFound
from mizzen.stores.sqlite import schema

_AGAIN: Final = "try again when no other process writes to the backup"


def verify(file: Path, progress: BackupProgress) -> Manifest:
    """Verifies the whole backup, with the blobs next to it. Raises BadRequest if anything differs."""
    progress.step("checking", file.stat().st_size if file.is_file() else 0)
    manifest = archive.verify(file, progress.more)
    if manifest.schema > schema.SCHEMA:
        raise BadRequest(
            f"Mizzen {manifest.mizzen} wrote {file} (schema {manifest.schema}; this version supports {schema.SCHEMA})",
            hint="restore it with that version, or a newer one",
        )
    if all(item.path != DATABASE for item in manifest.items):
        raise damage_error(f"{file} does not contain a database")
    if manifest.beside:
        beside = [item for item in manifest.items if item.blob]
        progress.step("checking files", sum(item.size for item in beside))
        for item in beside:
            _check_beside(file, item)
            progress.more(item.size)
    return manifest


def restore(file: Path, data_dir: Path, progress: BackupProgress) -> Manifest:
    """Restores to `data_dir`, which must be absent or empty. Raises Conflict, BadRequest; a failure leaves nothing."""
    _check_empty(data_dir)
    manifest = verify(file, progress)
    progress.step("restoring", manifest.size)
    with temp_files.open_folder_draft(data_dir) as draft:
        expected = {item.path: item for item in manifest.items}
        with archive.open_archive(file) as members:
            for member in members:
                if member.path in (MANIFEST, SEAL):
                    continue
                item = expected.get(member.path)
                if item is None:  # the file was replaced since it was verified
                    raise BadRequest(f"{file} changed while it was read", hint=_AGAIN)
                _write(draft, item, member.chunks(), progress)
        if manifest.beside:
            for item in manifest.items:
                if item.blob:
                    with _blob(file, item).open("rb") as source:
                        _write(draft, item, iter(partial(source.read, content.CHUNK), b""), progress)
        snapshot.admit(draft / DATABASE)
        if LEARNT in expected:
            snapshot.admit_selection_state(draft / LEARNT)
        if DOCUMENTS in expected:
            with (draft / DOCUMENTS).open("rb") as lines:
                restore_documents(lines, draft / "blobs")
            (draft / DOCUMENTS).unlink()
        # Folders only: the content of files is already synced.
        for place, _, _ in os.walk(draft):
            sync_folder(Path(place))
        _check_empty(data_dir)
        draft.rename(data_dir)
        sync_folder(data_dir.parent)
    return manifest


def _write(root: Path, item: Item, chunks: Iterator[bytes], progress: BackupProgress) -> None:
    place = root / item.path
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hasher = hashlib.sha256()
    mode = 0o444 if item.blob else 0o600
    with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb", buffering=0) as file:
        for chunk in chunks:
            hasher.update(chunk)
            content.write_all(file, chunk)
            progress.more(len(chunk))
        os.fsync(file.fileno())
    if hasher.hexdigest() != item.sha256 or place.stat().st_size != item.size:
        raise BadRequest(f"{item.path} changed while it was read", hint=_AGAIN)


def _blob(file: Path, item: Item) -> Path:
    digest = digest_of_path(item.path)
    assert digest is not None, "a manifest names no other blobs"
    return FileBlobs(file.parent / "blobs").path(digest)


def _check_beside(file: Path, item: Item) -> None:
    try:
        path = _blob(file, item)
    except NotFound as error:
        raise damage_error(f"a file of the backup is missing: {file.parent / item.path}") from error
    if content.digest_of(path) != content.digest_name(item.sha256):
        raise BadRequest(f"{path} was altered", hint="remove this file, then take another backup")


def _check_empty(data_dir: Path) -> None:
    if data_dir.is_symlink() or (data_dir.exists() and not data_dir.is_dir()):
        raise Conflict(f"{data_dir} is not a folder", hint="name a new folder with --data-dir")
    if not data_dir.exists():
        return
    if os.path.ismount(data_dir):
        raise Conflict(
            f"{data_dir} is a mount point, which a restored folder cannot replace",
            hint=f"name a folder on it: --data-dir {data_dir / 'data'}",
        )
    if data_dir.stat().st_uid != os.geteuid():
        raise Forbidden(f"{data_dir} belongs to another user", hint="restore it as the user that will run the plane")
    if any(data_dir.iterdir()):
        raise Conflict(
            f"{data_dir} is not empty",
            hint="move its content away, or name a new folder: a restore overwrites nothing",
        )

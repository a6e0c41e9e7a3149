"""Creating a backup: snapshots of the database and of bandit state, then documents, referenced files, the manifest.

The blobs are pinned before the snapshot, so the files that it references stay until they are copied, even if they
are deleted from the plane meanwhile.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from mizzen import __version__
from mizzen.backups import snapshot, temp_files
from mizzen.backups.archive import ArchiveWriter
from mizzen.backups.documents import write_documents
from mizzen.backups.manifest import (
    DATABASE,
    DOCUMENTS,
    KEYS,
    LEARNT,
    OTHERS,
    TLS,
    Item,
    Manifest,
    blob_path,
    check_paths,
    is_known,
)
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs import content
from mizzen.errors import Conflict, Forbidden, NotFound

PACKED: Final = (".gz", ".tgz")


class BackupProgress(Protocol):
    def step(self, what: str, total: int) -> None:
        """Starts a step; `total` is its number of bytes or pages."""

    def more(self, done: int) -> None: ...


@dataclass(frozen=True, slots=True)
class BackupRequest:
    data_dir: Path
    taken: datetime
    keys: bool = True
    also: tuple[str, ...] = ()
    """Files of the data dir that settings name."""
    also_keys: tuple[str, ...] = ()
    """Such files that are included with the keys: a certificate, and its key."""
    shelf: FileBlobs | None = None
    """The folder of blobs shared by several backups; None: blobs are in the file itself."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    manifest: Manifest
    size: int
    """Bytes written."""
    damaged: tuple[str, ...]
    """Blobs whose content does not match their digest; left out."""
    left_out: tuple[str, ...] = ()
    """Files named by settings, or among the certificates, whose names a backup cannot hold."""


def to_file(request: BackupRequest, target: Path, progress: BackupProgress) -> BackupResult:
    """Creates or replaces `target` atomically. Raises Conflict while another process writes it."""
    _check_target(request.data_dir, target)
    with temp_files.open_file_draft(target) as (file, scratch), ExitStack() as stack:
        if target.suffix in PACKED:
            # A low level: models hardly compress, and a database compresses well at any level.
            packed = stack.enter_context(gzip.GzipFile("", "wb", 1, file, mtime=request.taken.timestamp()))
            result = _write_backup(request, cast(BinaryIO, packed), scratch, progress)
        else:
            result = _write_backup(request, file, scratch, progress)
    return result


def to_stream(request: BackupRequest, stream: BinaryIO, progress: BackupProgress) -> BackupResult:
    with tempfile.TemporaryDirectory(prefix="mizzen-backup-") as scratch:
        return _write_backup(request, stream, Path(scratch) / DATABASE, progress)


def _check_target(data_dir: Path, target: Path) -> None:
    if target.exists() and not target.is_file():
        raise Conflict(f"{target} is not a regular file", hint="'-' writes to stdout, for pipes")
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise Conflict(
            f"{target} is inside the data dir",
            hint="choose a place outside of it",
        )


def check_owner(data_dir: Path) -> None:
    """Raises Forbidden for other users, who might leave files that the plane cannot read. Raises NotFound."""
    try:
        owner = data_dir.stat().st_uid
    except FileNotFoundError as error:
        raise NotFound(f"no folder {data_dir}", hint="name another one with --data-dir") from error
    if owner != os.geteuid():
        raise Forbidden(f"{data_dir} belongs to another user", hint="take the backup as the user that runs the plane")


def _write_backup(request: BackupRequest, file: BinaryIO, scratch: Path, progress: BackupProgress) -> BackupResult:
    check_owner(request.data_dir)
    blobs = FileBlobs(request.data_dir / "blobs")
    store, learnt = request.data_dir / DATABASE, request.data_dir / LEARNT
    if not store.is_file():
        raise NotFound(f"{request.data_dir} is not the data dir of a plane", hint="name another folder with --data-dir")
    with blobs.pin(), temp_files.disk_faults(), ExitStack() as stack:
        progress.step("database", store.stat().st_size)
        moment = snapshot.copy_store(store, scratch, _count_pages(progress, store.stat().st_size))
        documents = stack.enter_context(tempfile.TemporaryFile(dir=scratch.parent))
        named = moment.digests | write_documents(blobs.documents, documents)
        present, absent = _find_blobs(blobs, named)
        total = scratch.stat().st_size + sum(path.stat().st_size for path in present.values())
        total += documents.tell() + (learnt.stat().st_size if learnt.is_file() else 0)
        progress.step("files", total)
        writer = ArchiveWriter(file, progress.more)
        files, left_out = _list_files(request)
        _add(writer, DATABASE, scratch, request.taken)
        if learnt.is_file():
            os.truncate(scratch, 0)
            snapshot.copy_selection_state(learnt, scratch)
            _add(writer, LEARNT, scratch, request.taken)
        if size := documents.tell():
            documents.seek(0)
            writer.add(DOCUMENTS, documents, size, request.taken.timestamp())
        for name, path in files:
            _add(writer, name, path, request.taken)
        beside: list[Item] = []
        damaged = []
        for digest, path in sorted(present.items()):
            if content.digest_of(path) != digest:
                damaged.append(digest)
            elif request.shelf is None:
                _add(writer, blob_path(digest), path, request.taken)
            else:
                beside.append(_copy_blob(request.shelf, digest, path))
                progress.more(beside[-1].size)
        manifest = Manifest(
            mizzen=__version__,
            schema=moment.schema,
            taken=request.taken.isoformat(timespec="seconds"),
            resource_version=moment.resource_version,
            keys=request.keys,
            beside=request.shelf is not None,
            items=(*writer.items, *beside),
            absent=(*absent, *damaged),
        )
        check_paths([item.path for item in manifest.items])  # fail now rather than at the restore
        writer.finish(manifest, request.taken.timestamp())
        return BackupResult(manifest, sum(item.size for item in writer.items), tuple(damaged), left_out)


def _list_files(request: BackupRequest) -> tuple[list[tuple[str, Path]], tuple[str, ...]]:
    """Returns files by name, and the names of those that a backup cannot hold."""
    root = request.data_dir
    names = [*OTHERS, *request.also]
    if request.keys:
        names += [*KEYS, *request.also_keys]
        if (root / TLS).is_dir():
            names += sorted(f"{TLS}/{path.name}" for path in (root / TLS).iterdir() if not path.name.startswith("."))
    there = [name for name in dict.fromkeys(map(os.path.normpath, names)) if (root / name).is_file()]
    return [(name, root / name) for name in there if is_known(name)], tuple(
        name for name in there if not is_known(name)
    )


def _find_blobs(blobs: FileBlobs, digests: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    present, absent = {}, []
    for digest in sorted(digests):
        try:
            present[digest] = blobs.path(digest)
        except NotFound:
            absent.append(digest)
    return present, absent


def _add(writer: ArchiveWriter, name: str, path: Path, taken: datetime) -> Item:
    try:
        with path.open("rb") as source:
            return writer.add(name, source, os.fstat(source.fileno()).st_size, taken.timestamp())
    except FileNotFoundError as error:
        raise Conflict(f"{path} was deleted during the backup", hint="try again") from error


def _copy_blob(shelf: FileBlobs, digest: str, path: Path) -> Item:
    """Copies a blob, or touches the copy of an earlier backup, so that it does not count as old."""
    size = path.stat().st_size
    shelf.hold([digest])
    try:
        there = shelf.head(digest).size == size
    except NotFound:
        there = False
    if not there:
        shelf.put_file(path)
    shelf.path(digest).chmod(0o600)  # private, even if other users can read the folder of backups
    return Item(blob_path(digest), size, content.hex_of(digest))


def _count_pages(progress: BackupProgress, size: int) -> Callable[[int, int], None]:
    """Returns a function that reports copied pages of a database of `size` bytes as bytes."""
    reported = 0

    def report(done: int, total: int) -> None:
        nonlocal reported
        copied = size * done // max(total, 1)
        progress.more(copied - reported)
        reported = copied

    return report

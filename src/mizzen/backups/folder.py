"""A folder of backups that share their blobs: each backup is a small file, and a blob is copied once.

<folder>/mizzen-20261116T120000Z-0a1b2c3d.tar     database, settings, keys, manifest
<folder>/blobs/sha256/ab/…                        the blobs that the manifests name

The last part of a name identifies the plane: of several planes in one folder, each removes only its own backups.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mizzen.backups import archive, temp_files
from mizzen.backups.create import BackupProgress, BackupRequest, BackupResult, check_owner, to_file
from mizzen.backups.manifest import DATABASE, MANIFEST, SEAL, WHOSE, Manifest, digest_of_path
from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import BadRequest, Conflict, NotFound

_PREFIX: Final = "mizzen-"
_MARK: Final = re.compile(r"[0-9a-f]{8}")
_OWNED: Final = re.compile(r"mizzen-[0-9]{8}T[0-9]{6}Z(?:-([0-9a-f]{8}))?\.tar")


def add(
    request: BackupRequest, folder: Path, progress: BackupProgress, *, keep: int | None = None
) -> tuple[Path, BackupResult]:
    """Adds a backup and returns it. Then removes all but this plane's newest `keep`, and blobs only they needed."""
    if (folder / DATABASE).exists():
        # A backup must not mix its blobs with those of the plane.
        raise Conflict(f"{folder} is a data dir", hint="name another folder for the backups")
    check_owner(request.data_dir)
    with temp_files.disk_faults():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        blobs = FileBlobs(folder / "blobs")
        blobs.root.mkdir(mode=0o700, exist_ok=True)
        blobs.root.chmod(0o700)
    temp_files.remove_leftovers(folder, _PREFIX)
    blobs.sweep_unpinned()
    plane = _plane_id(request.data_dir)
    target = folder / f"{_PREFIX}{request.taken.astimezone(UTC):%Y%m%dT%H%M%SZ}{plane and f'-{plane}'}.tar"
    # Pinned: another backup must not remove blobs that this one relies on.
    with blobs.pin():
        result = to_file(replace(request, shelf=blobs), target, progress)
    if keep is not None:
        _remove_old(folder, blobs, plane, keep)
    return target, result


def _plane_id(data_dir: Path) -> str:
    """Returns the id of the plane, created with its first backup to a folder."""
    file = data_dir / WHOSE
    if not file.exists() and (data_dir / DATABASE).is_file():
        with temp_files.disk_faults(), tempfile.NamedTemporaryFile("w", dir=data_dir, prefix=f".{WHOSE}.") as draft:
            draft.write(secrets.token_hex(4))
            draft.flush()
            with suppress(FileExistsError):  # another backup was faster
                os.link(draft.name, file)
    try:
        return found if _MARK.fullmatch(found := file.read_text(errors="replace").strip()) else ""
    except FileNotFoundError:
        return ""


def list_backups(folder: Path) -> list[Path]:
    """Returns the backups in a folder, oldest first."""
    return sorted(folder.glob(f"{_PREFIX}*.tar"))


def find_newest(folder: Path) -> Path:
    """Returns the newest backup. Raises NotFound, or Conflict if backups of several planes make it ambiguous."""
    found = list_backups(folder)
    if not found:
        raise NotFound(f"no backup in {folder}", hint=f"create one with: mizzen backup {folder}")
    last = {_plane_id_in(file): file for file in found}
    if len(last) > 1:
        names = ", ".join(sorted(file.name for file in last.values()))
        raise Conflict(f"{folder} holds backups of several planes", hint=f"name one; the newest of each: {names}")
    return found[-1]


def _plane_id_in(file: Path) -> str | None:
    """Returns the plane id in a file name; None if the name is not that of a backup."""
    found = _OWNED.fullmatch(file.name)
    return (found[1] or "") if found else None


def _remove_old(folder: Path, blobs: FileBlobs, plane: str, keep: int) -> None:
    before = datetime.now(UTC)
    own = [file for file in list_backups(folder) if _plane_id_in(file) == plane]
    for file in own[: max(0, len(own) - keep)]:
        file.unlink()
    needed = set()
    for file in list_backups(folder):
        try:
            needed |= {digest_of_path(item.path) for item in _read_manifest(file).items if item.blob}
        except BadRequest:  # the blobs that it needs are unknown: keep all
            return
    for stored in list(blobs.stored()):
        if stored.digest not in needed:
            blobs.remove(stored.digest, before)


def _read_manifest(file: Path) -> Manifest:
    parts: dict[str, bytes] = {}
    with archive.open_archive(file) as members:
        for member in members:
            if member.path in (MANIFEST, SEAL):
                parts[member.path] = b"".join(member.chunks())
    return archive.manifest_of(parts, str(file))

"""A folder of backups that share their blobs: each backup is a small file, and a blob is copied once.

<folder>/mizzen-20261116T120000Z.tar     database, settings, keys, manifest
<folder>/blobs/sha256/ab/…               what the manifests name
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mizzen.backups import archive
from mizzen.backups.contents import MANIFEST, SEAL, Manifest, digest_of_path
from mizzen.backups.making import Made, Progress, Wanted, to_file
from mizzen.blobs.files import FileBlobs
from mizzen.errors import BadRequest, NotFound

_PREFIX: Final = "mizzen-"


def add(wanted: Wanted, folder: Path, progress: Progress, *, keep: int | None = None) -> tuple[Path, Made]:
    """The new backup. Then all but the newest `keep` are removed, with the blobs that only they needed."""
    blobs = FileBlobs(folder / "blobs")
    target = folder / f"{_PREFIX}{wanted.taken.astimezone(UTC):%Y%m%dT%H%M%SZ}.tar"
    # Pinned: what another one removes meanwhile may be what this one counts on.
    with blobs.pinned():
        made = to_file(replace(wanted, shelf=blobs), target, progress)
    if keep is not None:
        _remove_old(folder, blobs, keep)
    return target, made


def backups(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob(f"{_PREFIX}*.tar"))


def newest(folder: Path) -> Path:
    found = backups(folder)
    if not found:
        raise NotFound(f"no backup in {folder}", hint=f"mizzen backup {folder}")
    return found[-1]


def _remove_old(folder: Path, blobs: FileBlobs, keep: int) -> None:
    found = backups(folder)
    for file in found[: max(0, len(found) - keep)]:
        file.unlink()
    needed = set()
    for file in backups(folder):
        try:
            needed |= {digest_of_path(item.path) for item in _manifest(file).items if item.blob}
        except BadRequest:  # which of the blobs it needs nobody can say: all are kept
            return
    for stored in list(blobs.stored()):
        if stored.digest not in needed:
            blobs.remove(stored.digest, datetime.now(UTC))


def _manifest(file: Path) -> Manifest:
    parts: dict[str, bytes] = {}
    with archive.opened(file) as members:
        for member in members:
            if member.path in (MANIFEST, SEAL):
                parts[member.path] = b"".join(member.chunks())
    return archive.manifest_of(parts, str(file))

"""What is in blobs and in folders."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mizzen.blobs.file_store import FileBlobs


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def kept(blobs: FileBlobs) -> list[Path]:
    """Every file in the folder, half-written ones too."""
    return [path for path in blobs.root.rglob("*") if path.is_file()]


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

"""Files that only their owner may read: the admin's token, the key of the secrets, the gateways' access rules."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from mizzen.blobs.fs.fsync import sync_folder
from mizzen.errors import MizzenError


def create(path: Path, text: str) -> None:
    """Creates the file atomically and never overwrites: readers see the whole text, and one of two creators wins.

    Raises FileExistsError for the other creator.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(draft, f"{text}\n".encode())
        os.link(draft, path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Replaces the file atomically: readers see the old file or the new one, also after a power loss."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)  # a leftover may have a different mode
    _write(draft, data)
    draft.replace(path)
    sync_folder(path.parent)


def read(path: Path, what: str) -> str:
    """Returns the stripped text. Raises MizzenError if other users can read it; `what` names the content."""
    with path.open(errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise MizzenError(f"others can read the {what} in {path}", hint=f"chmod 600 {path}")
        return file.read().strip()


def _write(draft: Path, data: bytes) -> None:
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

"""Files that only their owner may read: the admin's token, the key of the secrets, who may ask gateways what."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from mizzen.errors import MizzenError


def create(path: Path, text: str) -> None:
    """All or nothing, and never over an existing file: a reader sees the whole text, and one of two creators wins.

    FileExistsError for the other one.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one, after a power cut, too."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)  # its mode may be another one's choice
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_folder(path.parent)


def read(path: Path, what: str) -> str:
    """The text, without the space around it. MizzenError when others can read it too; `what` says what it holds."""
    with path.open(errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise MizzenError(f"others can read the {what} in {path}", hint=f"chmod 600 {path}")
        return file.read().strip()


def _sync_folder(folder: Path) -> None:
    """The name itself must survive power loss: what is sealed with a key is worth nothing without it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Folders that are there after a power loss, too."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> Path:
    """Make it, with those above it."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)
    return path


def sync_folder(folder: Path) -> None:
    """What was renamed or removed in it is so after a power loss, too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

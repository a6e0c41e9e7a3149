"""Folder operations that survive a power loss."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> Path:
    """Creates the folder and its parents, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)
    return path


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in the folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""A disk that gets full: a command is ended before the plane itself has no room left to say so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mizzen.blobs.disk_room import Room
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.runner.checkpoints.entries import is_name


def is_short(room: Room) -> bool:
    """Is half of the way from where no files are taken to where nothing is gone?"""
    return bool(room.low) and room.free(room.folder) < (room.low + room.critical) // 2


def discard_halves(folder: Path) -> None:
    """What a command had begun to save when the disk was full is of no use to anybody, and most likely what filled it.
    Notes about what is saved stay."""
    for path in folder.glob("*") if folder.is_dir() else ():
        if is_name(path.name) or path.name.endswith(".meta.json"):
            continue
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink()

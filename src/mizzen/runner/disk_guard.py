"""Guarding against a full disk: a command is ended before the plane has no space left to report it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mizzen.blobs.disk_room import Room
from mizzen.blobs.fs.remove_tree import remove_tree
from mizzen.runner.checkpoints.entries import is_name


def is_short(room: Room) -> bool:
    """Return whether free space is below the midpoint of the `low` limit, where files are rejected, and the `critical`
    one."""
    return bool(room.low) and room.free(room.folder) < (room.low + room.critical) // 2


def discard_halves(folder: Path) -> None:
    """Delete partial checkpoints of a command that filled the disk: they are useless, and most likely what filled it.
    Sidecar files stay."""
    for path in folder.glob("*") if folder.is_dir() else ():
        if is_name(path.name) or path.name.endswith(".meta.json"):
            continue
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                path.unlink()

"""Removal of folders filled by untrusted code, however deep they are."""

from __future__ import annotations

import os
import shutil
import stat
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Removes the folder; does nothing if it is absent. Raises OSError."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (RecursionError, OSError):  # OSError also if too many folders are open at once
        if not folder.is_dir() or folder.is_symlink():
            raise
        _flatten(folder)


def _flatten(folder: Path) -> None:
    """Moves entries up from two levels below to one, repeatedly: paths stay short, and nothing recurses.

    Each folder is opened without following links: users' code that still runs could exchange one for a link.
    """
    numbers = count()
    top = os.open(folder, _FOLDER)
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = os.open(name, _FOLDER, dir_fd=top)
                try:
                    for below in os.listdir(inner):
                        if _is_folder(below, inner):
                            os.rename(below, _free(folder, numbers), src_dir_fd=inner, dst_dir_fd=top)
                        else:
                            os.unlink(below, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _free(folder: Path, numbers: count[int]) -> str:
    return next(name for number in numbers if not os.path.lexists(folder / (name := f".up-{number}")))

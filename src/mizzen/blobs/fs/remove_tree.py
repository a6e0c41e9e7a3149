"""Folders that somebody else's code has filled, removed however deep they are."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Nothing happens when it is not there. OSError."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (RecursionError, OSError):  # also: more folders open at once than may be
        if not folder.is_dir() or folder.is_symlink():
            raise
        _flatten(folder)


def _flatten(folder: Path) -> None:
    """Level by level: what is two below comes up to one below. So no path is ever longer than that, and nothing calls
    itself."""
    numbers = count()
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.rename(inner.path, _free(folder, numbers))
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)
    folder.rmdir()


def _free(folder: Path, numbers: count[int]) -> Path:
    return next(path for number in numbers if not os.path.lexists(path := folder / f".up-{number}"))

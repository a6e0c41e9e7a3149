"""Removal of folders filled by untrusted code, however deep they are."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path


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
    """Moves entries up from two levels below to one, repeatedly: paths stay short, and nothing recurses."""
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

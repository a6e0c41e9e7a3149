"""Keeps log files from growing without end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LIMIT = 32 << 20


def too_long(path: Path, limit: int = LIMIT) -> bool:
    try:
        return path.stat().st_size > limit
    except FileNotFoundError:
        return False


def rotate(path: Path) -> None:
    """Copies a log to `<log>.1` and empties it; writers keep their descriptors.

    They must append, else they would go on at their old offset. A line written between the copy and the cut is lost.
    """
    fresh = path.with_name(f".{path.name}.1")
    shutil.copyfile(path, fresh)
    fresh.replace(path.with_name(f"{path.name}.1"))  # first, so that whoever sees the cut finds the rest there
    os.truncate(path, 0)

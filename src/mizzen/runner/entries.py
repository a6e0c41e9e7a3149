"""Entries of the folder that code saves its checkpoints in: which of them may be checkpoints, and what is in them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mizzen.blobs.folders import MOST_FILES

UNFINISHED = (".tmp", ".part")
_ENDS_IN_NUMBER = re.compile(r"(\d{1,18})$")
_MOST_META = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    files: tuple[tuple[str, Path], ...]
    """Path and file, ordered by path. A file alone has its own name as its path."""
    signature: str
    """Changes with its files, as far as the disk tells without reading them."""
    newest: float
    """When the last of them was written to."""
    left_out: int
    """Links, pipes and sockets in it, which are not kept."""


def is_name(name: str) -> bool:
    """May an entry of this name be a checkpoint?"""
    return bool(name) and not name.startswith(".") and not name.endswith(UNFINISHED)


def names(folder: Path) -> list[str]:
    """Of what may be checkpoints, in order. Those that are no text are left out."""
    try:
        found = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [name for name in found if is_name(name) and name == name.encode(errors="replace").decode()]


def look(folder: Path, name: str) -> Found | None:
    """None when it is gone, or there is no file in it. ValueError when there are too many, or they have odd names."""
    top = folder / name
    files: list[tuple[str, Path, os.stat_result]] = []
    left_out = 0
    try:
        found = top.lstat()
        if stat.S_ISREG(found.st_mode):
            files.append((name, top, found))
        elif stat.S_ISDIR(found.st_mode):
            left_out = _walk(top, top, files)
    except FileNotFoundError:
        return None
    if not files:
        return None
    files.sort(key=lambda file: file[0])
    words = [f"{path}\0{at.st_ino}\0{at.st_mtime_ns}\0{at.st_size}" for path, _, at in files]
    return Found(
        files=tuple((path, file) for path, file, _ in files),
        signature=hashlib.sha256("\0".join(words).encode()).hexdigest(),
        newest=max(at.st_mtime for *_, at in files),
        left_out=left_out,
    )


def told(folder: Path, name: str) -> tuple[int | None, dict[str, float]] | None:
    """Step and metrics, as its own file beside it tells them; None without one."""
    try:
        with (folder / f".{name}.meta.json").open("rb") as file:
            data = json.loads(file.read(_MOST_META))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, Mapping):
        return None
    step = data.get("step")
    return step if isinstance(step, int) else None, numbers(data.get("metrics"))


def step_of(name: str) -> int | None:
    """The number that a name ends with, before its suffixes: `ckpt-100`, `epoch=3`, `model_20.tar.gz`."""
    while True:
        found = _ENDS_IN_NUMBER.search(name)
        if found:
            return int(found[1])
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None


def numbers(given: Any) -> dict[str, float]:
    """Of what was told, whatever is a number."""
    if not isinstance(given, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in given.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _walk(top: Path, folder: Path, files: list[tuple[str, Path, os.stat_result]]) -> int:
    left_out = 0
    for entry in os.scandir(folder):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = Path(entry.path)
        if stat.S_ISDIR(found.st_mode):
            left_out += _walk(top, path, files)
        elif stat.S_ISREG(found.st_mode):
            name = path.relative_to(top).as_posix()
            if name != name.encode(errors="replace").decode():
                raise ValueError("a file in it has a name that is not UTF-8")
            files.append((name, path, found))
            if len(files) > MOST_FILES:
                raise ValueError(f"there are more than {MOST_FILES:,} files in it; pack them into one")
        else:
            left_out += 1
    return left_out

"""Entries of the checkpoint folder: which of them may be checkpoints, and their content."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mizzen.blobs.fs.folders import MOST_FILES
from mizzen.runs import progress, safe_read

UNFINISHED = (".tmp", ".part")
_ENDS_IN_NUMBER = re.compile(r"(\d{1,18})$")
_MOST_META = 1 << 20
DEEPEST = 50
"""Maximum depth of nested folders."""


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    files: tuple[tuple[str, Path], ...]
    """Paths and files, ordered by path. A single file has its own name as its path."""
    signature: str
    """Changes with its files, as far as the file system shows without reading them."""
    written_ns: int
    """When the last of its files was written; nanoseconds since 1970."""
    left_out: int
    """The number of links, pipes and sockets in it, which are not stored."""

    @property
    def newest(self) -> float:
        """When the last of its files was written; seconds since 1970."""
        return self.written_ns / 1e9


def is_name(name: str) -> bool:
    """Return whether an entry with this name may be a checkpoint."""
    return bool(name) and not name.startswith(".") and not name.endswith(UNFINISHED)


def list_names(folder: Path) -> list[str]:
    """Return the names of possible checkpoints, in order, including those that are not valid text: see `is_text`."""
    try:
        return sorted(name for name in os.listdir(folder) if is_name(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_text(name: str) -> bool:
    return name == name.encode(errors="replace").decode()


def printable_name(name: str) -> str:
    """Return any name as one printable line."""
    text = os.fsencode(name).decode(errors="backslashreplace") if not is_text(name) else name
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)[:200]


def read_entry(folder: Path, name: str) -> CheckpointEntry | None:
    """Return the entry; None if it is gone or has no file. Raises ValueError, with the reason, if it cannot be stored;
    OSError."""
    if not is_text(name):
        raise ValueError("its name is not UTF-8")
    top = folder / name
    files: list[tuple[str, Path, os.stat_result]] = []
    left_out = 0
    try:
        found = top.lstat()
        if stat.S_ISREG(found.st_mode):
            files.append((name, top, found))
        elif stat.S_ISDIR(found.st_mode):
            left_out = _walk(top, files)
        else:
            raise ValueError("it is a link, a pipe, a socket or a device; only files and folders are stored")
    except FileNotFoundError:
        return None
    if not files:
        return None
    files.sort(key=lambda file: file[0])
    words = [f"{path}\0{at.st_ino}\0{at.st_mtime_ns}\0{at.st_size}" for path, _, at in files]
    return CheckpointEntry(
        files=tuple((path, file) for path, file, _ in files),
        signature=hashlib.sha256("\0".join(words).encode()).hexdigest(),
        written_ns=max(at.st_mtime_ns for *_, at in files),
        left_out=left_out,
    )


def read_sidecar(folder: Path, name: str) -> tuple[int | None, dict[str, float]] | None:
    """Return step and metrics from the sidecar file next to it; None without one."""
    try:
        data = json.loads(safe_read.read_small(folder / f".{name}.meta.json", _MOST_META)[0])
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, Mapping):
        return None
    return progress.as_step(data.get("step")), progress.as_metrics(data.get("metrics"))


def whole_since(folder: Path, name: str) -> float | None:
    """Return when a rename that no runner saw put it into place; None if that is unknown.

    A rename changes the time of the entry itself, not that of its content. Within one clock tick the two are equal:
    then only the sidecar file, which `mizzen.training` writes, shows that the entry is complete.
    """
    try:
        found, own = read_entry(folder, name), (folder / name).lstat()
    except (OSError, ValueError):
        return None
    if found is None:
        return None
    moved = own.st_ctime_ns > max(own.st_mtime_ns, found.written_ns)
    return own.st_ctime if moved or read_sidecar(folder, name) is not None else None


def step_of(name: str) -> int | None:
    """Return the number that a name ends with, before its suffixes: `ckpt-100`, `epoch=3`, `model_20.tar.gz`."""
    while True:
        found = _ENDS_IN_NUMBER.search(name)
        if found:
            return int(found[1])
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None


def _walk(top: Path, files: list[tuple[str, Path, os.stat_result]]) -> int:
    """Add its files; return how many entries were left out."""
    left_out = 0
    waiting = [(top, "", 1)]
    while waiting:
        folder, above, depth = waiting.pop()
        with os.scandir(folder) as listed:
            for entry in listed:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                name = f"{above}{entry.name}"
                if stat.S_ISDIR(found.st_mode):
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                elif stat.S_ISREG(found.st_mode):
                    files.append((name, Path(entry.path), found))
                else:
                    left_out += 1
                _check(name, len(files), depth + stat.S_ISDIR(found.st_mode))
    return left_out


def _check(name: str, files: int, depth: int) -> None:
    """Raise ValueError if an entry with this content cannot be a checkpoint."""
    if depth > DEEPEST:
        raise ValueError(f"its folders are nested more than {DEEPEST} deep; pack them into one file")
    if not is_text(name):
        raise ValueError(f"it contains '{printable_name(name)}', whose name is not UTF-8")
    if files > MOST_FILES:
        raise ValueError(f"it contains more than {MOST_FILES:,} files; pack them into one")

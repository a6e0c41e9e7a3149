"""What each gateway leaves in a folder for its siblings and for the plane: a file by its name, replaced whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import msgspec


class Note(Protocol):
    @property
    def gateway(self) -> str:
        """The name of the process, such as gateway-0."""

    @property
    def pid(self) -> int: ...


N = TypeVar("N", bound=Note)
Stamps: TypeAlias = dict[str, tuple[int, int]]
"""Inode and time of each file."""


def write(folder: Path, gateway: str, data: bytes) -> None:
    """Whoever reads sees the old or the new one. OSError when it cannot be written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = folder / f".{gateway}.fresh"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(folder / f"{gateway}.json")


def remove(folder: Path, gateway: str) -> None:
    (folder / f"{gateway}.json").unlink(missing_ok=True)


def read(folder: Path, decode: Callable[[bytes], N]) -> list[N]:
    """Of all that have left one, by name. A file that cannot be read counts as none: it is replaced soon."""
    found = (_read(file, decode) for file in sorted(folder.glob("*.json")))
    return [note for note in found if note is not None]


def stamps(folder: Path) -> Stamps:
    """Changes whenever a file does: cheaper to look at than what is in them."""
    found: Stamps = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json"):
                with suppress(FileNotFoundError):
                    told = entry.stat()
                    found[entry.name] = told.st_ino, told.st_mtime_ns
    return found


def lives(note: Note) -> bool:
    """Is the process there that wrote this? A number that somebody else has got since is mistaken for it."""
    try:
        os.kill(note.pid, 0)
    except (ProcessLookupError, PermissionError):  # a pid of another user's is none of ours
        return False
    return True


def sweep(folder: Path, gateways: Collection[str], decode: Callable[[bytes], Note]) -> None:
    """Removes what is left of processes that are gone, and of gateways by other names than these."""
    for file in folder.glob("*.json"):
        note = _read(file, decode)
        if file.stem not in gateways or note is None or not lives(note):
            file.unlink(missing_ok=True)


def _read(file: Path, decode: Callable[[bytes], N]) -> N | None:
    try:
        return decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None

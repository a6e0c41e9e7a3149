"""Status files: one per gateway and folder, replaced atomically, for the other gateways and the plane."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec


class StatusFile(Protocol):
    @property
    def gateway(self) -> str:
        """The name of the process, such as gateway-0."""

    @property
    def pid(self) -> int: ...


N = TypeVar("N", bound=StatusFile)
_encode = msgspec.json.Encoder().encode
Stamps: TypeAlias = dict[str, tuple[int, int]]
"""Inode and time of each file."""


def write(folder: Path, gateway: str, data: bytes) -> None:
    """Replace the file atomically. Raises OSError if it cannot be written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = folder / f".{gateway}.fresh"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(folder / f"{gateway}.json")


def remove(folder: Path, gateway: str) -> None:
    (folder / f"{gateway}.json").unlink(missing_ok=True)


def read_stamps(folder: Path) -> Stamps:
    """Return a value that changes whenever a file does; cheaper than reading the files."""
    found: Stamps = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json"):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found[entry.name] = status.st_ino, status.st_mtime_ns
    return found


def is_alive(note: StatusFile) -> bool:
    """Whether the process that wrote this is alive. A reused pid is mistaken for it."""
    try:
        os.kill(note.pid, 0)
    except (ProcessLookupError, PermissionError):  # a process of another user is not a gateway
        return False
    return True


@dataclass(frozen=True, slots=True)
class StatusFiles(Generic[N]):
    """All files of one type, in a folder of their own."""

    decode: Callable[[bytes], N]

    def write(self, folder: Path, note: N) -> None:
        """Raises OSError if it cannot be written."""
        write(folder, note.gateway, _encode(note))

    def read(self, folder: Path) -> list[N]:
        """Read the files of all gateways, sorted by name. Skips unreadable files, which are replaced soon."""
        found = map(self._read, sorted(folder.glob("*.json")))
        return [note for note in found if note is not None]

    def sweep(self, folder: Path, gateways: Collection[str]) -> None:
        """Remove the files of dead processes, and of gateways with other names."""
        for file in folder.glob("*.json"):
            note = self._read(file)
            if file.stem not in gateways or note is None or not is_alive(note):
                file.unlink(missing_ok=True)

    def _read(self, file: Path) -> N | None:
        try:
            return self.decode(file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

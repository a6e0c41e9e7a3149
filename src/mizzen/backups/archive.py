"""The file format of a backup: a tar, optionally gzipped, that `tar` can list and unpack.

This module parses it itself and rejects anything but plain files with plain names. So links, devices and long headers
need no handling.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from mizzen.backups.manifest import MANIFEST, MOST_MANIFEST, SEAL, Item, Manifest, damage_error
from mizzen.blobs.fs.content import CHUNK
from mizzen.errors import Conflict, NotFound

_BLOCK: Final = 512
_GZIP: Final = b"\x1f\x8b"

ByteCounter = Callable[[int], None]
"""Called with the number of bytes processed since the last call."""


class ArchiveWriter:
    """Writes one file after the other; `finish` adds the manifest. Never seeks, so the target may be a pipe."""

    def __init__(self, file: BinaryIO, count: ByteCounter) -> None:
        self._file = file
        self._count = count
        self.items: list[Item] = []

    def add(self, path: str, source: BinaryIO, size: int, mtime: float) -> Item:
        """Adds a file. Raises Conflict if its size changed: it was written to meanwhile."""
        hasher = hashlib.sha256()
        self._file.write(_head(path, size, mtime))
        left = size
        while left and (data := source.read(min(CHUNK, left))):
            hasher.update(data)
            self._file.write(data)
            self._count(len(data))
            left -= len(data)
        if left:
            raise Conflict(f"{path} became shorter while it was read", hint="try again")
        self._pad(size)
        item = Item(path, size, hasher.hexdigest())
        self.items.append(item)
        return item

    def finish(self, manifest: Manifest, mtime: float) -> None:
        text = json.dumps(asdict(manifest), indent=1).encode()
        for name, data in ((MANIFEST, text), (SEAL, hashlib.sha256(text).hexdigest().encode() + b"\n")):
            self._file.write(_head(name, len(data), mtime))
            self._file.write(data)
            self._pad(len(data))
        self._file.write(bytes(2 * _BLOCK))

    def _pad(self, size: int) -> None:
        self._file.write(bytes(-size % _BLOCK))


def _head(path: str, size: int, mtime: float) -> bytes:
    head = tarfile.TarInfo(path)
    head.size, head.mtime, head.mode = size, int(mtime), 0o600
    return head.tobuf(tarfile.GNU_FORMAT)


class ArchiveMember:
    """One file during a read; unread bytes are skipped."""

    def __init__(self, path: str, size: int, archive: _Stream) -> None:
        self.path = path
        self.size = size
        self._archive = archive
        self._left = size

    def chunks(self) -> Iterator[bytes]:
        while self._left:
            data = self._archive.take(min(CHUNK, self._left))
            self._left -= len(data)
            yield data

    def skip(self) -> None:
        for _ in self.chunks():
            pass
        self._archive.take_nothing(-self.size % _BLOCK)


class _Stream:
    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def take(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise damage_error(f"{self._name} was cut off")
        return data

    def take_nothing(self, size: int) -> None:
        """Reads the padding between the files and after them."""
        if any(self.take(size)):
            raise damage_error(f"{self._name} was altered: the padding between its files is not empty")

    def end(self) -> None:
        if self._read(1):
            raise damage_error(f"{self._name} has data after its end")

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (EOFError, OSError, zlib.error) as error:
            raise damage_error(f"{self._name} is damaged or was cut off: {error}") from error


@contextmanager
def open_archive(file: Path) -> Iterator[Iterator[ArchiveMember]]:
    """Yields its files in order; read each before the next. Raises BadRequest if it is not such an archive."""
    try:
        raw = file.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise NotFound(f"no file {file}") from error
    with raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        with cast(BinaryIO, gzip.open(raw)) if packed else io.BufferedReader(raw, CHUNK) as plain:
            yield _members(_Stream(plain, str(file)), str(file))


def _members(stream: _Stream, name: str) -> Iterator[ArchiveMember]:
    while True:
        block = stream.take(_BLOCK)
        if block == bytes(_BLOCK):
            stream.take_nothing(_BLOCK)
            stream.end()
            return
        try:
            head = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeError, ValueError) as error:
            raise damage_error(f"{name} is not a backup, or is damaged: {error}") from error
        if head.type != tarfile.REGTYPE:
            raise damage_error(f"{name} holds {head.name[:200]!r}, which is not a regular file")
        if head.size < 0 or _head(head.name, head.size, head.mtime) != block:
            raise damage_error(f"{name} was altered, or Mizzen did not create it")
        member = ArchiveMember(head.name, head.size, stream)
        yield member
        member.skip()


def manifest_of(parts: dict[str, bytes], name: str) -> Manifest:
    """Returns the manifest from the last two files of an archive."""
    text, seal = parts.get(MANIFEST), parts.get(SEAL, b"").strip().decode(errors="replace")
    if text is None or not seal:
        raise damage_error(f"{name} has no manifest: it is not a backup, or was cut off")
    if hashlib.sha256(text).hexdigest() != seal:
        raise damage_error(f"the manifest of {name} was altered")
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise damage_error(f"the manifest of {name} is not valid JSON") from error
    return Manifest.from_data(data)


def verify(file: Path, count: ByteCounter) -> Manifest:
    """Reads the whole archive and compares it with its manifest. Raises BadRequest if any byte differs."""
    found: list[Item] = []
    parts: dict[str, bytes] = {}
    with open_archive(file) as members:
        for member in members:
            if member.path in (MANIFEST, SEAL):
                parts[member.path] = _small(member, file)
                continue
            hasher = hashlib.sha256()
            for chunk in member.chunks():
                hasher.update(chunk)
                count(len(chunk))
            found.append(Item(member.path, member.size, hasher.hexdigest()))
    manifest = manifest_of(parts, str(file))
    expected = [item for item in manifest.items if not (manifest.beside and item.blob)]
    if found != expected:
        differing = sorted({item.path for item in set(found) ^ set(expected)}) or ["the order of its files"]
        raise damage_error(f"{file} was altered: {', '.join(differing[:3])}")
    return manifest


def _small(member: ArchiveMember, file: Path) -> bytes:
    if member.size > MOST_MANIFEST:
        raise damage_error(f"{file}: {member.path} is too large for a backup of Mizzen")
    return b"".join(member.chunks())

"""File content: digests, and copies that are independent of the original."""

from __future__ import annotations

import fcntl
import hashlib
import io
import re
import sys
from pathlib import Path
from typing import Protocol

from mizzen.errors import Fault, Invalid

CHUNK = 1 << 20
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_FICLONE = 0x40049409
"""Linux ioctl: makes one file a copy-on-write clone of another."""


class ByteReader(Protocol):
    """Any source that returns bytes, and empty bytes at its end."""

    def read(self, size: int, /) -> bytes | None: ...


def hex_of(digest: str) -> str:
    """Returns the hex digits of a digest. Raises Invalid if it is malformed."""
    match = DIGEST.fullmatch(digest)
    if match is None:
        raise Invalid.of("digest", (Fault("digest", f"{digest[:100]!r} is not sha256:<64 hex digits>"),))
    return match[1]


def blob_key(digest: str) -> str:
    """Returns the path of a blob in a store. Raises Invalid if the digest is malformed."""
    hex_ = hex_of(digest)
    return f"sha256/{hex_[:2]}/{hex_}"


def digest_name(hex_: str) -> str:
    return f"sha256:{hex_}"


def digest_of(path: Path) -> str:
    with path.open("rb", buffering=0) as content:
        return digest_name(hashlib.file_digest(content, "sha256").hexdigest())


def copy(content: ByteReader, file: io.FileIO) -> tuple[str, int]:
    """Copies the content; returns its digest and size."""
    hasher = hashlib.sha256()
    size = 0
    while chunk := content.read(CHUNK):
        hasher.update(chunk)
        size += len(chunk)
        write_all(file, chunk)
    return digest_name(hasher.hexdigest()), size


def write_all(file: io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def clone_or_copy(source: Path, target: Path) -> str:
    """Creates `target` and returns the digest of its content."""
    with source.open("rb", buffering=0) as content, target.open("xb", buffering=0) as file:
        if not _clone(content, file):
            return copy(content, file)[0]
    return digest_of(target)


def _clone(content: io.FileIO, file: io.FileIO) -> bool:
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(file.fileno(), _FICLONE, content.fileno())
    except OSError:  # most file systems cannot; any other problem shows up when copying
        return False
    return True

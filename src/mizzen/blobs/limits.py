"""Limits for incoming content, and the meter that enforces them during reads."""

from __future__ import annotations

from dataclasses import dataclass

from mizzen.blobs.fs.content import ByteReader
from mizzen.errors import TooLarge

FREE = 64 << 20
"""Bytes that any archive may unpack to, however small the archive is."""


@dataclass(frozen=True, slots=True)
class IngestLimits:
    upload_bytes: int = 16 << 30
    """Bytes of one body, download or file."""
    unpacked_bytes: int = 32 << 30
    """Bytes of all files of a version together."""
    files: int = 5000
    """Files of one version; its spec lists them all."""
    partial_bytes: int = 64 << 30
    """Bytes of all unfinished uploads of one user."""
    partials: int = 1000
    """Unfinished uploads of one user."""
    ratio: int = 200
    """Beyond `FREE`, an archive that unpacks to more than this many times its size counts as a bomb."""


class Meter:
    """Counts the bytes unpacked from an input of `packed` bytes."""

    def __init__(self, limits: IngestLimits, packed: int) -> None:
        self._limits = limits
        self._packed = packed
        self.total = 0

    def count(self, size: int, name: str) -> None:
        """Raises TooLarge, naming the current item."""
        self.total += size
        if self.total > self._limits.unpacked_bytes:
            raise TooLarge(
                f"with '{printable(name)}', the files exceed {self._limits.unpacked_bytes:,} bytes",
                hint="leave out files that the model does not need, or raise the setting max_unpacked_bytes",
            )
        if self.total > FREE and self.total > self._limits.ratio * self._packed:
            raise TooLarge(
                f"at '{printable(name)}', the archive unpacks to over {self._limits.ratio} times its size, a zip bomb",
                hint="send it as an uncompressed tar",
            )


class Metered:
    """A reader that counts its bytes."""

    def __init__(self, content: ByteReader, meter: Meter, name: str) -> None:
        self._content = content
        self._meter = meter
        self._name = name

    def read(self, size: int, /) -> bytes:
        data = self._content.read(size) or b""
        self._meter.count(len(data), self._name)
        return data


def printable(name: str) -> str:
    """Returns the name in a form that is safe for a message."""
    text = "".join(char if char.isprintable() else "?" for char in name[:200])
    return text if len(name) <= 200 else f"{text}…"

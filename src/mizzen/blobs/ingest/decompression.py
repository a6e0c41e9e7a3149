"""Streaming decompression: forward only, in bounded memory, with byte counts.

The standard library does most of this, but lets an archive decide how much memory to use: xz by its dictionary.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Literal, Protocol

from mizzen.blobs.fs.content import CHUNK
from mizzen.blobs.limits import Meter
from mizzen.errors import BadRequest

Compression = Literal["gzip", "bzip2", "xz"]
MAGIC: dict[Compression, bytes] = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00"}
XZ_MEMORY = 256 << 20
"""The strongest setting of xz needs a quarter of this."""
_PIECE = 64 << 10

DAMAGED = (zlib.error, lzma.LZMAError, EOFError, OSError)
"""Errors that decompressors raise; bz2 has no own exception type."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def compression_of(head: bytes) -> Compression | None:
    return next((name for name, magic in MAGIC.items() if head.startswith(magic)), None)


class Expanded:
    """A stream with `read`, `tell` and a forward-only `seek`. Truncated content counts as damaged, not as ended.

    `allowance`: while set, limits the bytes that may be read, also in one call. For callers that must hold the headers
    of an archive in memory.
    """

    def __init__(self, file: BinaryIO, meter: Meter | None = None) -> None:
        self._file = file
        self._meter = meter
        file.seek(0)
        self._compression = compression_of(file.read(8))
        file.seek(0)
        self._packed = b""
        self._plain = b""
        self._position = 0
        self._decompressor: _Decompressor | None = _NEW[self._compression]() if self._compression else None
        self.allowance: int | None = None
        self.name = "the archive"
        """The name of the current item, for messages."""
        self.last = b""
        """The result of the last read."""

    def read(self, size: int, /) -> bytes:
        """Returns `size` bytes, fewer only at the end. Raises BadRequest if the content is damaged."""
        if self.allowance is not None:
            self.allowance -= size
            if self.allowance < 0:
                raise BadRequest("the headers of one file in the archive are too large")
        pieces = []
        while size > 0 and (piece := self._read_some(size)):
            pieces.append(piece)
            size -= len(piece)
        self.last = b"".join(pieces)
        self._position += len(self.last)
        return self.last

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, /) -> int:
        left = position - self._position
        if left < 0:
            raise BadRequest("the archive is damaged: it refers back to data that was already read")
        while left > 0 and (piece := self._read_some(min(left, CHUNK))):
            left -= len(piece)
            self._position += len(piece)
        return self._position

    def _read_some(self, most: int) -> bytes:
        try:
            piece = self._file.read(most) if self._decompressor is None else self._decompress(most)
        except DAMAGED as error:
            raise BadRequest(f"the {self._compression or 'archive'} is damaged: {error}") from error
        if self._meter is not None:
            self._meter.count(len(piece), self.name)
        return piece

    def _decompress(self, most: int) -> bytes:
        while True:
            assert self._decompressor is not None
            if self._decompressor.eof:
                if not self._begin_next(self._decompressor.unused_data):
                    return b""
                continue
            # bz2 and lzma buffer all input that they have not unpacked yet.
            hungry = getattr(self._decompressor, "needs_input", True)
            if not self._packed and hungry:
                self._packed = self._file.read(_PIECE)
            at_end = hungry and not self._packed
            piece = self._decompressor.decompress(self._packed, most)
            self._packed = getattr(self._decompressor, "unconsumed_tail", b"")
            if piece or self._decompressor.eof:
                if piece:
                    return piece
            elif at_end:
                raise EOFError("it ends too early")

    def _begin_next(self, left: bytes) -> bool:
        """Starts the next of several concatenated streams; zeros may pad the end."""
        rest = (left or self._packed or self._file.read(_PIECE)).lstrip(b"\0")
        while not rest and (piece := self._file.read(_PIECE)):
            rest = piece.lstrip(b"\0")
        if not rest:
            return False
        if len(rest) < 8:
            rest += self._file.read(8)
        if compression_of(rest) != self._compression or self._compression is None:
            raise EOFError("other data follows it")
        self._packed = rest
        self._decompressor = _NEW[self._compression]()
        return True


_NEW: dict[Compression, Callable[[], _Decompressor]] = {
    "gzip": lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
}

"""Messages out of the data of a call that has many of them."""

from __future__ import annotations

import zlib

from mizzen.gateway.calls import BAD_REQUEST
from mizzen.gateway.grpc.calls import PREFIX, too_large
from mizzen.gateway.grpc.openings import Unfit

MOST_UNPACKED = 4 << 20
"""Bytes of a message that comes packed: it is unpacked at once, while others wait."""

_GZIP, _ZLIB = 31, 15


class Cutter:
    __slots__ = ("_data", "_encoding", "_most")

    def __init__(self, encoding: bytes, most: int) -> None:
        self._data = bytearray()
        self._encoding = encoding
        self._most = most

    def __len__(self) -> int:
        """Bytes of what is no whole message yet, or was not asked for."""
        return len(self._data)

    def feed(self, data: bytes) -> None:
        self._data += data

    def drop(self) -> None:
        """What is left of them is not needed."""
        self._data = bytearray()

    def next(self) -> bytes | None:
        """The next message; None: there is none yet. Unfit."""
        data = self._data
        if len(data) < PREFIX.size:
            return None
        packed, size = PREFIX.unpack_from(data)
        if packed > 1:
            raise Unfit(BAD_REQUEST, "what comes is no message")
        if size > self._most:
            raise too_large(self._most)
        end = PREFIX.size + size
        if len(data) < end:
            return None
        message = bytes(memoryview(data)[PREFIX.size : end])
        del data[:end]
        return self._unpacked(message) if packed else message

    def _unpacked(self, message: bytes) -> bytes:
        if not self._encoding:
            raise Unfit(BAD_REQUEST, "a message says that it is packed, and the head of the call not how")
        most = min(self._most, MOST_UNPACKED)
        machine = zlib.decompressobj(_GZIP if self._encoding == b"gzip" else _ZLIB)
        try:
            whole = machine.decompress(message, most + 1)
        except zlib.error as error:
            raise Unfit(BAD_REQUEST, f"a message cannot be unpacked: {error}") from error
        if len(whole) > most:
            raise too_large(most)
        if not machine.eof:
            raise Unfit(BAD_REQUEST, "a packed message has no end")
        return whole

"""Splits the data of a streaming call into messages, and decompresses them."""

from __future__ import annotations

from collections.abc import Generator

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.unary import PREFIX, too_large
from mizzen.gateway.queueing.call import BAD_REQUEST
from mizzen.gateway.request import content_encoding


class MessageReader:
    __slots__ = ("_data", "_encoding", "_max_bytes", "_unpacked_bytes", "_work", "needs_yield")

    def __init__(self, encoding: bytes, max_bytes: int) -> None:
        self._data = bytearray()
        self._encoding = encoding
        self._max_bytes = max_bytes
        self._work: Generator[int, None, bytes] | None = None
        """A message that is being decompressed."""
        self._unpacked_bytes = 0
        """Bytes of it that are decompressed."""
        self.needs_yield = False
        """Set after a decompression step: the caller must yield to the event loop and reset it before it continues."""

    def __len__(self) -> int:
        """Bytes that are buffered and not returned yet."""
        return len(self._data) + self._unpacked_bytes

    def feed(self, data: bytes) -> None:
        self._data += data

    def discard(self) -> None:
        """Discard all buffered data."""
        self._data = bytearray()
        self._work, self._unpacked_bytes = None, 0

    def next(self) -> bytes | None:
        """Return the next message; None: it is not complete yet. Raises RpcError."""
        if self._work is not None:
            return self._unpack(self._work)
        data = self._data
        if len(data) < PREFIX.size:
            return None
        packed, size = PREFIX.unpack_from(data)
        if packed > 1:
            raise RpcError(BAD_REQUEST, "the data is not a gRPC message")
        if size > self._max_bytes:
            raise too_large(self._max_bytes)
        end = PREFIX.size + size
        if len(data) < end:
            return None
        message = bytes(memoryview(data)[PREFIX.size : end])
        del data[:end]
        if not packed:
            return message
        if not self._encoding:
            raise RpcError(BAD_REQUEST, "a message is compressed, but the call has no grpc-encoding header")
        self._work = content_encoding.decompress_steps(message, self._encoding, self._max_bytes)
        return self._unpack(self._work)

    def _unpack(self, work: Generator[int, None, bytes]) -> bytes | None:
        """Decompress one step."""
        self.needs_yield = True
        before = self._unpacked_bytes
        try:
            while self._unpacked_bytes - before < content_encoding.STEP_BYTES:
                self._unpacked_bytes = next(work)
        except StopIteration as done:
            self._work, self._unpacked_bytes = None, 0
            whole: bytes = done.value
            return whole
        except ValueError as error:
            raise RpcError(BAD_REQUEST, f"a message cannot be decompressed: {error}") from error
        except TooLarge as error:
            raise too_large(self._max_bytes) from error
        return None

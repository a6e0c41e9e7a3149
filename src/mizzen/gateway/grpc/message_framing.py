"""Messages out of the data of a call that has many of them."""

from __future__ import annotations

from collections.abc import Generator

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.unary import PREFIX, too_large
from mizzen.gateway.inference.calls import BAD_REQUEST
from mizzen.gateway.request import content_encoding


class Cutter:
    __slots__ = ("_data", "_encoding", "_most", "_unpacked", "_work", "tired")

    def __init__(self, encoding: bytes, most: int) -> None:
        self._data = bytearray()
        self._encoding = encoding
        self._most = most
        self._work: Generator[int, None, bytes] | None = None
        """A message that is being unpacked."""
        self._unpacked = 0
        """Bytes of it."""
        self.tired = False
        """It has unpacked something: whoever asks lets others have a turn, and says so here, before it asks again."""

    def __len__(self) -> int:
        """Bytes of what is no whole message yet, or was not asked for."""
        return len(self._data) + self._unpacked

    def feed(self, data: bytes) -> None:
        self._data += data

    def drop(self) -> None:
        """What is left of them is not needed."""
        self._data = bytearray()
        self._work, self._unpacked = None, 0

    def next(self) -> bytes | None:
        """The next message; None: there is none yet. Unfit."""
        if self._work is not None:
            return self._unpack(self._work)
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
        if not packed:
            return message
        if not self._encoding:
            raise Unfit(BAD_REQUEST, "a message says that it is packed, and the head of the call not how")
        self._work = content_encoding.steps(message, self._encoding, self._most)
        return self._unpack(self._work)

    def _unpack(self, work: Generator[int, None, bytes]) -> bytes | None:
        """A step of it."""
        self.tired = True
        before = self._unpacked
        try:
            while self._unpacked - before < content_encoding.STEP:
                self._unpacked = next(work)
        except StopIteration as done:
            self._work, self._unpacked = None, 0
            whole: bytes = done.value
            return whole
        except ValueError as error:
            raise Unfit(BAD_REQUEST, f"a message cannot be unpacked: {error}") from error
        except TooLarge as error:
            raise too_large(self._most) from error
        return None

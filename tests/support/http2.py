"""A client of gRPC that says exactly what a test wants it to, frame by frame, over a socket."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

from hpack import Decoder

from mizzen.web.http2 import frames
from mizzen.web.http2.headers import encode_headers

_PATIENCE = 60.0


def message(body: bytes, *, packed: bool = False) -> bytes:
    """As it stands in the data of a call."""
    return struct.pack(">BL", packed, len(body)) + body


class Raw:
    def __init__(self, port: int, *, window: int = 65_535) -> None:
        """`window`: bytes of each answer that it takes before it says so."""
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self._rest = b""
        self._decoder = Decoder()
        self.data: dict[int, bytearray] = {}
        """Of answers, by stream."""
        self.heads: dict[int, dict[str, str]] = {}
        """And what their heads and trailers say."""
        self.ended: set[int] = set()
        self.pings = 0
        settings = frames.encode_settings({frames.INITIAL_WINDOW_SIZE: window})
        self.send(frames.PREFACE + settings + frames.encode_window_update(0, 1 << 30))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._socket.close()

    def send(self, *data: bytes) -> None:
        self._socket.sendall(b"".join(data))

    def open(self, stream: int, method: str, *more: tuple[bytes, bytes]) -> None:
        head = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"), (b"te", b"trailers"), *more,
        ]  # fmt: skip
        self.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream, encode_headers(head)))

    def bring(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """`end`: in a frame of its own."""
        size = frames.FRAME_BYTES
        pieces = [frames.encode_frame(frames.DATA, 0, stream, data[at : at + size]) for at in range(0, len(data), size)]
        self.send(*pieces, frames.encode_frame(frames.DATA, frames.END_STREAM, stream) if end else b"")

    def heard(self) -> None:
        """Waits until all that was sent has been looked at."""
        before = self.pings
        self.send(frames.encode_frame(frames.PING, 0, 0, bytes(8)))
        while self.pings == before:
            self.take()

    def code(self, stream: int) -> int:
        """Waits for the end of a call: the status of gRPC that it ends with."""
        while stream not in self.ended:
            self.take()
        return int(self.heads[stream]["grpc-status"])

    def messages(self, stream: int) -> list[bytes]:
        data, found = bytes(self.data.get(stream, b"")), []
        while len(data) >= 5 and len(data) >= (end := 5 + int.from_bytes(data[1:5], "big")):
            found.append(data[5:end])
            data = data[end:]
        return found

    def take(self) -> None:
        """What has come, or comes next."""
        more = self._socket.recv(1 << 16)
        if not more:
            raise EOFError("the gateway has closed the connection")
        self._rest += more
        at = 0
        while len(self._rest) - at >= frames.HEAD_BYTES:
            high, low, kind, flags, stream = frames.read_head(self._rest, at)
            end = at + frames.HEAD_BYTES + (high << 8 | low)
            if len(self._rest) < end:
                break
            self._took(kind, flags, stream, self._rest[at + frames.HEAD_BYTES : end])
            at = end
        self._rest = self._rest[at:]

    def _took(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self.data.setdefault(stream, bytearray()).extend(payload)
        elif kind == frames.HEADERS:
            said = {name.decode(): value.decode() for name, value in self._decoder.decode(payload, raw=True)}
            self.heads.setdefault(stream, {}).update(said)
        elif kind == frames.PING and flags & frames.ACK:
            self.pings += 1
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self.send(frames.encode_frame(frames.SETTINGS, frames.ACK, 0))
        if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
            self.ended.add(stream)

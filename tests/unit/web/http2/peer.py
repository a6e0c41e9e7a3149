"""A client of HTTP/2 that can be as rude as it likes, against one connection of ours, in virtual time: no socket, no
loop. What is written to it is read back as frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from hpack import Decoder, Encoder
from uvicorn.server import ServerState

from mizzen.web.connection_limits import ConnectionLimiter, Timeouts
from mizzen.web.http2 import frames
from mizzen.web.http2.connection import Http2Protocol
from mizzen.web.http2.headers import HeaderBlock, encode_headers
from mizzen.web.http2.stream import Stream

HEAD = [(b":method", b"POST"), (b":path", b"/echo"), (b":scheme", b"http"), (b":authority", b"localhost")]
ANSWER, TAIL = b"\x88", encode_headers([(b"grpc-status", b"0")])


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        return int.from_bytes(self.payload[-4:], "big")


class Echo:
    """Answers with what it was sent, at the end of it; or when the test says so."""

    def __init__(self, stream: Stream, host: EchoHost) -> None:
        self.stream = stream
        self.data = bytearray()
        self.gone: bool = False
        self.stopped: bool = False
        self.moves = 0
        self._host = host

    def on_data(self, data: bytes) -> None:
        self.data += data

    def on_end(self) -> None:
        if self._host.prompt:
            self.answer()

    def answer(self, size: int = 1) -> None:
        self.stream.answer(ANSWER, bytes(self.data) * size, TAIL)

    def on_cancel(self) -> None:
        assert not self.gone
        self.gone = True

    def on_writable(self) -> None:
        self.moves += 1

    def has_waited_long(self) -> bool:
        return self._host.patient

    def on_shutdown(self) -> None:
        self.stopped = True


class EchoHost:
    def __init__(self, *, prompt: bool = True) -> None:
        self.prompt = prompt
        self.patient = False
        """Whether those who cancel have waited for long."""
        self.calls: list[Echo] = []
        self.heads: list[HeaderBlock] = []

    def on_stream(self, stream: Stream, head: HeaderBlock) -> Echo:
        self.heads.append(head)
        self.calls.append(Echo(stream, self))
        return self.calls[-1]


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.untaken = 0
        self.full: Callable[[], object] | None = None
        """Called once something is written: what asyncio's do when they have more than they like."""
        self.reading = True
        self.closed = self.aborted = False

    def write(self, data: Any) -> None:
        self.written += data
        if self.full is not None:
            self.full()

    def get_write_buffer_size(self) -> int:
        return self.untaken

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Loop:
    """What is soon is done when the test looks; what is later, never mind when."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []
        self.late: list[Callable[[], object]] = []

    def call_soon(self, work: Callable[[], object]) -> None:
        self.soon.append(work)

    def call_later(self, _: float, work: Callable[[], object]) -> None:
        self.late.append(work)

    def run(self, *, late: bool = False) -> None:
        works, self.soon = self.soon, []
        if late:
            works, self.late = [*works, *self.late], []
        for work in works:
            work()


class Peer:
    def __init__(self, host: EchoHost | None = None, *, greet: bool = True, patience: Timeouts | None = None) -> None:
        self.time = 0.0
        self.host = host or EchoHost()
        self.limiter = ConnectionLimiter(patience or Timeouts(), 10, clock=lambda: self.time)
        self.state = ServerState()
        self.transport = Transport()
        self.loop = Loop()
        self.encoder, self.decoder = Encoder(), Decoder()
        self.protocol = Http2Protocol(
            config=None, server_state=self.state, app_state={}, _loop=self.loop, host=self.host, limiter=self.limiter
        )
        self.protocol.connection_made(self.transport)
        if greet:
            self.send(frames.PREFACE + frames.encode_settings({}))
            self.came()

    def send(self, *data: bytes) -> None:
        self.protocol.data_received(b"".join(data))
        while self.protocol.resting and not self.protocol.paused and self.loop.soon:
            self.loop.run()

    def came(self) -> list[Frame]:
        """What has come since the last look."""
        self.loop.run()
        data, self.transport.written = self.transport.written, b""
        found, at = [], 0
        while at < len(data):
            high, low, kind, flags, stream = frames.read_head(data, at)
            start = at + frames.HEAD_BYTES
            at = start + (high << 8 | low)
            assert at <= len(data)
            found.append(Frame(kind, flags, stream, data[start:at]))
        return found

    def head(self, id_: int, *more: tuple[bytes, bytes], flags: int = frames.END_HEADERS) -> bytes:
        block = self.encoder.encode([*HEAD, *more])
        return frames.encode_frame(frames.HEADERS, flags, id_, block)

    def call(self, id_: int, data: bytes = b"hello", *more: tuple[bytes, bytes]) -> bytes:
        return self.head(id_, *more) + frames.encode_frame(frames.DATA, frames.END_STREAM, id_, data)

    def later(self, seconds: float) -> None:
        self.time += seconds
        self.limiter.tick()
        self.limiter.close_expired(cast(Any, self.state))

    def lose(self) -> None:
        self.protocol.connection_lost(None)

    def sent_away(self) -> int | None:
        """With which code it was told to go; None: it was not."""
        goodbyes = [frame for frame in self.came() if frame.kind == frames.GOAWAY]
        return int.from_bytes(goodbyes[0].payload[4:8], "big") if goodbyes else None

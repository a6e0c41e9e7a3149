"""The reading half of an HTTP/2 connection, from the client's preface on.

Limited to the needs of gRPC: no server push, no priorities, no upgrade from HTTP/1.1. The client must obey limits that
protect others: unacknowledged data, concurrent calls, and noise, which is the cost of frames that do no useful work.

Hazards: headers are decoded even for a stream that is gone; otherwise the HPACK tables of both sides would diverge.
Known attacks count as noise: endless continuations (CVE-2024-27316), calls that are cancelled as fast as they are made
(CVE-2023-44487) or that make the server cancel them (CVE-2025-8671), and empty or tiny frames. A read of the socket may
bring thousands of frames: a connection takes a fixed number in each turn of the event loop.
"""

from __future__ import annotations

from typing import Any

from mizzen.web.connection_limits import closing_response
from mizzen.web.http2 import frames
from mizzen.web.http2.frames import ConnectionFault, ErrorCode
from mizzen.web.http2.headers import MAX_DECODED_BYTES, MAX_LIST_BYTES, HeaderBlock, HeaderDecoder
from mizzen.web.http2.stream import Stream
from mizzen.web.http2.writer import NOISE, QUIET, Http2WriterProtocol
from mizzen.web.read_turns import DISCARD_SECONDS, TURN_BODY_BYTES

MAX_STREAMS = 256
"""Maximum concurrent calls of a client."""
STREAM_WINDOW, WINDOW = 1 << 20, 8 << 20
"""Flow-control windows for incoming data: of one call, and of the connection."""
RESET_NOISE, SETTINGS_NOISE, CRUMB_NOISE, OVERSIZED_NOISE = 10, 20, 3, 100
SMALL_WINDOW = 1 << 10
"""Smaller window updates count as noise while streams are blocked."""
PIECE_BYTES = 1 << 10
"""Minimum average size of the pieces of a header block."""

SMALL_DATA = 32
"""Smaller pieces of a request count as noise, unless they are its last."""
TURN_FRAMES, HEAD_FRAMES = 64, 8
"""Frames that one connection may send in one turn of the event loop. A header block counts as several."""

_FIRST_ALLOWANCE = 65_535
_SETTINGS = {
    frames.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
    frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    frames.MAX_HEADER_LIST_SIZE: MAX_LIST_BYTES,
}
_GREETING = frames.encode_settings(_SETTINGS) + frames.encode_window_update(0, WINDOW - _FIRST_ALLOWANCE)
_ACKNOWLEDGED = frames.encode_frame(frames.SETTINGS, frames.ACK, 0)
_PING_BYTES = 8
_NOT_HTTP2 = closing_response(
    "426 Upgrade Required",
    "this port speaks gRPC, which is HTTP/2 without an upgrade; REST has a port of its own\n",
    "upgrade: h2c",
)


class Http2Protocol(Http2WriterProtocol):
    """One client connection."""

    def __init__(self, *uvicorns: Any, **named: Any) -> None:
        super().__init__(*uvicorns, **named)
        self._rest = b""
        """The start of an incomplete frame, or all frames that wait for the next turn."""
        self.resting = False
        """The connection has had its turn, and reads on in the next one."""
        self._allowance = WINDOW
        self._heads = HeaderDecoder()
        self._block: tuple[int, int, list[bytes]] | None = None
        """An incomplete header block: its stream, its flags and its pieces."""

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._discard()
            return
        self._heard_at = self._limiter.now
        is_large = len(data) > TURN_BODY_BYTES
        if self._rest:
            data = self._rest + data
        if self.resting:  # it was on its way when reading was paused
            self._rest = data
            return
        self._read(data)
        if is_large and not self.resting:
            self._rest_until_next_turn()  # libuv would read 32 times in a row

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.resting:
            self.transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def grant_window(self, stream: Stream) -> None:
        if stream.allowance < STREAM_WINDOW // 2:
            self.send(frames.encode_window_update(stream.id, STREAM_WINDOW - stream.allowance))
            stream.allowance = STREAM_WINDOW

    # Reading

    def _read(self, data: bytes) -> None:
        try:
            self._rest = self._take(data)
        except ConnectionFault as fault:
            self._rest = b""
            self._disconnect(fault.code, fault.message)

    def _rest_until_next_turn(self) -> None:
        if not self.transport.is_closing():
            self.resting = True
            self.transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _discard(self) -> None:
        """Drop what was read, and read on after a pause: the client was disconnected, but goes on writing."""
        if not (self.resting or self.paused or self.transport.is_closing()):
            self.resting = True
            self.transport.pause_reading()
            self._loop.call_later(DISCARD_SECONDS, self._read_on)

    def _read_on(self) -> None:
        """Take the next turn, unless the client has to read its responses first."""
        if not self.resting or self.paused or self.transport.is_closing():
            return
        self.resting = False
        self.transport.resume_reading()
        if not self._ignores_input:
            data, self._rest = self._rest, b""
            self._read(data)

    def _take(self, data: bytes) -> bytes:
        """Process all complete frames and return the start of an incomplete one."""
        at, end, left = 0, len(data), TURN_FRAMES
        if not self._greeted:
            if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
                self._refuse_http1()
                return b""
            if end < len(frames.PREFACE):
                return data
            self._greeted = True
            self.send(_GREETING)
            at = len(frames.PREFACE)
        while end - at >= frames.HEAD_BYTES:
            if left <= 0:
                self._rest_until_next_turn()
                break
            high, low, kind, flags, id_ = frames.read_head(data, at)
            size = high << 8 | low
            if size > frames.FRAME_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes is too large")
            left -= 1
            start = at + frames.HEAD_BYTES
            if end - start < size:
                break
            at = start + size
            payload = data[start:at]
            id_ &= frames.MAX_WINDOW
            if self._block is not None and kind != frames.CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "expected a CONTINUATION frame")
            if kind == frames.DATA:
                self._take_data(id_, flags, payload)
            elif kind == frames.HEADERS:
                left -= HEAD_FRAMES
                self._take_block(id_, flags, frames.strip_padding(flags, payload))
            elif kind == frames.CONTINUATION:
                self._take_more_block(id_, flags, payload)
            else:
                self._take_other(kind, id_, flags, payload)
        return data[at:]

    def _take_data(self, id_: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._allowance -= size
        if self._allowance < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the data exceeds the connection's flow-control window")
        if self._allowance < WINDOW // 2:
            self.send(frames.encode_window_update(0, WINDOW - self._allowance))
            self._allowance = WINDOW
        stream = self._streams.get(id_)
        if stream is None or stream.request_complete:
            self._require_known(id_, "data")
            self._note_noise()
            if stream is not None:
                self._reset_stream(stream, ErrorCode.STREAM_CLOSED)
            return
        stream.allowance -= size
        if stream.allowance < 0:
            self._reset_stream(stream, ErrorCode.FLOW_CONTROL_ERROR)
            return
        ends = bool(flags & frames.END_STREAM)
        if flags & frames.PADDED:
            payload = frames.strip_padding(frames.PADDED, payload)
        if len(payload) < SMALL_DATA and not ends:
            self._note_noise()
        stream.request_complete = ends
        stream.last_read_at = self._limiter.now
        stream.bytes += len(payload)
        receiver = stream.receiver
        if receiver is not None and payload:
            receiver.on_data(payload)
            receiver = stream.receiver  # it may have answered already
        if ends:
            if receiver is not None:
                receiver.on_end()
        elif not stream.holding and receiver is not None:
            self.grant_window(stream)

    def _take_block(self, id_: int, flags: int, block: bytes) -> None:
        if not id_ & 1:
            message = f"HEADERS frame on stream {id_}, which a client cannot open"
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, message)
        if not flags & frames.END_HEADERS:
            self._block = (id_, flags, [block])
            return
        self._take_head(id_, flags, self._heads.decode(block))

    def _take_more_block(self, id_: int, flags: int, more: bytes) -> None:
        if self._block is None or self._block[0] != id_:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION frame without HEADERS")
        _, first, pieces = self._block
        pieces.append(more)
        if sum(map(len, pieces)) > MAX_DECODED_BYTES or len(pieces) > MAX_LIST_BYTES // PIECE_BYTES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the headers of the request are too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self._take_head(id_, first, self._heads.decode(b"".join(pieces)))

    def _take_head(self, id_: int, flags: int, head: HeaderBlock) -> None:
        ends = bool(flags & frames.END_STREAM)
        stream = self._streams.get(id_)
        if stream is not None:  # trailers
            if stream.request_complete or not ends:
                self._reset_stream(stream, ErrorCode.PROTOCOL_ERROR)
                return
            stream.request_complete = True
            if stream.receiver is not None:
                stream.receiver.on_end()
            return
        if id_ <= self._last or self._draining:  # of a stream that was reset, or opened after GOAWAY
            self._note_noise()
            return
        self._last = id_
        if len(self._streams) >= MAX_STREAMS:
            self._note_noise(RESET_NOISE)
            self.send(frames.encode_reset(id_, ErrorCode.REFUSED_STREAM))
            return
        stream = Stream(id_, self, self._first_window, STREAM_WINDOW, self._limiter.now)
        stream.request_complete = ends
        self._streams[id_] = stream
        if head.oversized:
            self._note_noise(OVERSIZED_NOISE)
        receiver = self._host.on_stream(stream, head)
        if receiver is not None:
            stream.receiver = receiver
            if ends:
                receiver.on_end()

    def _take_other(self, kind: int, id_: int, flags: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._take_window(id_, frames.read_number(payload) & frames.MAX_WINDOW)
        elif kind == frames.RST_STREAM:
            frames.read_number(payload)
            self._require_known(id_, "a reset")
            self._note_noise()
            stream = self._streams.get(id_)
            if stream is not None:
                honest = stream.receiver is not None and stream.receiver.has_waited_long()
                self._note_noise(QUIET if honest else RESET_NOISE + QUIET)
                stream.request_complete = True
                stream.cancel()
        elif kind == frames.SETTINGS:
            self._note_noise(SETTINGS_NOISE)
            if id_ or (flags & frames.ACK and payload):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "invalid SETTINGS frame")
            if not flags & frames.ACK:
                self._take_settings(frames.read_settings(payload))
        elif kind == frames.PING:
            self._note_noise()
            if id_ or len(payload) != _PING_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "invalid PING frame")
            if not flags & frames.ACK:
                self.send(frames.encode_frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")
        else:  # GOAWAY, PRIORITY and unknown frames are ignored
            self._note_noise()

    def _take_settings(self, values: list[tuple[int, int]]) -> None:
        for name, value in dict(values).items():  # a frame may repeat a setting a thousand times
            if name == frames.INITIAL_WINDOW_SIZE:
                self._first_window, before = value, self._first_window
                for stream in self._streams.values():
                    stream.window += value - before
                if max(value, *(stream.window for stream in self._streams.values()), 0) > frames.MAX_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "flow-control window too large")
            elif name == frames.MAX_FRAME_SIZE:
                if not frames.FRAME_BYTES <= value < 1 << 24:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "invalid maximum frame size")
                self.frame_bytes = min(value, STREAM_WINDOW)
        self.send(_ACKNOWLEDGED)
        self._pump()

    def _take_window(self, id_: int, more: int) -> None:
        stream = self._streams.get(id_)
        if id_ and stream is None:
            self._require_known(id_, "a window")
            self._note_noise()
            return
        if more < SMALL_WINDOW and self._blocked:
            self._note_noise(CRUMB_NOISE)
        if stream is not None:
            stream.window += more
            if not more or stream.window > frames.MAX_WINDOW:
                self._reset_stream(stream, ErrorCode.FLOW_CONTROL_ERROR)
            elif stream in self._blocked and not self.paused:
                del self._blocked[stream]
                stream.resume()
            else:
                self._note_noise()
            return
        was_shut = self.window <= 0
        self.window += more
        if not more or self.window > frames.MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "invalid window update")
        if was_shut:  # otherwise the blocked streams wait for their own windows
            self._pump()
        else:
            self._note_noise()

    # Rules

    def _require_known(self, id_: int, what: str) -> None:
        """Raises ConnectionFault for an idle stream. After GOAWAY, frames of new streams are ignored."""
        if not id_ & 1 or (id_ > self._last and not self._draining):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{what} on stream {id_}, which is idle")

    def _reset_stream(self, stream: Stream, code: ErrorCode) -> None:
        """Reset a stream because of an error of the client."""
        stream.reset(code)
        self._note_noise(RESET_NOISE + QUIET)

    def _note_noise(self, much: int = 1) -> None:
        self._noise += much
        if self._noise > NOISE:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many control frames for too few calls")

    def _refuse_http1(self) -> None:
        """Answer in HTTP/1.1: the client is mostly a person with curl."""
        self._ignores_input = self._draining = True
        self.transport.write(_NOT_HTTP2)
        self._end()

"""What comes from a client that speaks HTTP/2, from its preface on.

Kept to what gRPC needs: no server push, no priorities, no upgrade from HTTP/1.1. The client is held to the rules that
others depend on: how much it may send unasked, how many calls it may have, how much noise it may make between them.

Hazards kept in mind: a head is decoded even for a stream that is gone, for the table of heads would be another one on
each side; continuations without end (CVE-2024-27316), calls that are cancelled as fast as they are made
(CVE-2023-44487), or that we are made to cancel (CVE-2025-8671), and frames that bring nothing, are attacks: noise.
"""

from __future__ import annotations

from typing import Any

from mizzen.web.http2 import frames
from mizzen.web.http2.frames import Code, ConnectionFault
from mizzen.web.http2.headers import LIST_BYTES, MOST_LIST_BYTES, Head, Heads
from mizzen.web.http2.stream import Stream
from mizzen.web.http2.writer import NOISE, QUIET, WireProtocol

STREAMS = 256
"""Calls that a client may have at a time."""
STREAM_WINDOW, WINDOW = 1 << 20, 8 << 20
"""Bytes that it may send before it hears that they have come: for one call, and for all."""
RESET_NOISE, SETTINGS_NOISE, CRUMB_NOISE, OVERSIZED_NOISE = 10, 20, 3, 100
CRUMB = 1 << 10
"""A window that grows by less is hardly worth a look at who waits for it."""
PIECE_BYTES = 1 << 10
"""How long the pieces of a head have to be, give or take."""

_FIRST_ALLOWANCE = 65_535
_GREETING = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: STREAMS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_HEADER_LIST_SIZE: LIST_BYTES,
    }
) + frames.window_update(0, WINDOW - _FIRST_ALLOWANCE)
_ACKNOWLEDGED = frames.frame(frames.SETTINGS, frames.ACK, 0)
_PING_BYTES = 8
_WRONG_DOOR = b"this port speaks gRPC, which is HTTP/2 without an upgrade; REST has a port of its own\n"
_NOT_HTTP2 = b"HTTP/1.1 426 Upgrade Required\r\nconnection: close\r\nupgrade: h2c\r\ncontent-type: text/plain\r\n" + (
    b"content-length: %d\r\n\r\n%b" % (len(_WRONG_DOOR), _WRONG_DOOR)
)


class Http2Protocol(WireProtocol):
    """One client connection."""

    def __init__(self, *uvicorns: Any, **named: Any) -> None:
        super().__init__(*uvicorns, **named)
        self._rest = b""
        self._allowance = WINDOW
        self._heads = Heads()
        self._block: tuple[int, int, list[bytes]] | None = None
        """A head whose end has not come: its stream, its flags and its pieces."""

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._heard_at = self._door.now
        try:
            self._rest = self._take(self._rest + data if self._rest else data)
        except ConnectionFault as fault:
            self._send_away(fault.code, fault.message)

    def taken(self, stream: Stream) -> None:
        if stream.allowance < STREAM_WINDOW // 2:
            self.send(frames.window_update(stream.id, STREAM_WINDOW - stream.allowance))
            stream.allowance = STREAM_WINDOW

    # Reading

    def _take(self, data: bytes) -> bytes:
        """Returns the beginning of a frame that has not come to its end."""
        at, end = 0, len(data)
        if not self._greeted:
            if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
                self._refuse_stranger()
                return b""
            if end < len(frames.PREFACE):
                return data
            self._greeted = True
            self.send(_GREETING)
            at = len(frames.PREFACE)
        while end - at >= frames.HEAD_BYTES:
            high, low, kind, flags, id_ = frames.read_head(data, at)
            size = high << 8 | low
            if size > frames.FRAME_BYTES:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            start = at + frames.HEAD_BYTES
            if end - start < size:
                break
            at = start + size
            payload = data[start:at]
            id_ &= frames.MOST_WINDOW
            if self._block is not None and kind != frames.CONTINUATION:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "a head that is not continued")
            if kind == frames.DATA:
                self._take_data(id_, flags, payload)
            elif kind == frames.HEADERS:
                self._take_block(id_, flags, frames.unpadded(flags, payload))
            elif kind == frames.CONTINUATION:
                self._take_more_block(id_, flags, payload)
            else:
                self._take_other(kind, id_, flags, payload)
        return data[at:]

    def _take_data(self, id_: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._allowance -= size
        if self._allowance < 0:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more data than was allowed")
        if self._allowance < WINDOW // 2:
            self.send(frames.window_update(0, WINDOW - self._allowance))
            self._allowance = WINDOW
        stream = self._streams.get(id_)
        if stream is None or stream.heard:
            self._require_known(id_, "data")
            self._note_noise()
            if stream is not None:
                self._give_up(stream, Code.STREAM_CLOSED)
            return
        stream.allowance -= size
        if stream.allowance < 0:
            self._give_up(stream, Code.FLOW_CONTROL_ERROR)
            return
        ends = bool(flags & frames.END_STREAM)
        if flags & frames.PADDED:
            payload = frames.unpadded(frames.PADDED, payload)
        if not payload and not ends:
            self._note_noise()
        stream.heard = ends
        stream.heard_at = self._door.now
        stream.bytes += len(payload)
        receiver = stream.receiver
        if receiver is not None and payload:
            receiver.received(payload)
            receiver = stream.receiver  # it may have answered
        if ends:
            if receiver is not None:
                receiver.ended()
        elif not stream.holding and receiver is not None:
            self.taken(stream)

    def _take_block(self, id_: int, flags: int, block: bytes) -> None:
        if not id_ & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, f"a head on stream {id_}")
        if not flags & frames.END_HEADERS:
            self._block = (id_, flags, [block])
            return
        self._take_head(id_, flags, self._heads.read(block))

    def _take_more_block(self, id_: int, flags: int, more: bytes) -> None:
        if self._block is None or self._block[0] != id_:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a continuation of nothing")
        _, first, pieces = self._block
        pieces.append(more)
        if sum(map(len, pieces)) > MOST_LIST_BYTES or len(pieces) > LIST_BYTES // PIECE_BYTES:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "the head of the request is too long")
        if flags & frames.END_HEADERS:
            self._block = None
            self._take_head(id_, first, self._heads.read(b"".join(pieces)))

    def _take_head(self, id_: int, flags: int, head: Head) -> None:
        ends = bool(flags & frames.END_STREAM)
        stream = self._streams.get(id_)
        if stream is not None:  # trailers
            if stream.heard or not ends:
                self._give_up(stream, Code.PROTOCOL_ERROR)
                return
            stream.heard = True
            if stream.receiver is not None:
                stream.receiver.ended()
            return
        if id_ <= self._last or self._leaving:  # of a stream that we gave up, or were never to answer, and said so
            self._note_noise()
            return
        self._last = id_
        if len(self._streams) >= STREAMS:
            self._note_noise(RESET_NOISE)
            self.send(frames.reset(id_, Code.REFUSED_STREAM))
            return
        stream = Stream(id_, self, self._first_window, STREAM_WINDOW, self._door.now)
        stream.heard = ends
        self._streams[id_] = stream
        if head.oversized:
            self._note_noise(OVERSIZED_NOISE)
        receiver = self._host.opened(stream, head)
        if receiver is not None:
            stream.receiver = receiver
            if ends:
                receiver.ended()

    def _take_other(self, kind: int, id_: int, flags: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._take_window(id_, frames.number(payload) & frames.MOST_WINDOW)
        elif kind == frames.RST_STREAM:
            frames.number(payload)
            self._require_known(id_, "a reset")
            self._note_noise()
            stream = self._streams.get(id_)
            if stream is not None:
                honest = stream.receiver is not None and stream.receiver.lapsed()
                self._note_noise(QUIET if honest else RESET_NOISE + QUIET)
                stream.heard = True
                stream.cancel()
        elif kind == frames.SETTINGS:
            self._note_noise(SETTINGS_NOISE)
            if id_ or (flags & frames.ACK and payload):
                raise ConnectionFault(Code.PROTOCOL_ERROR, "settings that are none")
            if not flags & frames.ACK:
                self._take_settings(frames.read_settings(payload))
        elif kind == frames.PING:
            self._note_noise()
            if id_ or len(payload) != _PING_BYTES:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a ping that is none")
            if not flags & frames.ACK:
                self.send(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.PUSH_PROMISE:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a push by a client")
        else:  # GOAWAY: it will ask no more; PRIORITY, and what is not known, is left out
            self._note_noise()

    def _take_settings(self, values: list[tuple[int, int]]) -> None:
        for name, value in dict(values).items():  # each may stand in it a thousand times
            if name == frames.INITIAL_WINDOW_SIZE:
                self._first_window, before = value, self._first_window
                for stream in self._streams.values():
                    stream.window += value - before
                if max(value, *(stream.window for stream in self._streams.values()), 0) > frames.MOST_WINDOW:
                    raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is too large")
            elif name == frames.MAX_FRAME_SIZE:
                if not frames.FRAME_BYTES <= value < 1 << 24:
                    raise ConnectionFault(Code.PROTOCOL_ERROR, "frames of an odd size")
                self.frame_bytes = min(value, STREAM_WINDOW)
        self.send(_ACKNOWLEDGED)
        self._pump()

    def _take_window(self, id_: int, more: int) -> None:
        stream = self._streams.get(id_)
        if id_ and stream is None:
            self._require_known(id_, "a window")
            self._note_noise()
            return
        if more < CRUMB and self._blocked:
            self._note_noise(CRUMB_NOISE)
        if stream is not None:
            stream.window += more
            if not more or stream.window > frames.MOST_WINDOW:
                self._give_up(stream, Code.FLOW_CONTROL_ERROR)
            elif stream in self._blocked and not self.paused:
                del self._blocked[stream]
                stream.resume()
            else:
                self._note_noise()
            return
        was_shut = self.window <= 0
        self.window += more
        if not more or self.window > frames.MOST_WINDOW:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is none, or too large")
        if was_shut:  # else those that wait do so for windows of their own
            self._pump()
        else:
            self._note_noise()

    # Rules

    def _require_known(self, id_: int, what: str) -> None:
        """Of streams that we said we would not answer there may be anything."""
        if not id_ & 1 or (id_ > self._last and not self._leaving):
            raise ConnectionFault(Code.PROTOCOL_ERROR, f"{what} of stream {id_}, which is idle")

    def _give_up(self, stream: Stream, code: Code) -> None:
        """For a fault of the client's."""
        stream.reset(code)
        self._note_noise(RESET_NOISE + QUIET)

    def _note_noise(self, much: int = 1) -> None:
        self._noise += much
        if self._noise > NOISE:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too much noise for too few calls")

    def _refuse_stranger(self) -> None:
        """Mostly somebody with curl, who can read what we say."""
        self._deaf = self._leaving = True
        self.transport.write(_NOT_HTTP2)
        self._end()

"""One call of a connection: an incoming request, and its response under flow control."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mizzen.web.http2 import frames
from mizzen.web.http2.frames import ErrorCode
from mizzen.web.http2.headers import HeaderBlock


class Receiver(Protocol):
    """Takes the request of one stream."""

    def on_data(self, data: bytes) -> None:
        """More of the request. It may be answered from here, from `on_end`, or later."""

    def on_end(self) -> None:
        """The request is complete."""

    def on_cancel(self) -> None:
        """The client no longer waits for the response. Not called once it is complete."""

    def on_writable(self) -> None:
        """The client has read some of a response that was blocked."""

    def has_waited_long(self) -> bool:
        """Whether a client that cancels now has waited as long as normal clients do."""

    def on_shutdown(self) -> None:
        """The server is stopping: endless calls must end."""


class StreamHandler(Protocol):
    """Answers the requests of a connection."""

    def on_stream(self, stream: Stream, head: HeaderBlock) -> Receiver | None:
        """A request begins. Return its Receiver; None: it has been answered already."""


class StreamTransport(Protocol):
    """The connection, as its streams use it."""

    window: int
    """Bytes of data that the connection may still send."""
    frame_bytes: int
    """Maximum bytes in one frame."""
    paused: bool
    """The client does not read, so it gets no more data, even if its flow-control windows are open."""

    @property
    def now(self) -> float: ...

    def send(self, data: bytes) -> None: ...

    def on_data_written(self, size: int) -> None:
        """Bytes of data were written."""

    def on_piece_written(self) -> None:
        """A whole piece of data was written."""

    def on_stream_closed(self, stream: Stream) -> None:
        """The stream's response is complete or was reset."""

    def on_stream_blocked(self, stream: Stream) -> None:
        """The stream has more data than its windows allow."""

    def grant_window(self, stream: Stream) -> None:
        """Let the client send more on this stream."""

    def add_unsent(self, size: int) -> None:
        """Change the count of response bytes that wait for the client."""

    def has_room(self, size: int) -> bool:
        """Whether this many bytes of one response may wait, in addition to those of others."""


class Stream:
    __slots__ = (
        "_done",
        "_pending",
        "_wire",
        "allowance",
        "bytes",
        "holding",
        "id",
        "last_read_at",
        "last_written_at",
        "read_started_at",
        "receiver",
        "request_complete",
        "unsent",
        "window",
    )  # fmt: skip

    def __init__(self, id_: int, wire: StreamTransport, window: int, allowance: int, now: float) -> None:
        self.id = id_
        self.receiver: Receiver | None = None
        self.window = window
        """Bytes of data that may still be sent."""
        self.allowance = allowance
        """Bytes of data that may still arrive."""
        self.holding = False
        """The receiver has enough for now: the client gets no window updates."""
        self.request_complete = False
        """The whole request has arrived."""
        self.read_started_at: float | None = now
        """When the current message began to arrive; None: no message is incomplete, so no timeout applies."""
        self.last_read_at = now
        self.bytes = 0
        """Bytes of that message so far."""
        self.last_written_at = now
        """When the client last read some of the response."""
        self.unsent = 0
        """Bytes of data that wait for the client."""
        self._wire = wire
        self._pending: deque[tuple[bytes | memoryview, bytes | None]] = deque()
        """The unsent data, followed by the trailers, which end the stream."""
        self._done = False

    @property
    def now(self) -> float:
        return self._wire.now

    def answer(self, head: bytes, body: bytes, tail: bytes) -> None:
        """Send a whole response: headers and trailers as HPACK, and one piece of data between them."""
        size, wire = len(body), self._wire
        if self._done:
            return
        if size <= self.window and size <= wire.window and size <= wire.frame_bytes and not wire.paused:
            self.window -= size
            wire.window -= size
            write, id_ = frames.encode_head, self.id
            wire.send(
                b"%b%b%b%b%b%b" % (
                    write(len(head) >> 8, len(head) & 255, frames.HEADERS, frames.END_HEADERS, id_), head,
                    write(size >> 8, size & 255, frames.DATA, 0, id_), body,
                    write(len(tail) >> 8, len(tail) & 255, frames.HEADERS, 5, id_), tail,
                )
            )  # fmt: skip
            self._end()
            return
        self.begin(head)
        receiver, self.receiver = self.receiver, None  # it has answered, so it need not hear of a reset
        self.write(body)
        if not self._done:
            self.receiver = receiver
            self.finish(tail)

    def refuse(self, head: bytes) -> None:
        """Send a response that consists only of headers."""
        if not self._done:
            self._wire.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, self.id, head))
            self._end()

    def begin(self, head: bytes) -> None:
        if not self._done:
            self._wire.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS, self.id, head))

    def write(self, data: bytes) -> None:
        if not self._done:
            if not self._pending:
                self.last_written_at = self._wire.now
            self._pending.append((data, None))
            self.unsent += len(data)
            self._wire.add_unsent(len(data))
            self.pump()
            if self.unsent and not self._wire.has_room(self.unsent):
                self.reset(ErrorCode.ENHANCE_YOUR_CALM)

    def finish(self, tail: bytes) -> None:
        if not self._done:
            self._pending.append((b"", tail))
            self.pump()

    def pump(self) -> None:
        """Send as much as the windows allow."""
        wire = self._wire
        while self._pending:
            data, tail = self._pending[0]
            if tail is not None:
                wire.send(frames.encode_frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, self.id, tail))
                self._end()
                return
            room = min(len(data), self.window, wire.window, wire.frame_bytes)
            if data and (room <= 0 or wire.paused):
                wire.on_stream_blocked(self)
                return
            self.window -= room
            wire.window -= room
            self.unsent -= room
            wire.add_unsent(-room)
            self.last_written_at = wire.now
            wire.send(frames.encode_frame(frames.DATA, 0, self.id, bytes(data[:room])))
            wire.on_data_written(room)
            if room == len(data):
                self._pending.popleft()
                wire.on_piece_written()
            else:
                self._pending[0] = (memoryview(data)[room:], None)

    def resume(self) -> None:
        """Try again to send after being blocked."""
        self.pump()
        if self.receiver is not None:
            self.receiver.on_writable()

    def hold(self, holding: bool) -> None:
        """Stop or resume window updates for the client."""
        if self.holding and not holding:
            self.holding = False
            if not self._done and not self.request_complete:
                self._wire.grant_window(self)
        self.holding = holding

    def reset(self, code: ErrorCode) -> None:
        """Reset the stream."""
        if not self._done:
            self._wire.send(frames.encode_reset(self.id, code))
            self.request_complete = True  # prevents a second reset
            self.cancel()

    def cancel(self) -> None:
        """The client has cancelled or disconnected."""
        if not self._done:
            receiver = self.receiver
            self._end()
            if receiver is not None:
                receiver.on_cancel()

    def _end(self) -> None:
        self._done = True
        self._pending.clear()
        if self.unsent:
            self._wire.add_unsent(-self.unsent)
            self.unsent = 0
        self.receiver = None
        self._wire.on_stream_closed(self)

"""One call of a connection: a request that comes in, and its answer, as far as the client takes it."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mizzen.web.http2 import frames
from mizzen.web.http2.frames import Code
from mizzen.web.http2.headers import Head


class Receiver(Protocol):
    """Whoever takes what one stream brings."""

    def received(self, data: bytes) -> None:
        """More of the request. It may be answered from here, or from `ended`, or later."""

    def ended(self) -> None:
        """That was all of it."""

    def cancelled(self) -> None:
        """Nobody waits for the answer any more. Not called once it is complete."""

    def moved(self) -> None:
        """The client has taken some of the answer that it would not take before."""

    def lapsed(self) -> bool:
        """Whether who cancels it now has waited for it as callers do."""

    def stopping(self) -> None:
        """The server is being stopped: who would go on for ever comes to an end."""


class Host(Protocol):
    """Whoever answers the requests of a connection."""

    def opened(self, stream: Stream, head: Head) -> Receiver | None:
        """A request begins. None: it has been answered already."""


class Wire(Protocol):
    """The connection, as its streams see it."""

    window: int
    """Bytes of data that it may still send."""
    frame_bytes: int
    """Most of them in one frame."""
    paused: bool
    """The client does not read what was sent: it gets no more data, whatever windows it gives."""

    @property
    def now(self) -> float: ...

    def send(self, data: bytes) -> None: ...

    def wrote(self, size: int) -> None:
        """So many bytes of data."""

    def sent(self) -> None:
        """A whole piece of data."""

    def left(self, stream: Stream) -> None:
        """Its answer is complete, or was given up."""

    def blocked(self, stream: Stream) -> None:
        """It has more to send than it may."""

    def taken(self, stream: Stream) -> None:
        """It holds nothing back any more."""

    def waits(self, size: int) -> None:
        """So many more bytes of answers wait until the client takes them."""

    def has_room(self, size: int) -> bool:
        """Whether so many of one answer may wait, beside those of others."""


class Stream:
    __slots__ = (
        "_done", "_pending", "_wire", "allowance", "bytes", "heard", "heard_at", "holding", "id", "moved_at",
        "receiver", "since", "unsent", "window",
    )  # fmt: skip

    def __init__(self, id_: int, wire: Wire, window: int, allowance: int, now: float) -> None:
        self.id = id_
        self.receiver: Receiver | None = None
        self.window = window
        """Bytes of data that may still be sent on it."""
        self.allowance = allowance
        """And that may still come."""
        self.holding = False
        """Whoever receives has enough for now: the client is not told that it may send more."""
        self.heard = False
        """The request has come to its end."""
        self.since: float | None = now
        """When what is being read began; None: nothing is, and the client may take its time."""
        self.heard_at = now
        self.bytes = 0
        """That came of it."""
        self.moved_at = now
        """When the client last took some of the answer."""
        self.unsent = 0
        """Bytes of data that the client does not take yet."""
        self._wire = wire
        self._pending: deque[tuple[bytes | memoryview, bytes | None]] = deque()
        """These; and behind them trailers, which are the end."""
        self._done = False

    @property
    def now(self) -> float:
        return self._wire.now

    def answer(self, head: bytes, body: bytes, tail: bytes) -> None:
        """All of it: heads as HPACK, and one piece of data between them."""
        size, wire = len(body), self._wire
        if self._done:
            return
        if size <= self.window and size <= wire.window and size <= wire.frame_bytes and not wire.paused:
            self.window -= size
            wire.window -= size
            write, id_ = frames.head, self.id
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
        receiver, self.receiver = self.receiver, None  # who has answered need not hear that it was given up
        self.write(body)
        if not self._done:
            self.receiver = receiver
            self.finish(tail)

    def refuse(self, head: bytes) -> None:
        """An answer that is a head and nothing else."""
        if not self._done:
            self._wire.send(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, self.id, head))
            self._end()

    def begin(self, head: bytes) -> None:
        if not self._done:
            self._wire.send(frames.frame(frames.HEADERS, frames.END_HEADERS, self.id, head))

    def write(self, data: bytes) -> None:
        if not self._done:
            if not self._pending:
                self.moved_at = self._wire.now
            self._pending.append((data, None))
            self.unsent += len(data)
            self._wire.waits(len(data))
            self.pump()
            if self.unsent and not self._wire.has_room(self.unsent):
                self.reset(Code.ENHANCE_YOUR_CALM)

    def finish(self, tail: bytes) -> None:
        if not self._done:
            self._pending.append((b"", tail))
            self.pump()

    def pump(self) -> None:
        """Send what may be sent."""
        wire = self._wire
        while self._pending:
            data, tail = self._pending[0]
            if tail is not None:
                wire.send(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, self.id, tail))
                self._end()
                return
            room = min(len(data), self.window, wire.window, wire.frame_bytes)
            if data and (room <= 0 or wire.paused):
                wire.blocked(self)
                return
            self.window -= room
            wire.window -= room
            self.unsent -= room
            wire.waits(-room)
            self.moved_at = wire.now
            wire.send(frames.frame(frames.DATA, 0, self.id, bytes(data[:room])))
            wire.wrote(room)
            if room == len(data):
                self._pending.popleft()
                wire.sent()
            else:
                self._pending[0] = (memoryview(data)[room:], None)

    def resume(self) -> None:
        """It could not send, and perhaps can now."""
        self.pump()
        if self.receiver is not None:
            self.receiver.moved()

    def hold(self, holding: bool) -> None:
        """Whether the client is kept from sending more, beyond what it was allowed before."""
        if self.holding and not holding:
            self.holding = False
            if not self._done and not self.heard:
                self._wire.taken(self)
        self.holding = holding

    def reset(self, code: Code) -> None:
        """Give up."""
        if not self._done:
            self._wire.send(frames.reset(self.id, code))
            self.heard = True  # no second reset for it
            self.cancel()

    def cancel(self) -> None:
        """The client has given up, or is gone."""
        if not self._done:
            receiver = self.receiver
            self._end()
            if receiver is not None:
                receiver.cancelled()

    def _end(self) -> None:
        self._done = True
        self._pending.clear()
        if self.unsent:
            self._wire.waits(-self.unsent)
            self.unsent = 0
        self.receiver = None
        self._wire.left(self)

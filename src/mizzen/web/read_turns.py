"""Reading in turns: one connection takes a small share of each turn of the event loop, and of the memory.

A read of the socket may bring thousands of tiny requests or chunks. They are parsed in slices of at most one request.
After a few, the connection pauses reading and lets others have their turn. The rest also waits while earlier requests
are unanswered, or their responses unread.

Hazard: uvicorn resumes reading whenever the app asks for the body or a response ends. `ReadFlow` allows it only if
nothing else holds up the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mizzen.web.connection_limits import LimitedConnection

SLICE_BYTES: Final = 2 << 10
"""Parsed in one piece and in one turn of the event loop, unless it is of a body with large pieces."""
BODY_SLICE_BYTES: Final = 8 << 10
"""The same, of a body in chunks of at least `LARGE_PIECE_BYTES` on average. A body of known length has no limit."""
LARGE_PIECE_BYTES: Final = 512
TURN_REQUESTS: Final = 4
"""Requests that one connection may begin in one turn."""
TURN_BODY_BYTES: Final = 128 << 10
"""After a read of more bytes, others have their turn: libuv would read 32 times in a row."""

DISCARD_SECONDS: Final = 0.005
"""Pause after each read of a client that goes on writing although it was refused."""

MAX_NOISE: Final = 4096
"""Pieces without enough data in them, beyond which the connection is closed. A tenth is forgiven every second."""
PIECE_BYTES: Final = 32
"""Body bytes that compensate one piece: a chunk, or a read of the socket that completes no request."""
FRAMING_BYTES: Final = 64
"""So many bytes of chunk headers and trailers count as one more piece."""
REQUEST_QUIET: Final = 16
"""Pieces that a complete request compensates."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_TURN: Final = 16
"""Work of one turn: one whole slice, or so many tiny ones."""
_BODY_SLICE: Final = 4
"""Work of a slice with large pieces."""


def noise_of(pieces: int, payload: int, framing: int) -> int:
    """Return how many pieces exceed what their payload justifies; negative if they are larger than necessary."""
    return pieces + framing // FRAMING_BYTES - payload // PIECE_BYTES


class ReadFlow(FlowControl):
    """Pauses reading while the app wants that, or the connection is busy with what it has read."""

    def __init__(self, transport: asyncio.Transport, connection: PacedProtocol) -> None:
        super().__init__(transport)
        self._connection = connection
        self.app_paused = False
        """The app has not taken the body so far."""

    def pause_reading(self) -> None:
        self.app_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        self.app_paused = False
        if self.read_paused:
            self.update()

    def update(self) -> None:
        """Pause or resume, after a change of what the connection is busy with."""
        if self.app_paused or self._connection.is_full():
            super().pause_reading()
        elif self._connection.has_unread():
            super().pause_reading()
            self._connection.schedule_turn()
        else:
            super().resume_reading()


class PacedProtocol(HttpToolsProtocol, LimitedConnection):
    """uvicorn's protocol, which parses what it reads in turns. Subclasses maintain the attributes below."""

    flow: ReadFlow

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._unread = b""
        """Data that waits for its turn."""
        self._turn_due = False
        self._noise = 0
        self._ignores_input = False
        """The last request of this connection has been read: further data is ignored."""
        self._begun = 0
        """Requests that began in the current slice."""
        self._turn_begun = 0
        """Requests that began in the current turn."""
        # Of the request that is being read
        self._reading = self._in_head = False
        self._length = 0
        """Its Content-Length; 0 if its length is unknown."""
        self._body_bytes = 0
        self._pieces = 0
        """Pieces of the body so far."""

    # Subclasses implement these

    def is_full(self) -> bool:
        """Whether nothing more may be parsed before a response is written and read."""
        raise NotImplementedError

    def _parse_slice(self, data: bytes) -> None:
        raise NotImplementedError

    def _refuse_noise(self) -> None:
        """Refuse the request that comes in tiny pieces, and close."""
        raise NotImplementedError

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = ReadFlow(transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread = b""
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.update()  # a client that does not read responses may not send more requests

    def resume_writing(self) -> None:
        super().resume_writing()
        self.flow.update()

    # Turns

    def has_unread(self) -> bool:
        return bool(self._unread)

    def schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_due = False
        data, self._unread = self._unread, b""
        if data and not self.transport.is_closing():
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Parse what one turn allows, and keep the rest for the next."""
        if self._unread:  # it was on its way when reading was paused
            self._unread += data
            return
        at, end, left = 0, len(data), _TURN
        self._turn_begun = 0
        while at < end and left > 0 and self._turn_begun < TURN_REQUESTS and self._may_parse():
            size = self._count_rest()
            if not size:
                most = self._slice_bytes()
                end_mark = _LAST_CHUNK if self._reading and not self._in_head else _END_OF_HEAD
                found = data.find(end_mark, at, at + most)
                size = most if found < 0 else found + len(end_mark) - at
                left -= max(_TURN * size // SLICE_BYTES, 1) if most == SLICE_BYTES else _BODY_SLICE
            self._parse_counted(data[at : at + size])
            at += size
        if self.transport.is_closing():
            return
        if at < end and not self._ignores_input:
            self._unread = data[at:]
        self.flow.update()
        if end > TURN_BODY_BYTES and not self.flow.read_paused:
            self._yield_reading()

    def _may_parse(self) -> bool:
        return not (self._ignores_input or self.flow.app_paused or self.is_full() or self.transport.is_closing())

    def _count_rest(self) -> int:
        """Return the bytes that are missing of a body whose length is known."""
        return self._length - self._body_bytes if self._reading and not self._in_head and self._length else 0

    def _slice_bytes(self) -> int:
        in_large_pieces = self._reading and not self._in_head and self._body_bytes > LARGE_PIECE_BYTES * self._pieces
        return BODY_SLICE_BYTES if in_large_pieces else SLICE_BYTES

    def _parse_counted(self, data: bytes) -> None:
        """Parse a slice, and count the pieces in it."""
        reading, in_head, body_bytes, pieces = self._reading, self._in_head, self._body_bytes, self._pieces
        self._begun = 0
        self._parse_slice(data)
        self._turn_begun += self._begun
        if not self._reading and (reading or self._begun):
            self._noise = max(0, self._noise - REQUEST_QUIET)
            return
        if self._begun:
            body_bytes = pieces = 0
        payload = self._body_bytes - body_bytes
        framing = 0 if in_head or self._begun else len(data) - payload
        self._noise = max(0, self._noise + noise_of(max(1, self._pieces - pieces), payload, framing))
        if self._noise > MAX_NOISE and not self._ignores_input:
            self._refuse_noise()

    def _yield_reading(self) -> None:
        """Read again in the next turn of the loop."""
        self.transport.pause_reading()
        self.loop.call_soon(self._read_again)

    def _discard(self) -> None:
        """Drop what was read, and read on after a pause: the client writes as fast as it can."""
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(DISCARD_SECONDS, self._read_again)

    def _read_again(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def forgive_noise(self) -> None:
        """Called once a second."""
        if self._noise:
            self._noise = max(0, self._noise - MAX_NOISE // 10)

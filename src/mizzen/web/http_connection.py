"""uvicorn's connections, with limits on what clients may send, and on how long they may take for it."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mizzen.web.connection_limits import Door, Guest

HEAD_BYTES = 64 << 10
"""A request's head may be this long, give or take one read of the socket."""
BETWEEN_BYTES = 16 << 10
"""So much may come while a body does and none of it is the body: what chunks say of themselves, and what stands behind
the last one. Give or take one read of the socket, too."""

_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 35\r\n\r\nthe head of the request is too long"
)
_NOT_BODY = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 46\r\n\r\ntoo much of a body in chunks is no part of it\n"
)
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 37\r\n\r\nthe request took too long to come in\n"
)


class DoorProtocol(HttpToolsProtocol, Guest):
    """uvicorn's, which by itself takes any number of clients and waits without end for what they do not send.

    Whoever reads the connection keeps `_reading` and its like.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._door = door
        self._entered = False
        self._idle_since = door.now
        # The request that is being read
        self._reading = False
        self._in_head = False
        self._reading_since = self._heard_at = door.now
        self._body_bytes = 0
        self._between = 0
        """Bytes since the last that was part of the body."""
        self._unsent = 0
        self._unsent_since = door.now

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.handshake is not None:
            self.handshake.leave()  # and its place is ours
        self._entered = self._door.enter()
        if not self._entered:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._entered:
            self._door.leave()
        super().connection_lost(exc)

    def close_if_over_time(self) -> None:
        """Nothing is asked for too long, what is being asked does not come to its end, or nobody takes the answer."""
        now, patience = self._door.now, self._door.patience
        left = self.transport.get_write_buffer_size()
        if left != self._unsent or not left:
            self._unsent, self._unsent_since = left, now
        elif now - self._unsent_since > patience.untaken:
            self.transport.abort()  # `close` would wait for them, too
            return
        if not self._reading:
            idle = 0.0 if self._owes_answer() else now - self._idle_since
            if idle > patience.request:
                self.transport.abort()  # it was closed, but for an answer that nobody reads
            elif idle > patience.idle:
                self.transport.close()
        elif self._holds_up():
            self._reading_since = self._heard_at = now
        elif (
            now - self._heard_at > patience.stalled
            or now - self._reading_since > patience.request + self._body_bytes / patience.slowest
        ):
            self._refuse_late()

    def _owes_answer(self) -> bool:
        """To what has been read."""
        raise NotImplementedError

    def _holds_up(self) -> bool:
        """The request that is being read comes no further because of us."""
        raise NotImplementedError

    def _refuse_late(self) -> None:
        raise NotImplementedError


class LimitedProtocol(DoorProtocol):
    """With a limit on the head of a request, too, which uvicorn itself would take without end, from anybody."""

    _head_bytes = 0
    _began = False
    """In this read of the socket: what came before the head, such as other requests, is not its length."""

    def on_message_begin(self) -> None:
        self._reading = self._in_head = self._began = True
        self._reading_since = self._heard_at = self._door.now
        self._head_bytes = self._body_bytes = self._between = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heard_at = self._door.now
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._heard_at = self._door.now
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self._door.now
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._began = False
        in_head, body_bytes = self._in_head, self._body_bytes
        super().data_received(data)
        if self._began or not self._reading:
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.transport.write(_TOO_LONG)
                self.transport.close()
        elif not in_head:
            self._between = self._between + len(data) if self._body_bytes == body_bytes else 0
            if self._between > BETWEEN_BYTES:
                if not self.cycle.response_started:
                    self.transport.write(_NOT_BODY)
                self.transport.close()

    def _owes_answer(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _holds_up(self) -> bool:
        if self._in_head:
            return self.flow.read_paused or self._owes_answer()  # such as a watch, which is not cut for what follows it
        return self.flow.read_paused or self.cycle.waiting_for_100_continue

    def _refuse_late(self) -> None:
        if self._in_head or not self.cycle.response_started:
            self.transport.write(_TOO_LATE)
        self.transport.close()

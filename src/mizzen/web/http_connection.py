"""uvicorn's HTTP connections, with limits on the size and the duration of requests."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mizzen.web.connection_limits import ConnectionLimiter, LimitedConnection, closing_response

MAX_HEAD_BYTES = 64 << 10
"""Maximum size of a request's headers, give or take one read of the socket."""
MAX_NON_BODY_BYTES = 16 << 10
"""Maximum bytes within a body that are not part of it: chunk extensions, and trailers behind the last chunk. Give or
take one read of the socket."""

_TOO_LONG = closing_response("431 Request Header Fields Too Large", "the headers of the request are too long\n")
_NOT_BODY = closing_response("400 Bad Request", "the chunk extensions or trailers of the body are too long\n")
_TOO_LATE = closing_response("408 Request Timeout", "the request did not arrive in time\n")


class TimedHttpProtocol(HttpToolsProtocol, LimitedConnection):
    """Adds limits to uvicorn's protocol, which by itself accepts any number of clients and waits for them forever.

    Subclasses that parse the connection maintain `_reading` and the attributes next to it.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limiter: ConnectionLimiter,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limiter = limiter
        self._idle_since = limiter.now
        # Of the request that is being read
        self._reading = False
        self._in_head = False
        self._reading_since = self._heard_at = limiter.now
        self._body_bytes = 0
        self._between = 0
        """Bytes since the last piece of the body."""
        self._unsent_since = limiter.now

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def close_if_expired(self) -> None:
        """Close if the connection is idle, its request is late, or the client does not read the response."""
        now, timeouts = self._limiter.now, self._limiter.timeouts
        if self._abort_if_unread():
            return
        if not self._reading:
            idle = 0.0 if self._owes_answer() else now - self._idle_since
            if idle > timeouts.request:
                self.transport.abort()  # closing already, but the client does not read the response
            elif idle > timeouts.idle:
                self.transport.close()
        elif self._is_read_paused():
            self._reading_since = self._heard_at = now
        elif (
            now - self._heard_at > timeouts.stalled
            or now - self._reading_since > timeouts.request + self._body_bytes / timeouts.min_bytes_per_second
        ):
            self._send_timeout()

    def _owes_answer(self) -> bool:
        """Whether a request that was read has no complete response yet."""
        raise NotImplementedError

    def _is_read_paused(self) -> bool:
        """Whether the server itself holds up the request that is being read."""
        raise NotImplementedError

    def _send_timeout(self) -> None:
        raise NotImplementedError


class LimitedProtocol(TimedHttpProtocol):
    """Also limits the size of request headers, which uvicorn does not."""

    _head_bytes = 0
    _began = False
    """A request began in this read of the socket: earlier bytes in it do not belong to its headers."""

    def on_message_begin(self) -> None:
        self._reading = self._in_head = self._began = True
        self._reading_since = self._heard_at = self._limiter.now
        self._head_bytes = self._body_bytes = self._between = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heard_at = self._limiter.now
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._heard_at = self._limiter.now
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self._limiter.now
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
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.write(_TOO_LONG)
                self.transport.close()
        elif not in_head:
            self._between = self._between + len(data) if self._body_bytes == body_bytes else 0
            if self._between > MAX_NON_BODY_BYTES:
                if not self.cycle.response_started:
                    self.transport.write(_NOT_BODY)
                self.transport.close()

    def _owes_answer(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_read_paused(self) -> bool:
        if self._in_head:
            # A watch, for example, which a pipelined request must not end.
            return self.flow.read_paused or self._owes_answer()
        return self.flow.read_paused or self.cycle.waiting_for_100_continue

    def _send_timeout(self) -> None:
        if self._in_head or not self.cycle.response_started:
            self.transport.write(_TOO_LATE)
        self.transport.close()

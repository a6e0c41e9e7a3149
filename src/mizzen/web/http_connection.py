"""uvicorn's HTTP connections, with limits on the size and the duration of requests, and strict about their framing."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mizzen.web.connection_limits import ConnectionLimiter, closing_response
from mizzen.web.read_turns import PacedProtocol

MAX_HEAD_BYTES = 64 << 10
"""Maximum size of a request's headers, give or take one read of the socket."""
MAX_HEADERS = 256
"""Maximum number of headers of a request."""
MAX_NON_BODY_BYTES = 16 << 10
"""Maximum bytes within a body that are not part of it: chunk extensions, and trailers behind the last chunk. Give or
take one read of the socket."""
MAX_PIPELINED = 8
"""Requests that wait for the response to an earlier one, beyond which the connection is not read."""
LINGER_SECONDS = 1.0
"""After a refusal, so that a client that still writes can read it."""

TINY_PIECES = "the request comes in pieces that are too small"
_TOO_LONG = closing_response("431 Request Header Fields Too Large", "the headers of the request are too long\n")
_NOT_BODY = closing_response("400 Bad Request", "the chunk extensions or trailers of the body are too long\n")
_TOO_SMALL = closing_response("400 Bad Request", f"{TINY_PIECES}\n")
_NOT_HTTP = closing_response("400 Bad Request", "the request is not valid HTTP/1.1\n")
_BAD_CODING = closing_response("501 Not Implemented", "only the transfer coding 'chunked' is supported, in HTTP/1.1\n")
_NO_TUNNEL = closing_response("501 Not Implemented", "CONNECT and upgrades of requests with a body are not supported\n")
_TOO_LATE = closing_response("408 Request Timeout", "the request did not arrive in time\n")


class TimedHttpProtocol(PacedProtocol):
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
        self._reading_since = self._heard_at = limiter.now
        self._between = 0
        """Bytes since the last piece of the body."""
        self._unsent_since = limiter.now
        # Of the response that the client is slow to read
        self._write_paused_at = limiter.now
        self._write_paused_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._write_paused_at = self._limiter.now
        self._write_paused_bytes = self.transport.get_write_buffer_size()
        super().pause_writing()

    def close_if_expired(self) -> None:
        """Close if the connection is idle, its request is late, or the client does not read the response."""
        now, timeouts = self._limiter.now, self._limiter.timeouts
        self.forgive_noise()
        if self._abort_if_unread() or self._abort_if_read_slowly():
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

    def _abort_if_read_slowly(self) -> bool:
        """Abort if the client reads so slowly that its response stays in memory for long."""
        timeouts = self._limiter.timeouts
        most = timeouts.request + self._write_paused_bytes / timeouts.min_bytes_per_second
        if not self.flow.write_paused or self._limiter.now - self._write_paused_at <= most:
            return False
        self.transport.abort()
        return True

    def _owes_answer(self) -> bool:
        """Whether a request that was read has no complete response yet."""
        raise NotImplementedError

    def _is_read_paused(self) -> bool:
        """Whether the server itself holds up the request that is being read."""
        raise NotImplementedError

    def _send_timeout(self) -> None:
        raise NotImplementedError


class LimitedProtocol(TimedHttpProtocol):
    """Also limits the size of request headers and the length of the pipeline, which uvicorn does not."""

    _head_bytes = 0
    _has_coding = _bad_coding = False
    """The request has a Transfer-Encoding; one that is not supported."""
    _refusal = b""
    """The last response, which waits for earlier ones."""

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self._begun += 1
        self._reading = self._in_head = True
        self._reading_since = self._heard_at = self._limiter.now
        self._head_bytes = self._body_bytes = self._between = self._pieces = self._length = 0
        self._has_coding = self._bad_coding = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: it means nothing
        super().on_header(name, value)
        name = self.headers[-1][0]
        if name == b"content-length":
            self._length = int(value)
        elif name == b"transfer-encoding":
            self._has_coding = True
            self._bad_coding = self._bad_coding or value.lower() != b"chunked"

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heard_at = self._limiter.now
        if self._ignores_input:
            return
        refusal = self._head_refusal()
        if refusal:
            self._reading = False
            self._refuse(refusal)
            return
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._reading = False
            self._refuse(_NOT_HTTP)

    def on_body(self, body: bytes) -> None:
        self._heard_at = self._limiter.now
        self._body_bytes += len(body)
        self._pieces += 1
        if not self._ignores_input:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = False
        if not self._ignores_input:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self._limiter.now
        is_last = not self.pipeline
        super().on_response_complete()
        if self._refusal and is_last:
            self._end(self._refusal)
        self.flow.update()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._discard()
        elif not self.transport.is_closing():
            self._take(data)

    # Turns

    def is_full(self) -> bool:
        return not self._ignores_input and (self.flow.write_paused or len(self.pipeline) >= MAX_PIPELINED)

    def _parse_slice(self, data: bytes) -> None:
        in_head, body_bytes = self._in_head, self._body_bytes
        HttpToolsProtocol.data_received(self, data)
        if not self._reading or self._ignores_input:
            return
        if self._in_head:
            if not self._begun:
                self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
                self._refuse(_TOO_LONG)
        elif not in_head and not self._begun:
            self._between = self._between + len(data) if self._body_bytes == body_bytes else 0
            if self._between > MAX_NON_BODY_BYTES:
                self._refuse(_NOT_BODY)

    def _refuse_noise(self) -> None:
        self._refuse(_TOO_SMALL)

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for data that is not HTTP."""
        self._refuse(_NOT_HTTP)

    # Refusals

    def _head_refusal(self) -> bytes:
        """Return the response to a head that cannot be accepted; empty if it can."""
        if self._bad_coding or (self._has_coding and self.parser.get_http_version() != "1.1"):
            return _BAD_CODING
        if self.parser.should_upgrade() and (
            self._length or self._has_coding or self.parser.get_method() == b"CONNECT"
        ):
            return _NO_TUNNEL  # the parser would take the body for the next request
        return _TOO_LONG if len(self.headers) > MAX_HEADERS else b""

    def _refuse(self, response: bytes) -> None:
        """Send the last response of this connection. The request that is being read goes no further."""
        if self._ignores_input:
            return
        self._ignores_input = True
        self._unread = b""
        if self._reading and not self._in_head:
            self._cancel_current(response)
        elif self._owes_answer():
            self._reading, self._refusal = False, response
        else:
            self._end(response)

    def _cancel_current(self, response: bytes) -> None:
        """The rest of the request is not read, so the refusal replaces its response."""
        cycle, self._reading = self.cycle, False
        if self.pipeline:  # it is not its turn yet
            self.pipeline.popleft()  # uvicorn adds at the left
            self._refusal = response
        elif cycle.response_complete:
            self._end(b"")
        elif cycle.response_started:
            self.transport.close()  # the app has already sent a part of its response
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            self._end(response)

    def _end(self, response: bytes) -> None:
        """Close after a delay: an immediate close would reset a client that still writes, and lose the response."""
        if self.transport.is_closing():
            return
        self.transport.write(response)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    # Timeouts

    def _owes_answer(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_read_paused(self) -> bool:
        if self._in_head:
            # A watch, for example, which a pipelined request must not end.
            return self.flow.read_paused or self._owes_answer()
        return self.flow.read_paused or self.cycle.waiting_for_100_continue

    def _send_timeout(self) -> None:
        self._refuse(_TOO_LATE)

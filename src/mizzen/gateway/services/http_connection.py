"""One HTTP/1.1 connection to a service: one request at a time, reused if the service keeps it open.

    idle -- send --> busy -- response --> idle, or closed
                       |
                       +-- lost, or invalid HTTP --> closed

Hazards: a body that ends with the connection is complete only if no header gives its length. A response may come before
the request is fully sent; then the rest of the request would precede the next one. Unsolicited bytes are not part of
the next response. Tiny chunks and interim responses cost far more than their bytes, so both are limited.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol, cast

import httptools

from mizzen.gateway.request.body_budget import append_piece
from mizzen.web.read_turns import MAX_NOISE, TURN_BODY_BYTES, noise_of

HEAD_BYTES = 64 << 10
"""Limit on the head of a response, and on anything else outside its body."""
MAX_INTERIM = 64
"""Interim responses, such as 100 Continue, before the final one."""
_SLICE_BYTES = 16 << 10
_WRITE_BUFFER = 4 << 20

_CHUNKED = b"chunked"
_SWITCHING, _FINAL = 101, 200


class HttpResponse(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    """By lower-case name; repeated headers are joined by commas."""
    body: bytes


class ConnectionListener(Protocol):
    """Receives the result of a request. By then the connection is idle, or about to be closed."""

    def on_response(self, connection: HttpConnection, answer: HttpResponse) -> None: ...

    def on_broken(self, connection: HttpConnection, fault: str, *, begun: bool) -> None:
        """`fault`: what was wrong with the response; empty if the connection was lost during a request. `begun`: a part
        of a response had come."""

    def on_idle_close(self, connection: HttpConnection) -> None:
        """The connection was lost while it was idle."""


class HttpConnection(asyncio.Protocol):
    """`call` and `endpoint` are for the owner of the connection; they are not used here."""

    __slots__ = (
        "_body", "_busy", "_bytes_without_body", "_complete", "_fault", "_framed", "_has_response_bytes", "_head_bytes",
        "_headers", "_in_head", "_interim", "_limit", "_listener", "_must_close", "_noise", "_parser", "_pieces",
        "_size", "_status", "_transport", "call", "endpoint", "idle_since", "used",
    )  # fmt: skip

    def __init__(self, listener: ConnectionListener, endpoint: Any, limit: int) -> None:
        """`limit`: maximum bytes of a body."""
        self.endpoint = endpoint
        self.call: Any = None
        self.used = 0
        """Requests sent over it."""
        self.idle_since = 0.0
        self._listener = listener
        self._limit = limit
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._busy = False
        # The response being parsed
        self._has_response_bytes = self._must_close = self._complete = self._framed = self._in_head = False
        self._fault = ""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = self._bytes_without_body = self._size = self._status = 0
        self._interim = self._pieces = self._noise = 0
        self._body: list[bytes | bytearray] = []

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent after the last response."""
        return self.open and not self._must_close

    def send(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        assert not self._busy
        self.used += 1
        self._busy = True
        self._begin()
        if len(body) > HEAD_BYTES:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + body)

    def close(self) -> None:
        """Closes at once, even during a request; the listener is not called."""
        self._busy = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from asyncio's
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self._on_close()  # unsolicited data
            return
        self._has_response_bytes = True
        fault = ""
        for at in range(0, len(data), _SLICE_BYTES):
            fault = self._parse(data[at : at + _SLICE_BYTES])
            if fault or self._fault or self._complete:
                break
        if self._complete and not self._fault:  # bytes after it may be invalid; then the connection is closed
            self._end(closes=bool(fault) or at + _SLICE_BYTES < len(data))
        elif self._fault or fault:
            self._break(self._fault or fault)
        elif len(data) > TURN_BODY_BYTES:
            self._yield_reading()

    def _parse(self, data: bytes) -> str:
        """Parse a slice; return what is wrong with it."""
        in_head, size, pieces = self._in_head or not self._status, self._size, self._pieces
        self._bytes_without_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return "it switched to another protocol"
        except httptools.HttpParserError as error:
            return f"its answer is not HTTP: {error}"
        payload = self._size - size
        framing = 0 if in_head else len(data) - payload
        self._noise = max(0, self._noise + noise_of(max(1, self._pieces - pieces), payload, framing))
        if self._noise > MAX_NOISE:
            return "its answer comes in pieces that are too small"
        if self._bytes_without_body > HEAD_BYTES:
            return f"its answer has a head of more than {HEAD_BYTES} bytes"
        return ""

    def _yield_reading(self) -> None:
        """Read again in the next turn of the loop: a large answer must not hold up others."""
        if self._transport is not None:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_again)

    def _read_again(self) -> None:
        if self.open:
            assert self._transport is not None
            self._transport.resume_reading()

    def eof_received(self) -> None:
        self._on_close()

    def connection_lost(self, error: Exception | None) -> None:
        self._on_close()

    # httptools' callbacks: none may raise, because httptools would replace the error by its own

    def on_message_begin(self) -> None:
        if self._complete:
            self._must_close = True  # only the first message is the response
            return
        self._headers = {}
        self._status = 0
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._complete:
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            self._fault = f"its answer has a head of more than {HEAD_BYTES} bytes"
        elif self._in_head:  # else it is a trailer
            name = name.lower()
            before = self._headers.get(name)
            self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self._in_head = False
        self._status = self._parser.get_status_code()
        if self._status < _FINAL and self._status != _SWITCHING:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self._fault = f"it sent more than {MAX_INTERIM} interim responses"
            return
        self._bytes_without_body = 0
        # Read here, because the parser resets it at the end of a message.
        self._must_close = not self._parser.should_keep_alive()
        length = self._headers.get(b"content-length")
        coding = self._headers.get(b"transfer-encoding")
        self._framed = length is not None or coding is not None
        if length is not None and int(length) > self._limit:
            self._fault = f"its answer has {int(length)} bytes, more than the limit of {self._limit}"
        elif coding is not None and coding.lower() != _CHUNKED:
            self._fault = "its answer has a Transfer-Encoding other than chunked"

    def on_body(self, data: bytes) -> None:
        if self._complete or self._fault:
            return
        self._bytes_without_body = 0
        self._size += len(data)
        self._pieces += 1
        if self._size > self._limit:
            self._fault = f"its answer has more than the limit of {self._limit} bytes"
            self._body.clear()
        else:
            append_piece(self._body, data)

    def on_message_complete(self) -> None:
        if self._status < _FINAL and self._status != _SWITCHING:
            return  # 1xx: the final response is still to come
        self._complete = True

    def _begin(self) -> None:
        self._has_response_bytes = self._must_close = self._complete = self._framed = self._in_head = False
        self._fault = ""
        self._headers = {}
        self._head_bytes = self._bytes_without_body = self._size = self._status = 0
        self._interim = self._pieces = self._noise = 0
        self._body = []

    def _end(self, *, closes: bool) -> None:
        assert self._transport is not None
        self._busy = False
        body = bytes(self._body[0]) if len(self._body) == 1 else b"".join(self._body)
        answer = HttpResponse(self._status, self._headers, body)
        self._body = []
        if closes or self._transport.get_write_buffer_size():
            self._must_close = True
        self._listener.on_response(self, answer)

    def _break(self, fault: str) -> None:
        begun = self._has_response_bytes
        self.close()
        self._listener.on_broken(self, fault, begun=begun)

    def _on_close(self) -> None:
        """Handles the end of the connection, which also ends a body without a length."""
        if self._transport is None:
            return
        if not self._busy:
            self.close()
            self._listener.on_idle_close(self)
        elif self._status >= _FINAL and not self._in_head and not self._framed:
            self._end(closes=True)
            self.close()
        else:
            self._break("" if self._status < _FINAL else "it closed the connection in the middle of its answer")

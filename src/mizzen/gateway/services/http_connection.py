"""One connection to a service: HTTP/1.1, one request at a time, kept open for the next where that is offered.

    idle -- send --> asked -- answer --> idle, or closed
                       |
                       +-- lost, or no HTTP --> closed

Hazards kept in mind: a body that ends with the connection is whole only if nothing says how long it is; an answer may
come before the request is all sent, and then the rest of it is still in the way of the next; bytes that nobody asked
for are no part of the next answer.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol, cast

import httptools

HEAD_BYTES = 64 << 10
"""Of an answer, and of whatever else it has beside its body."""
_WRITE_BUFFER = 4 << 20

_CHUNKED = b"chunked"
_SWITCHING, _FINAL = 101, 200


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    """By names in small letters; what came several times is a list, by commas."""
    body: bytes


class Owner(Protocol):
    """Who is told what became of a request. The connection is idle by then, or about to be closed."""

    def answered(self, connection: Connection, answer: Answer) -> None: ...

    def broke(self, connection: Connection, fault: str, *, begun: bool) -> None:
        """`fault` says what was wrong with the answer; it is empty where the connection was lost, which is only told
        while something is asked. `begun`: some of an answer had come."""

    def left(self, connection: Connection) -> None:
        """It was lost while nothing was asked."""


class Connection(asyncio.Protocol):
    """What is asked, and of whom, is for its owner to remember: `exchange` and `peer` are not looked at here."""

    __slots__ = (
        "_asked", "_begun", "_body", "_closes", "_complete", "_fault", "_framed", "_head_bytes", "_headers", "_in_head",
        "_limit", "_owner", "_parser", "_quiet", "_size", "_status", "_transport", "exchange", "idle_since", "peer",
        "used",
    )  # fmt: skip

    def __init__(self, owner: Owner, peer: Any, limit: int) -> None:
        """`limit`: most bytes of a body."""
        self.peer = peer
        self.exchange: Any = None
        self.used = 0
        """Requests that were sent by it."""
        self.idle_since = 0.0
        self._owner = owner
        self._limit = limit
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._asked = False
        # The answer that is read
        self._begun = self._closes = self._complete = self._framed = self._in_head = False
        self._fault = ""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = self._quiet = self._size = self._status = 0
        self._body: list[bytes] = []

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """The last answer left it fit for another request."""
        return self.open and not self._closes

    def send(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        assert not self._asked
        self.used += 1
        self._asked = True
        self._begin()
        if len(body) > HEAD_BYTES:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + body)

    def close(self) -> None:
        """Now, whatever is asked: nobody is told of it."""
        self._asked = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from asyncio's
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        if not self._asked:
            self._lost()  # nobody asked for that
            return
        self._begun = True
        self._quiet += len(data)
        fault = ""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            fault = "it would speak something else from now on"
        except httptools.HttpParserError as error:
            fault = f"its answer is no HTTP: {error}"
        if self._complete and not self._fault:  # what follows it may be wrong; then there is no next one
            self._end(closes=bool(fault))
        elif self._fault or fault:
            self._break(self._fault or fault)
        elif self._quiet > HEAD_BYTES:
            self._break(f"its answer has a head of more than {HEAD_BYTES} bytes")

    def eof_received(self) -> None:
        self._lost()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost()

    # httptools' callbacks: none raises, for what it would be told of then is another error

    def on_message_begin(self) -> None:
        if self._complete:
            self._closes = True  # and the first of them was the answer
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
        self._quiet = 0
        self._status = self._parser.get_status_code()
        # Asked here: after the end of a message the parser has forgotten it.
        self._closes = not self._parser.should_keep_alive()
        length = self._headers.get(b"content-length")
        coding = self._headers.get(b"transfer-encoding")
        self._framed = length is not None or coding is not None
        if length is not None and int(length) > self._limit:
            self._fault = f"its answer has {int(length)} bytes, more than the {self._limit} that are taken"
        elif coding is not None and coding.lower() != _CHUNKED:
            self._fault = "its answer has a Transfer-Encoding other than chunked"

    def on_body(self, data: bytes) -> None:
        if self._complete or self._fault:
            return
        self._quiet = 0
        self._size += len(data)
        if self._size > self._limit:
            self._fault = f"its answer has more than the {self._limit} bytes that are taken"
            self._body.clear()
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._status < _FINAL and self._status != _SWITCHING:
            return  # 100 and the like: the answer is still to come
        self._complete = True

    def _begin(self) -> None:
        self._begun = self._closes = self._complete = self._framed = self._in_head = False
        self._fault = ""
        self._headers = {}
        self._head_bytes = self._quiet = self._size = self._status = 0
        self._body = []

    def _end(self, *, closes: bool) -> None:
        assert self._transport is not None
        self._asked = False
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        answer = Answer(self._status, self._headers, body)
        self._body = []
        if closes or self._transport.get_write_buffer_size():
            self._closes = True
        self._owner.answered(self, answer)

    def _break(self, fault: str) -> None:
        begun = self._begun
        self.close()
        self._owner.broke(self, fault, begun=begun)

    def _lost(self) -> None:
        """It ends: with the body, where only that says that it does."""
        if self._transport is None:
            return
        if not self._asked:
            self.close()
            self._owner.left(self)
        elif self._status >= _FINAL and not self._in_head and not self._framed:
            self._end(closes=True)
            self.close()
        else:
            self._break("" if self._status < _FINAL else "it ended in the middle of its answer")

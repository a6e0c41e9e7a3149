"""HTTP for the hot URLs, without ASGI: uvicorn's own protocol, with a shorter way through it.

An infer request whose URL is known byte for byte is answered here by callbacks; all others (other paths, methods, query
strings, escapes) go on to the ASGI app as if this class were not there. Both kinds may follow each other on one
connection: `_line` holds what is unanswered, in the order it was asked, and answers leave in that order.

Checked here for every request, because here all of them pass: Host and Origin, and the length of head and body. Who may
ask is checked here for hot requests, and in `app` for the others.

Clients repeat themselves: a head that was read and judged before, byte for byte the same, means what it meant then,
token and all. So heads of hot requests are remembered (`Service.heads`), and a request that comes in one piece behind a
known head skips the parser and the permits. That is worth a third of all the work done here in Python. They are
forgotten with the Table and the access.json that they were judged by, and none is used after its token has ended.

This leans on parts of uvicorn that are not public. tests/unit/gateway/test_uvicorn_contract.py names them all.

Hazards kept in mind: uvicorn's `shutdown` knows nothing of requests answered here, so it is replaced; its keep-alive
timer costs as much as parsing a request, so a look at all connections once a second does that work; a connection that
is closed while the client still writes is reset, and the answer lost with it, so refusals linger.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mizzen.gateway.exchange import Exchange, Front
from mizzen.gateway.infer import Asked, KnownHead
from mizzen.gateway.permits import ALLOWED, PREDICT, Credentials, Permits, Ruling
from mizzen.gateway.routes import Endpoint

HEAD_BYTES = 64 << 10
"""A request's head may be this long, give or take one read of the socket."""
HEADS, HEAD_TO_KEEP = 512, 2048
"""How many heads are remembered, and how long one may be for that."""
PIPELINED = 32
"""Unanswered requests of one connection, beyond which we read no more until some are answered."""
LINGER_SECONDS = 1.0
STALLED_SECONDS, REQUEST_SECONDS = 60.0, 300.0
"""How long a head may take and a body may pause, and how long a whole request may take to come in."""

_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

log = logging.getLogger(__name__)


class FastProtocol(HttpToolsProtocol):
    """One client connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        front: Front,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._front = front
        self._service = front.service
        self._heads = front.service.heads
        self._line: deque[Exchange | tuple[RequestResponseCycle, ASGI3Application]] = deque()
        self._idle_since = front.now
        self._stopping = False
        self._deaf = False
        """The last request of this connection has been read: whatever follows is not looked at."""
        self._cut_short = False
        """That last request was refused before its end: the client may still be writing it."""
        # The request that is being read
        self._reading = False
        self._reading_since = self._heard_at = front.now
        self._begun = 0
        """Requests that began in the data at hand."""
        self._in_head = False
        self._head_bytes = 0
        self._hosts: list[bytes] = []
        self._origins: list[bytes] = []
        self._credentials: Credentials = ()
        self._welcome = False
        """It comes from where requests may come from."""
        self._ruling: Ruling | None = None
        self._ruled_by: Permits | None = None
        self._length = 0
        self._timeout_ms: bytes | None = None
        self._has_connection = False
        self._endpoint: Endpoint | None = None
        self._fast = False
        self._closes = False
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._left = 0
        """Bytes still to come of a body that the parser does not read."""
        self._owes_continue = False

    # What the server asks

    def close_if_over_time(self, idle_since: float) -> None:
        """Nothing has been asked since then nor is being asked, or what is being asked does not come to its end."""
        now = self._front.now
        if not self._reading:
            if not self._line and self._idle_since < idle_since:
                self.transport.close()
        elif self.flow.read_paused or self._owes_continue:
            self._reading_since = self._heard_at = now  # it is we who hold it up
        elif now - self._heard_at > STALLED_SECONDS or now - self._reading_since > REQUEST_SECONDS:
            self._refuse_and_close(408, "the request took too long to come in")

    def shutdown(self) -> None:
        """Answer what has been asked, then close."""
        self._stopping = True
        if not self._line:
            self._close_if_done()
        elif not self._reading and not isinstance(self._line[-1], Exchange):
            self._line[-1][0].keep_alive = False

    # asyncio.Protocol

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        for entry in self._line:
            if isinstance(entry, Exchange):
                entry.cancel(self._service.clock())
            else:
                entry[0].disconnected = True
                entry[0].message_event.set()
        self._line.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if not self._reading:
            end = data.find(_END) + 4
            known = self._heads.get(data[:end])
            if known is not None:
                endpoint, length, timeout_ms, until = known
                if until is not None and self._service.wall() >= until:
                    del self._heads[data[:end]]
                elif len(data) == end + length:
                    self._begin(endpoint, data[end:], timeout_ms, closes=False)
                    return
        while data and not self._deaf:
            data = self._parse(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()  # who does not read answers may not ask more

    def resume_writing(self) -> None:
        super().resume_writing()
        if len(self._line) <= PIPELINED:
            self.flow.resume_reading()

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._reading = self._in_head = True
        self._reading_since = self._heard_at = self._front.now
        self._begun += 1
        self._head_bytes = 0
        self._hosts = []
        self._origins = []
        self._credentials = ()
        self._ruling = None
        self._has_connection = False
        self._length = 0
        self._timeout_ms = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer
        name = name.lower()
        self.headers.append((name, value))
        if name == b"host":
            self._hosts.append(value)
        elif name == b"content-length":
            self._length = int(value)
        elif name == b"authorization":
            self._credentials += (value,)
        elif name == b"origin":
            self._origins.append(value)
        elif name == b"connection":
            self._has_connection = True
        elif name == b"mizzen-timeout-ms":
            self._timeout_ms = value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._deaf:
            return
        service = self._service
        self._endpoint = service.routes.hot.get(self.url) if self.parser.get_method() == b"POST" else None
        self._welcome = self._front.verdicts.good(self._hosts, self._origins)
        too_long = self._length > service.max_body_bytes
        if self._endpoint is None and self._welcome and not too_long:
            self._fast = False
            self._pass_on()
            return
        self._fast = True
        self._closes = not self.parser.should_keep_alive() or (
            # uvicorn closes after HTTP/1.0, whatever was asked, and so do we; to know the version costs a little
            self._has_connection and self.parser.get_http_version() == "1.0"
        )
        self._body = []
        self._body_bytes = 0
        if self._welcome and self._endpoint is not None:
            # Already here: what somebody sends who may not, is not kept.
            self._rule(self._endpoint)
        if too_long:
            self._refuse_and_close(413, f"the body is larger than {service.max_body_bytes} bytes")
        elif self.expect_100_continue and self._ruling is not None and self._ruling.code != ALLOWED:
            self._refuse_and_close(*self._ruled(self._ruling))
        elif self.expect_100_continue:
            self._owes_continue = True
            self._continue_if_due()

    def on_body(self, body: bytes) -> None:
        if self._deaf:
            return
        self._heard_at = self._front.now
        if not self._fast:
            super().on_body(body)
            return
        if self._ruling is not None and self._ruling.code == ALLOWED:
            self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._service.max_body_bytes:
            self._refuse_and_close(413, f"the body is larger than {self._service.max_body_bytes} bytes")

    def on_message_complete(self) -> None:
        if self._deaf:
            return
        if self._has_connection and self._length and self.parser.should_upgrade():
            # The parser leaves what follows an upgrade to others. We take no upgrade: it is the body.
            self._left = self._length
        else:
            self._whole()

    def _whole(self) -> None:
        """A request has been read to its end."""
        self._reading = False
        if not self._fast:
            self._deaf = not self.cycle.keep_alive
            super().on_message_complete()
            if not self._line:
                self._close_if_done()  # it was answered before it was read
            return
        self._owes_continue = False
        self._deaf = self._closes
        if self._endpoint is None or self._ruling is None:
            reason = self._front.verdicts.reason
            self._service.note_foreign(self._asked(), reason)
            self._refuse(403, reason)
            return
        if self._ruling.code == ALLOWED:
            # A new Table, or other rights, may have come while the body did; or the token has ended.
            endpoint = self._service.routes.hot.get(self.url, self._endpoint)
            changed = endpoint is not self._endpoint or self._service.permits is not self._ruled_by
            self._endpoint = endpoint
            if changed or self._ruling.until is not None:
                self._rule(endpoint)
        if self._ruling.code != ALLOWED:
            self._refuse(*self._ruled(self._ruling))
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._begin(self._endpoint, body, self._timeout_ms, self._closes)

    # Reading

    def _parse(self, data: bytes) -> bytes:
        """Returns what it did not look at."""
        if self._left:
            return self._take_rest(data)
        fresh = not self._reading
        self._begun = 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError:
            log.exception("failed while reading a request")
            self._refuse_and_close(500, "internal error")
        except httptools.HttpParserError as error:
            self._refuse_and_close(400, f"this is not HTTP: {error}")
        else:
            if self._in_head:
                if not self._begun:  # data that it began in may be other requests for the most part
                    self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self._refuse_and_close(431, f"the head of the request is longer than {HEAD_BYTES} bytes")
            elif fresh and self._begun == 1 and not self._reading and not self._deaf:
                self._remember_head(data)
        return b""

    def _take_rest(self, data: bytes) -> bytes:
        """More of a body that the parser does not read."""
        body, rest = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.on_body(body)
        if not self._left:
            self._whole()
        return rest

    def _remember_head(self, data: bytes) -> None:
        """`data` was one whole request."""
        end = data.find(_END) + 4
        ruling = self._ruling if self._fast and not self.expect_100_continue else None
        if ruling is None or ruling.code != ALLOWED or self._endpoint is None:
            return
        # The length tells a body of a known size from one in chunks, and from an odd start of the data.
        if end + self._length == len(data) and 4 < end <= HEAD_TO_KEEP:
            heads = self._heads
            if len(heads) >= HEADS:
                heads.clear()
            heads[data[:end]] = KnownHead(self._endpoint, self._length, self._timeout_ms, ruling.until)

    def _rule(self, endpoint: Endpoint) -> None:
        self._ruled_by = self._service.permits
        self._ruling = self._ruled_by.rule(self._credentials, PREDICT, endpoint.target)

    def _asked(self) -> Asked:
        path = self.url.partition(b"?")[0].decode("latin-1")
        return Asked(self.parser.get_method().decode("latin-1"), path, self._credentials)

    def _ruled(self, ruling: Ruling) -> tuple[int, str]:
        """The code and the words to refuse with, written down for the audit."""
        self._service.note(self._asked(), ruling)
        return ruling.code, ruling.reason

    def _refuse(self, code: int, text: str) -> None:
        exchange = Exchange(self, self._closes)
        self._line.append(exchange)
        exchange.refuse(code, text, self._service)

    def _begin(self, endpoint: Endpoint, body: bytes, timeout_ms: bytes | None, closes: bool) -> None:
        exchange = Exchange(self, closes)
        self._line.append(exchange)
        exchange.start(self._service, endpoint, body, timeout_ms)
        if len(self._line) > PIPELINED:
            self.flow.pause_reading()

    # The line

    def advance(self) -> None:
        """Write the answers that are due, in order; then whoever is next has its turn."""
        line = self._line
        while line:
            entry = line[0]
            if not isinstance(entry, Exchange) or not entry.code:
                return
            line.popleft()
            last = entry.closes or (self._stopping and not line and not self._reading)
            self.transport.write(entry.rendered(self._front.date, last))
            if last:
                self._end()
                return
            self._next_turn()

    def on_response_complete(self) -> None:
        """An ASGI request has been answered. In place of uvicorn's: the line knows what comes next."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._line.popleft()
        self._next_turn()
        self.advance()

    def _next_turn(self) -> None:
        line = self._line
        if not line:
            self._idle_since = self._front.now
            if self._owes_continue:
                self._continue_if_due()
            if self._stopping:
                self._close_if_done()
        elif not isinstance(line[0], Exchange):
            super()._start_asgi_task(*line[0])
        if self.flow.read_paused and not self.flow.write_paused and len(line) <= PIPELINED:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """uvicorn wants to run a request: it may once everything before it is answered."""
        self._line.append((cycle, app))
        if len(self._line) == 1:
            super()._start_asgi_task(cycle, app)
        elif len(self._line) > PIPELINED:
            self.flow.pause_reading()

    def _pass_on(self) -> None:
        """Give uvicorn the head that it would have gathered itself."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url = url
        self.headers.extend(headers)
        self.expect_100_continue = expects
        # With a cycle before it, uvicorn would queue this one by itself, and it knows only half of the line.
        self.cycle = None  # type: ignore[assignment]
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._fast = True
            self._refuse_and_close(400, "the URL cannot be read")

    def _continue_if_due(self) -> None:
        """A client that waits for its 100 gets it when nothing before it is unanswered."""
        if self._owes_continue and not self._line:
            self._owes_continue = False
            self.transport.write(_CONTINUE)

    # The end

    def _refuse_and_close(self, code: int, text: str) -> None:
        """The last answer of this connection, to a request that is not read to its end."""
        self._deaf = self._cut_short = True
        if self._reading and not self._in_head and not self._fast:
            self.transport.close()  # the app has begun with this request; there is nothing to answer in its place
            return
        self._reading = False
        exchange = Exchange(self, closes=True)
        self._line.append(exchange)
        exchange.refuse(code, text, self._service)

    def _end(self) -> None:
        if not self._cut_short:
            self.transport.close()
            return
        # Closed at once, the kernel would reset the connection, since the client still writes, and void our answer.
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _close_if_done(self) -> None:
        if self._stopping and not self._reading:
            self.transport.close()

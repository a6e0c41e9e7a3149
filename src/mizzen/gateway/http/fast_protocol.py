"""HTTP for the hot URLs, without ASGI: uvicorn's own protocol, with a shorter way through it.

An infer request whose URL is known byte for byte is answered here by callbacks; all others (other paths, methods, query
strings, escapes) go on to the ASGI app as if this class were not there. Both kinds may follow each other on one
connection: `line` keeps the order of what they are answered.

Checked here for every request, because here all of them pass: Host and Origin, and the length of head and body. Who may
ask is checked here for hot requests, and in `app` for the others.

Clients repeat themselves: a head that was read and judged before, byte for byte the same, means what it meant then,
token and all. So heads of hot requests are remembered (`Service.heads`), and a request that comes in one piece behind a
known head skips the parser and the permits. That is worth a third of all the work done here in Python. They are
forgotten with the Table and the access.json that they were judged by, and none is used after its token has ended.

This and `line` lean on parts of uvicorn that are not public; tests/unit/gateway/test_uvicorn_contract.py names them.

Hazard kept in mind: uvicorn's keep-alive timer costs as much as parsing a request, so a look at all connections once a
second does that work.
"""

from __future__ import annotations

import logging
from typing import Any

import httptools

from mizzen.gateway.access.authorizer import ALLOWED, PREDICT, Credentials, Permits, Ruling
from mizzen.gateway.http.exchange import Front
from mizzen.gateway.http.response_order import LineProtocol
from mizzen.gateway.inference.calls import UNAVAILABLE
from mizzen.gateway.inference.inference import Asked, KnownHead
from mizzen.gateway.inference.protocols import PLAIN, TIMEOUT, Options
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.body_budget import CROWDED, Share, keep
from mizzen.gateway.route_table import Endpoint
from mizzen.protocol import binary
from mizzen.web.http_connection import BETWEEN_BYTES, HEAD_BYTES

HEADS, HEAD_TO_KEEP = 512, 2048
"""How many heads are remembered, and how long one may be for that."""

_END = b"\r\n\r\n"
_CODED = "header Transfer-Encoding: only chunked is taken; what a body is packed with is said by Content-Encoding"

log = logging.getLogger(__name__)


class FastProtocol(LineProtocol):
    """One client connection: reads what is asked."""

    def __init__(self, *uvicorns: Any, front: Front, **named: Any) -> None:
        super().__init__(*uvicorns, front=front, **named)
        self._heads = front.service.heads
        # The request that is being read
        self._begun = 0
        """Requests that began in the data at hand."""
        self._head_bytes = 0
        self._hosts: list[bytes] = []
        self._origins: list[bytes] = []
        self._credentials: Credentials = ()
        self._welcome = False
        """It comes from where requests may come from."""
        self._ruling: Ruling | None = None
        self._ruled_by: Permits | None = None
        self._length = 0
        self._options = PLAIN
        self._marks: list[tuple[bytes, bytes]] = []
        self._has_connection = False
        self._packed = False
        """Its body has to be unpacked first, which is left to the app."""
        self._coded = False
        """On its way it is packed, too, which we do not unpack."""
        self._endpoint: Endpoint | None = None
        self._closes = False
        self._body: list[bytes | bytearray] = []
        self._share = Share(front.service.intake)
        self._left = 0
        """Bytes still to come of a body that the parser does not read."""

    # asyncio.Protocol

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if not self._reading:
            end = data.find(_END) + 4
            known = self._heads.get(data[:end])
            if known is not None:
                endpoint, length, options, until = known
                if until is not None and self._service.wall() >= until:
                    del self._heads[data[:end]]
                elif len(data) == end + length:
                    self._begin(endpoint, data[end:], options, closes=False)
                    return
        while data and not self._deaf:
            data = self._parse(data)
        if self._body and not self._share.grow(self._body_bytes):  # and there will be more of it
            self._refuse_and_close(UNAVAILABLE, CROWDED)

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._reading = self._in_head = True
        self._reading_since = self._heard_at = self._front.now
        self._begun += 1
        self._head_bytes = self._body_bytes = self._between = 0
        self._hosts = []
        self._origins = []
        self._credentials = ()
        self._ruling = None
        self._has_connection = self._packed = self._coded = False
        self._length = 0
        self._options = PLAIN
        self._marks = []

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
        elif name in (TIMEOUT, binary.HEADER):
            self._options = self._options.heard(name, value)
        elif name == b"content-encoding":
            self._packed = True
        elif name == b"transfer-encoding":
            self._coded = self._coded or value.lower() != b"chunked"
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name in request_ids.NAMES:
            self._marks.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._deaf:
            return
        if self._coded:
            self._fast = True
            self._refuse_and_close(501, _CODED)
            return
        service = self._service
        self._endpoint = (
            service.routes.hot.get(self.url) if self.parser.get_method() == b"POST" and not self._packed else None
        )
        if heard := service.routes.heard:
            self._options = self._options._replace(heads=tuple(head for head in self.headers if head[0] in heard))
        self._welcome = self._front.verdicts.good(self._hosts, self._origins)
        if self._origins:
            self._options = self._options._replace(more=service.cors.lines(self._origins))
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
        self._body_bytes += len(body)
        if not self._fast:
            super().on_body(body)
            return
        if self._ruling is not None and self._ruling.code == ALLOWED:
            keep(self._body, body)
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
        parts = self._body
        self._drop_body()
        if self._endpoint is None or self._ruling is None:
            if len(self._hosts) != 1:
                self._refuse(400, "there must be one header Host", self._closes, self._seen())
                return
            reason = self._front.verdicts.reason
            self._service.note_foreign(self._asked(), reason)
            self._refuse(403, reason, self._closes, self._seen())
            return
        if self._ruling.code == ALLOWED:
            # A new Table, or other rights, may have come while the body did; or the token has ended.
            endpoint = self._service.routes.hot.get(self.url, self._endpoint)
            changed = endpoint is not self._endpoint or self._service.permits is not self._ruled_by
            self._endpoint = endpoint
            if changed or self._ruling.until is not None:
                self._rule(endpoint)
        if self._ruling.code != ALLOWED:
            self._refuse(*self._ruled(self._ruling), self._closes, self._seen())
            return
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        self._begin(self._endpoint, body, self._options, self._closes)

    # Reading

    def _parse(self, data: bytes) -> bytes:
        """Returns what it did not look at."""
        if self._left:
            return self._take_rest(data)
        fresh = not self._reading
        in_head, body_bytes = self._in_head, self._body_bytes
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
            elif self._reading and not self._begun and not in_head:
                self._between = self._between + len(data) if self._body_bytes == body_bytes else 0
                if self._between > BETWEEN_BYTES:
                    self._refuse_and_close(400, f"{BETWEEN_BYTES} bytes of a body in chunks were no part of it")
        return b""

    def _take_rest(self, data: bytes) -> bytes:
        """More of a body that the parser does not read."""
        body, rest = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.on_body(body)
        if not self._left:
            self._whole()
        return rest

    def _drop_body(self) -> None:
        self._body = []
        self._share.end()

    def _remember_head(self, data: bytes) -> None:
        """`data` was one whole request."""
        end = data.find(_END) + 4
        ruling = self._ruling if self._fast and not self.expect_100_continue else None
        if ruling is None or ruling.code != ALLOWED or self._endpoint is None or self._marks:
            return  # one that is marked never comes again, and would push out those that do
        # The length tells a body of a known size from one in chunks, and from an odd start of the data.
        if end + self._length == len(data) and 4 < end <= HEAD_TO_KEEP:
            heads = self._heads
            if len(heads) >= HEADS:
                heads.clear()
            heads[data[:end]] = KnownHead(self._endpoint, self._length, self._options, ruling.until)

    # Of the time it takes

    def _owes_answer(self) -> bool:
        return bool(self._line)

    def _holds_up(self) -> bool:
        return self.flow.read_paused or self._owes_continue

    def _refuse_late(self) -> None:
        self._refuse_and_close(408, "the request took too long to come in")

    def _refuse_and_close(self, code: int, text: str) -> None:
        self._drop_body()
        super()._refuse_and_close(code, text)

    # Who asks

    def _rule(self, endpoint: Endpoint) -> None:
        self._ruled_by = self._service.permits
        self._ruling = self._ruled_by.rule(self._credentials, PREDICT, endpoint.target)
        self._options = self._seen()

    def _seen(self) -> Options:
        id_, trace = request_ids.read(self._marks)
        return self._options._replace(
            id=id_,
            trace=trace,
            # Of a head that is not whole, the parser may tell that of the one before.
            method="" if self._in_head else self.parser.get_method().decode("latin-1"),
            path=self.url.partition(b"?")[0],
            actor=self._ruling.actor if self._ruling is not None else "",
            allowance=self._ruling.allowance if self._ruling is not None else None,
        )

    def _asked(self) -> Asked:
        path = self.url.partition(b"?")[0].decode("latin-1")
        return Asked(self.parser.get_method().decode("latin-1"), path, self._credentials)

    def _ruled(self, ruling: Ruling) -> tuple[int, str]:
        """The code and the words to refuse with, written down for the audit."""
        self._service.note(self._asked(), ruling)
        return ruling.code, ruling.reason

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

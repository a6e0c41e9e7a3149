"""HTTP for the hot URLs, without ASGI: uvicorn's protocol class with a fast path.

An infer request whose URL is known byte for byte is answered here by callbacks. All others (other paths, methods, query
strings, escapes) go to the ASGI app as if this class did not exist. Both kinds may alternate on one connection;
`response_order` keeps the order of the responses.

All requests pass through here, so this class checks Host and Origin, and the length of head and body. It authorizes hot
requests; `asgi_app` authorizes the others.

Clients repeat themselves: a head that is byte for byte the same as an earlier one has the same meaning, token included.
So heads of hot requests are remembered (`GatewayContext.heads`), and a request that arrives in one piece with a known
head skips the parser and authorization. That saves a third of all work done here in Python. Known heads are dropped
when the Table or access.json changes, and none is used after its token has expired.

This module and `response_order` use private parts of uvicorn, which
tests/unit/gateway/http/test_uvicorn_contract.py lists.

Hazard kept in mind: uvicorn's keep-alive timer costs as much as parsing a request. A check of all connections once a
second replaces it.
"""

from __future__ import annotations

import logging
from typing import Any

import httptools

from mizzen.gateway.access.authorizer import ALLOWED, PREDICT, Authorizer, Credentials, RequestDecision
from mizzen.gateway.context import AuthRequest, KnownHead
from mizzen.gateway.http.exchange import GatewayConnections
from mizzen.gateway.http.response_order import PipelinedProtocol
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.queueing.call import UNAVAILABLE
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.body_budget import OVER_BUDGET, BodyReservation, append_piece
from mizzen.gateway.request.head import EMPTY_HEAD, TIMEOUT, RequestHead
from mizzen.protocol import binary
from mizzen.web.http_connection import MAX_HEAD_BYTES, MAX_HEADERS, MAX_NON_BODY_BYTES, TINY_PIECES

MAX_KNOWN_HEADS, MAX_KNOWN_HEAD_BYTES = 512, 2048
"""How many heads are remembered, and the maximum length of one."""

_END = b"\r\n\r\n"
_BAD_TRANSFER_ENCODING = (
    "header Transfer-Encoding: only chunked is supported; use Content-Encoding for a compressed body"
)

log = logging.getLogger(__name__)


class FastProtocol(PipelinedProtocol):
    """One client connection: reads requests."""

    def __init__(self, *uvicorns: Any, front: GatewayConnections, **named: Any) -> None:
        super().__init__(*uvicorns, front=front, **named)
        self._heads = front.service.heads
        # The request that is being read
        self._head_bytes = 0
        self._hosts: list[bytes] = []
        self._origins: list[bytes] = []
        self._credentials: Credentials = ()
        self._welcome = False
        """Its Host and Origin are accepted."""
        self._decision: RequestDecision | None = None
        self._ruled_by: Authorizer | None = None
        self._head = EMPTY_HEAD
        self._marks: list[tuple[bytes, bytes]] = []
        self._has_connection = False
        self._packed = False
        """Its body is compressed, so the ASGI app handles it."""
        self._has_coding = self._bad_coding = False
        """It has a transfer coding; one other than chunked, which is not supported."""
        self._endpoint: Endpoint | None = None
        self._closes = False
        self._body: list[bytes | bytearray] = []
        self._share = BodyReservation(front.service.intake)
        self._left = 0
        """Bytes still missing of a body that the parser does not read."""

    # asyncio.Protocol

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._discard()
            return
        if not self._reading and not self._unread:
            end = data.find(_END) + 4
            known = self._heads.get(data[:end])
            if known is not None:
                endpoint, length, head, until = known
                if until is not None and self._service.wall() >= until:
                    del self._heads[data[:end]]
                elif len(data) == end + length:
                    self._begin(endpoint, data[end:], head, closes=False)
                    return
        self._take(data)

    def _take(self, data: bytes) -> None:
        is_fresh = not self._reading and not self._unread
        super()._take(data)
        if is_fresh and self._turn_begun == 1 and not (self._reading or self._unread or self._ignores_input):
            self._remember_head(data)
        if self._body and not self._share.grow(self._body_bytes):  # and more of it will come
            self._refuse_and_close(UNAVAILABLE, OVER_BUDGET)

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._reading = self._in_head = True
        self._reading_since = self._heard_at = self._shared.now
        self._begun += 1
        self._head_bytes = self._body_bytes = self._between = self._pieces = 0
        self._hosts = []
        self._origins = []
        self._credentials = ()
        self._decision = None
        self._has_connection = self._packed = self._has_coding = self._bad_coding = False
        self._length = 0
        self._head = EMPTY_HEAD
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
            self._head = self._head.with_header(name, value)
        elif name == b"content-encoding":
            self._packed = True
        elif name == b"transfer-encoding":
            self._has_coding = True
            self._bad_coding = self._bad_coding or value.lower() != b"chunked"
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name in request_ids.NAMES:
            self._marks.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._ignores_input:
            return
        if self._bad_coding or (self._has_coding and self._has_bad_framing()):
            self._is_fast = True
            self._refuse_and_close(501, _BAD_TRANSFER_ENCODING)
            return
        if len(self.headers) > MAX_HEADERS:
            self._is_fast = True
            self._refuse_and_close(431, f"the request has more than {MAX_HEADERS} headers")
            return
        service, method = self._service, self.parser.get_method()
        self._endpoint = service.routes.hot.get(self.url) if method == b"POST" and not self._packed else None
        if heard := service.routes.graph_headers:
            self._head = self._head._replace(graph_headers=tuple(head for head in self.headers if head[0] in heard))
        self._welcome = self._shared.origin_check.accepts(self._hosts, self._origins)
        if self._origins:
            self._head = self._head._replace(response_headers=service.cors.lines(self._origins))
        too_long = self._length > service.max_body_bytes
        if self._endpoint is None and self._welcome and not too_long:
            if method == b"CONNECT":
                self._is_fast = True
                self._refuse_and_close(501, "CONNECT is not supported")
                return
            self._is_fast = False
            self._pass_on()
            return
        self._is_fast = True
        self._closes = not self.parser.should_keep_alive() or (
            # uvicorn always closes after HTTP/1.0, and so do we; reading the version costs a little
            self._has_connection and self.parser.get_http_version() == "1.0"
        )
        if self._welcome and self._endpoint is not None:
            # Already here, so that the body of an unauthorized request is not kept.
            self._rule(self._endpoint)
        if too_long:
            self._refuse_and_close(413, f"the body is larger than {service.max_body_bytes} bytes")
        elif self.expect_100_continue and self._decision is not None and self._decision.code != ALLOWED:
            self._refuse_and_close(*self._refusal(self._decision))
        elif self.expect_100_continue:
            self._owes_continue = True
            self._continue_if_due()

    def on_body(self, body: bytes) -> None:
        if self._ignores_input:
            return
        self._heard_at = self._shared.now
        self._body_bytes += len(body)
        self._pieces += 1
        if not self._is_fast:
            super().on_body(body)
            return
        if self._decision is not None and self._decision.code == ALLOWED:
            append_piece(self._body, body)
        if self._body_bytes > self._service.max_body_bytes:
            self._refuse_and_close(413, f"the body is larger than {self._service.max_body_bytes} bytes")

    def on_message_complete(self) -> None:
        if self._ignores_input:
            return
        if self._has_connection and self._length and self.parser.should_upgrade():
            # The parser does not read what follows an upgrade. Upgrades are not supported: it is the body.
            self._left = self._length
        else:
            self._whole()

    def _whole(self) -> None:
        """A request has been read completely."""
        self._reading = False
        if not self._is_fast:
            self._ignores_input = not self.cycle.keep_alive
            super().on_message_complete()
            if not self._pipeline:
                self._close_if_done()  # it was answered before it was read completely
            return
        self._owes_continue = False
        self._ignores_input = self._closes
        parts = self._body
        self._drop_body()
        if self._endpoint is None or self._decision is None:
            if len(self._hosts) != 1:
                self._refuse(400, "exactly one Host header is required", self._closes, self._partial_head())
                return
            reason = self._shared.origin_check.reason
            self._service.note_foreign(self._auth_request(), reason)
            self._refuse(403, reason, self._closes, self._partial_head())
            return
        if self._decision.code == ALLOWED:
            # The Table or the access rights may have changed while the body arrived, or the token has expired.
            endpoint = self._service.routes.hot.get(self.url, self._endpoint)
            changed = endpoint is not self._endpoint or self._service.permits is not self._ruled_by
            self._endpoint = endpoint
            if changed or self._decision.until is not None:
                self._rule(endpoint)
        if self._decision.code != ALLOWED:
            self._refuse(*self._refusal(self._decision), self._closes, self._partial_head())
            return
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        self._begin(self._endpoint, body, self._head, self._closes)

    # Reading

    def _parse_slice(self, data: bytes) -> None:
        while data and not self._ignores_input:
            data = self._parse(data)

    def _count_rest(self) -> int:
        return self._left or super()._count_rest()

    def _parse(self, data: bytes) -> bytes:
        """Parse data, and return the part that was not parsed."""
        if self._left:
            return self._take_rest(data)
        in_head, body_bytes = self._in_head, self._body_bytes
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
            self._check_size(data, in_head, body_bytes)
        return b""

    def _check_size(self, data: bytes, in_head: bool, body_bytes: int) -> None:
        """Refuse a head that is too long, or too much between the chunks of a body."""
        if self._in_head:
            if not self._begun:  # the slice in which it began may mostly belong to earlier requests
                self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_and_close(431, f"the head of the request is longer than {MAX_HEAD_BYTES} bytes")
            elif len(self.headers) > MAX_HEADERS:
                self._refuse_and_close(431, f"the request has more than {MAX_HEADERS} headers")
        elif self._reading and not self._begun and not in_head:
            self._between = self._between + len(data) if self._body_bytes == body_bytes else 0
            if self._between > MAX_NON_BODY_BYTES:
                self._refuse_and_close(
                    400, f"a chunked body may have at most {MAX_NON_BODY_BYTES} bytes between chunks"
                )

    def _has_bad_framing(self) -> bool:
        """Whether its transfer coding is not that of an HTTP/1.1 request, whose body the parser reads."""
        return self.parser.get_http_version() != "1.1" or self.parser.should_upgrade()

    def _take_rest(self, data: bytes) -> bytes:
        """Take more of a body that the parser does not read."""
        body, rest = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.on_body(body)
        if not self._left:
            self._whole()
        return rest

    def _refuse_noise(self) -> None:
        self._refuse_and_close(400, TINY_PIECES)

    def _drop_body(self) -> None:
        self._body = []
        self._share.end()

    def _remember_head(self, data: bytes) -> None:
        """Remember the head of `data`, which was one whole request."""
        end = data.find(_END) + 4
        decision = self._decision if self._is_fast and not self.expect_100_continue else None
        if decision is None or decision.code != ALLOWED or self._endpoint is None or self._marks:
            return  # a head with request ids never repeats, and would evict heads that do
        # The length check excludes chunked bodies, and data that starts with stray bytes.
        if end + self._length == len(data) and 4 < end <= MAX_KNOWN_HEAD_BYTES:
            heads = self._heads
            if len(heads) >= MAX_KNOWN_HEADS:
                heads.clear()
            heads[data[:end]] = KnownHead(self._endpoint, self._length, self._head, decision.until)

    # Timeouts

    def _owes_answer(self) -> bool:
        return bool(self._pipeline)

    def _is_read_paused(self) -> bool:
        return self.flow.read_paused or self._owes_continue

    def _send_timeout(self) -> None:
        self._refuse_and_close(408, "the request took too long to arrive")

    def _refuse_and_close(self, code: int, text: str) -> None:
        self._drop_body()
        super()._refuse_and_close(code, text)

    # Authorization

    def _rule(self, endpoint: Endpoint) -> None:
        self._ruled_by = self._service.permits
        self._decision = self._ruled_by.authorize(self._credentials, PREDICT, endpoint.target)
        self._head = self._partial_head()

    def _partial_head(self) -> RequestHead:
        id_, trace = request_ids.read(self._marks)
        return self._head._replace(
            id=id_,
            trace=trace,
            # While the head is incomplete, the parser may still return the method of the previous request.
            method="" if self._in_head else self.parser.get_method().decode("latin-1"),
            path=self.url.partition(b"?")[0],
            actor=self._decision.actor if self._decision is not None else "",
            rate_limit=self._decision.rate_limit if self._decision is not None else None,
        )

    def _auth_request(self) -> AuthRequest:
        path = self.url.partition(b"?")[0].decode("latin-1")
        return AuthRequest(self.parser.get_method().decode("latin-1"), path, self._credentials)

    def _refusal(self, decision: RequestDecision) -> tuple[int, str]:
        """The status code and message of a refusal, which is written to the audit."""
        self._service.note_refusal(self._auth_request(), decision)
        return decision.code, decision.reason

    def _pass_on(self) -> None:
        """Pass the head to uvicorn as if uvicorn had read it."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url = url
        self.headers.extend(headers)
        self.expect_100_continue = expects
        # With a previous cycle, uvicorn would queue this request itself, but it knows only a part of the pipeline.
        self.cycle = None  # type: ignore[assignment]
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
            self._is_fast = True
            self._refuse_and_close(400, "the URL cannot be read")

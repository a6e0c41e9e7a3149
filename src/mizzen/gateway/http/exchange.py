"""A request answered without ASGI, and the state that all connections of a gateway share."""

from __future__ import annotations

from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from mizzen.gateway.context import GatewayContext
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import JSON, RETRY
from mizzen.gateway.inference.sampled import AuditedInference
from mizzen.gateway.queueing.call import UNAVAILABLE
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.request.origin_check import OriginCheck
from mizzen.protocol import v2
from mizzen.web.connection_limits import ConnectionLimiter, Timeouts

_CLOSE = b"connection: close\r\n"
_BY_CODE = {401: b'www-authenticate: Bearer realm="mizzen"\r\n'}
_STATUS = {code: line + _BY_CODE.get(code, b"") for code, line in STATUS_LINE.items()}


class PipelinedConnection(Protocol):
    def advance(self) -> None:
        """An exchange has its answer: write the answers that are due."""


class GatewayConnections(ConnectionLimiter):
    """The state that all connections of one gateway process share."""

    __slots__ = ("date", "origin_check", "service")

    def __init__(
        self, service: GatewayContext, *, loopback: bool, patience: Timeouts, most: int, tls: bool = False
    ) -> None:
        super().__init__(patience, most, service.clock)
        self.service = service
        self.origin_check = OriginCheck(loopback, service.cors, tls=tls)
        self.date = b""
        """The Date header line."""

    def close_expired(self, state: ServerState) -> None:
        self.date = b"".join(b"%b: %b\r\n" % header for header in state.default_headers)
        super().close_expired(state)


class Exchange(Inference):
    """A request answered without ASGI, with its place in the pipeline of its connection."""

    __slots__ = ("_body", "_connection", "_kind", "closes", "code")

    def __init__(self, connection: PipelinedConnection, closes: bool) -> None:
        self._connection = connection
        self.code = 0
        """The status code; 0: not answered yet."""
        self.closes = closes

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        self.code = code
        self._body = body
        self._kind = kind
        self._connection.advance()

    def refuse(self, code: int, text: str, service: GatewayContext, head: RequestHead, retry: int = 0) -> None:
        """Answer the request without a call of a model."""
        service.metrics.refused[code] += 1
        self.end_early(head, head.id or service.new_id(), 0, service.clock())
        retry = retry or (1 if code == UNAVAILABLE else 0)
        self.reply(code, v2.render_error(text), RETRY % retry if retry else JSON)

    def start_counted(self, service: GatewayContext, endpoint: Endpoint, body: bytes, head: RequestHead) -> None:
        """As `start`, for a caller with a rate limit."""
        excess, head = service.count_prediction(head)
        if excess is None:
            self.start(service, endpoint, body, head)
        else:
            self.refuse(excess.code, excess.reason, service, head, excess.retry_after)

    def log(self, service: GatewayContext, code: int) -> None:
        """Log the request. Called only for codes that are logged."""
        endpoint = getattr(self, "endpoint", None)  # a refused request has none
        served = None if endpoint is None else (endpoint.namespace, endpoint.name, endpoint.version)
        service.log_request(
            self.head, self.id, code, began=self.began, bytes_in=self.size,
            bytes_out=len(self._body) if self.code else 0, served=served,
        )  # fmt: skip

    def render(self, date: bytes, last: bool) -> bytes:
        code, body = self.code, self._body
        return b"%b%b%b%b%bmizzen-request-id: %b\r\ncontent-length: %d\r\n\r\n%b" % (
            _STATUS[code], self._kind, date, _CLOSE if last else b"", self.head.response_headers, self.id, len(body),
            body,
        )  # fmt: skip


class AuditedExchange(AuditedInference, Exchange):
    """An exchange that was sampled for the audit."""

    __slots__ = ()

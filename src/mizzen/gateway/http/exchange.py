"""One request answered without ASGI, and what the connections of a gateway share to answer it."""

from __future__ import annotations

from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from mizzen.gateway.access.audit_sampling import Sampled
from mizzen.gateway.inference.calls import UNAVAILABLE
from mizzen.gateway.inference.inference import Inference, Service
from mizzen.gateway.inference.protocols import JSON, RETRY, Options
from mizzen.gateway.request.origin_check import Verdicts
from mizzen.gateway.route_table import Endpoint
from mizzen.protocol import v2
from mizzen.web.connection_limits import Door, Patience

_CLOSE = b"connection: close\r\n"
_BY_CODE = {401: b'www-authenticate: Bearer realm="mizzen"\r\n'}
_STATUS = {code: line + _BY_CODE.get(code, b"") for code, line in STATUS_LINE.items()}


class Connection(Protocol):
    def advance(self) -> None:
        """One of its exchanges has its answer: write what is due."""


class Front(Door):
    """What the connections of one gateway process share."""

    __slots__ = ("date", "service", "verdicts")

    def __init__(self, service: Service, *, loopback: bool, patience: Patience, most: int) -> None:
        super().__init__(patience, most, service.clock)
        self.service = service
        self.verdicts = Verdicts(loopback, service.cors)
        self.date = b""
        """The Date header line."""

    def look(self, state: ServerState) -> None:
        self.date = b"".join(b"%b: %b\r\n" % header for header in state.default_headers)
        super().look(state)


class Exchange(Inference):
    """A request answered without ASGI, and its place in the line of its connection."""

    __slots__ = ("_body", "_connection", "_kind", "closes", "code")

    def __init__(self, connection: Connection, closes: bool) -> None:
        self._connection = connection
        self.code = 0
        """0: not answered yet"""
        self.closes = closes

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        self.code = code
        self._body = body
        self._kind = kind
        self._connection.advance()

    def refuse(self, code: int, text: str, service: Service, options: Options, retry: int = 0) -> None:
        """An answer in place of a start: this request reaches no model."""
        service.metrics.refused[code] += 1
        self.live = False
        self.options = options
        self.size = 0
        self.began = service.clock()
        self.id = options.id or service.new_id()
        retry = retry or (1 if code == UNAVAILABLE else 0)
        self.reply(code, v2.error(text), RETRY % retry if retry else JSON)

    def start_counted(self, service: Service, endpoint: Endpoint, body: bytes, options: Options) -> None:
        """As `start`, for one who is limited."""
        excess, told = service.spend(options)
        if excess is None:
            self.start(service, endpoint, body, told)
        else:
            self.refuse(excess.code, excess.reason, service, told, excess.retry)

    def note(self, service: Service, code: int) -> None:
        """Called only for codes that are noted."""
        endpoint = getattr(self, "endpoint", None)  # what was refused has none
        served = None if endpoint is None else (endpoint.namespace, endpoint.name, endpoint.version)
        service.ended(
            self.options, self.id, code, began=self.began, bytes_in=self.size,
            bytes_out=len(self._body) if self.code else 0, served=served,
        )  # fmt: skip

    def rendered(self, date: bytes, last: bool) -> bytes:
        code, body = self.code, self._body
        return b"%b%b%b%b%bmizzen-request-id: %b\r\ncontent-length: %d\r\n\r\n%b" % (
            _STATUS[code], self._kind, date, _CLOSE if last else b"", self.options.more, self.id, len(body), body,
        )  # fmt: skip


class SampledExchange(Sampled, Exchange):
    """One that was chosen for the audit."""

    __slots__ = ()

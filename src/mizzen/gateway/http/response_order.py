"""HTTP pipelining: the unanswered requests of one connection, and their responses in the order of the requests.

Requests answered without ASGI (`Exchange`) and requests of the ASGI app (uvicorn cycles) may alternate. The first
request in the pipeline may send its response; responses to the others are kept until it is their turn. `fast_protocol`
reads requests and appends them to the pipeline.

Hazards kept in mind: uvicorn's `shutdown` does not know the requests answered here, so it is replaced. A connection
that is closed while the client still writes is reset, and the response is lost, so the connection lingers after a
refusal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from mizzen.gateway.http.exchange import AuditedExchange, Exchange, GatewayConnections
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.telemetry.counters import GONE
from mizzen.web.http_connection import TimedHttpProtocol

MAX_PIPELINED = 32
"""Reading pauses while a connection has more unanswered requests."""
LINGER_SECONDS = 1.0
UNREAD_HEAD = RequestHead(method="")
"""The head of data that is not a valid request."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class PipelinedProtocol(TimedHttpProtocol):
    """A connection as seen by the code that answers."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        front: GatewayConnections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, limiter=front)
        self._shared = front
        self._service = front.service
        self._audit_sampler = front.service.samples
        self._logged_from = front.service.logged_from
        """The lowest status code that is logged."""
        self._pipeline: deque[Exchange | tuple[RequestResponseCycle, ASGI3Application]] = deque()
        self._stopping = False
        self._cut_short = False
        """The last request was refused before its end: the client may still be writing it."""
        # The request that is being read
        self._is_fast = False
        """It is answered without ASGI."""
        self._owes_continue = False

    # Called by the server

    def shutdown(self) -> None:
        """Answer the requests that were read, then close."""
        self._stopping = True
        if not self._pipeline:
            self._close_if_done()
        elif not self._reading and not isinstance(self._pipeline[-1], Exchange):
            self._pipeline[-1][0].keep_alive = False

    # asyncio.Protocol

    def connection_lost(self, exc: Exception | None) -> None:
        self._ignores_input = True
        for entry in self._pipeline:
            if isinstance(entry, Exchange):
                entry.cancel(self._service.clock())
                if self._logged_from <= GONE:
                    entry.log(self._service, GONE)
            else:
                entry[0].disconnected = True
                entry[0].message_event.set()
        self._pipeline.clear()
        super().connection_lost(exc)

    def is_full(self) -> bool:
        return not self._ignores_input and (len(self._pipeline) > MAX_PIPELINED or self.flow.write_paused)

    # Order of responses

    def advance(self) -> None:
        """Write the responses that are due, in order; then the next request has its turn."""
        line = self._pipeline
        while line:
            entry = line[0]
            if not isinstance(entry, Exchange) or not entry.code:
                return
            line.popleft()
            last = entry.closes or (self._stopping and not line and not self._reading)
            self.transport.write(entry.render(self._shared.date, last))
            if entry.code >= self._logged_from:
                entry.log(self._service, entry.code)
            if last:
                self._end()
                return
            self._next_turn()

    def on_response_complete(self) -> None:
        """An ASGI request has been answered. Replaces uvicorn's method, because the pipeline knows what is next."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._pipeline.popleft()
        if self.cycle.response_complete:  # the app may have answered without taking a body that had paused the reading
            self.flow.resume_reading()
        self._next_turn()
        self.advance()

    def _next_turn(self) -> None:
        line = self._pipeline
        if not line:
            self._idle_since = self._shared.now
            if self._owes_continue:
                self._continue_if_due()
            if self._stopping:
                self._close_if_done()
        elif not isinstance(line[0], Exchange):
            super()._start_asgi_task(*line[0])
        if self.flow.read_paused:
            self.flow.update()

    def _continue_if_due(self) -> None:
        """Send 100 Continue to a client that waits for it, once all earlier requests are answered."""
        if self._owes_continue and not self._pipeline:
            self._owes_continue = False
            self.transport.write(_CONTINUE)

    # Joining the pipeline

    def _begin(self, endpoint: Endpoint, body: bytes, head: RequestHead, closes: bool) -> None:
        samples = self._audit_sampler
        chosen = samples is not None and samples.should_sample()
        exchange = AuditedExchange(self, closes) if chosen else Exchange(self, closes)
        self._pipeline.append(exchange)
        if head.rate_limit is not None:
            exchange.start_counted(self._service, endpoint, body, head)
        else:
            exchange.start(self._service, endpoint, body, head)
        if len(self._pipeline) > MAX_PIPELINED:
            self.flow.update()

    def _refuse(self, code: int, text: str, closes: bool, head: RequestHead) -> None:
        exchange = Exchange(self, closes)
        self._pipeline.append(exchange)
        exchange.refuse(code, text, self._service, head)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Run an ASGI request of uvicorn once all earlier requests are answered."""
        self._pipeline.append((cycle, app))
        if len(self._pipeline) == 1:
            super()._start_asgi_task(cycle, app)
        elif len(self._pipeline) > MAX_PIPELINED:
            self.flow.update()

    # The end of the connection

    def _refuse_and_close(self, code: int, text: str) -> None:
        """Send the last response of this connection, to a request that is not read to its end.

        Does nothing if it was sent already: the parser may object to the rest of a request that was refused.
        """
        if self._cut_short or self.transport.is_closing():
            return
        self._ignores_input = self._cut_short = True
        if self._reading and not self._in_head and not self._is_fast:
            if self.cycle.response_started:
                self.transport.close()  # the app has already sent a part of its response
                return
            # The app waits for the rest of the request, which is not read; the refusal replaces its response.
            self._pipeline.pop()
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        head = self._partial_head() if self._reading else UNREAD_HEAD
        self._reading = False
        self._refuse(code, text, closes=True, head=head)

    def _partial_head(self) -> RequestHead:
        """The head of the request that is being read, as far as it is known."""
        raise NotImplementedError

    def _end(self) -> None:
        self._idle_since = self._shared.now
        if not self._cut_short:
            self.transport.close()
            return
        # The client still writes: after an immediate close the kernel would reset the connection and drop our response.
        if self.transport.can_write_eof():  # not with TLS, where clients rely on the content length
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _close_if_done(self) -> None:
        if self._stopping and not self._reading:
            self.transport.close()

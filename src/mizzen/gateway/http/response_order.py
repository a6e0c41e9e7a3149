"""The requests of one connection that are unanswered, in the order they were asked: answers leave in that order.

A request answered without ASGI (an `Exchange`) and one that the ASGI app answers (a cycle of uvicorn's) may follow each
other. The first of the line has its turn, the others wait; what they were answered meanwhile is kept. `front` reads
requests and puts them in the line.

Hazards kept in mind: uvicorn's `shutdown` knows nothing of requests answered here, so it is replaced; a connection that
is closed while the client still writes is reset, and the answer lost with it, so refusals linger.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from mizzen.gateway.http.exchange import Exchange, Front, SampledExchange
from mizzen.gateway.inference.protocols import Options
from mizzen.gateway.route_table import Endpoint
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.web.http_connection import DoorProtocol

PIPELINED = 32
"""Unanswered requests of one connection, beyond which we read no more until some are answered."""
LINGER_SECONDS = 1.0
UNSEEN = Options(method="")
"""Of what is no request at all."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LineProtocol(DoorProtocol):
    """A connection as those see it who answer."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        front: Front,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, door=front)
        self._front = front
        self._service = front.service
        self._samples = front.service.samples
        self._least = front.service.noted_from
        """The lowest code that is noted."""
        self._line: deque[Exchange | tuple[RequestResponseCycle, ASGI3Application]] = deque()
        self._stopping = False
        self._deaf = False
        """The last request of this connection has been read: whatever follows is not looked at."""
        self._cut_short = False
        """That last request was refused before its end: the client may still be writing it."""
        # The request that is being read
        self._fast = False
        """It is answered without ASGI."""
        self._owes_continue = False

    # What the server asks

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
                if self._least <= GONE:
                    entry.note(self._service, GONE)
            else:
                entry[0].disconnected = True
                entry[0].message_event.set()
        self._line.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()  # who does not read answers may not ask more

    def resume_writing(self) -> None:
        super().resume_writing()
        if len(self._line) <= PIPELINED:
            self.flow.resume_reading()

    # Turns

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
            if entry.code >= self._least:
                entry.note(self._service, entry.code)
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

    def _continue_if_due(self) -> None:
        """A client that waits for its 100 gets it when nothing before it is unanswered."""
        if self._owes_continue and not self._line:
            self._owes_continue = False
            self.transport.write(_CONTINUE)

    # Joining the line

    def _begin(self, endpoint: Endpoint, body: bytes, options: Options, closes: bool) -> None:
        samples = self._samples
        chosen = samples is not None and samples.chosen()
        exchange = SampledExchange(self, closes) if chosen else Exchange(self, closes)
        self._line.append(exchange)
        if options.allowance is not None:
            exchange.start_counted(self._service, endpoint, body, options)
        else:
            exchange.start(self._service, endpoint, body, options)
        if len(self._line) > PIPELINED:
            self.flow.pause_reading()

    def _refuse(self, code: int, text: str, closes: bool, options: Options) -> None:
        exchange = Exchange(self, closes)
        self._line.append(exchange)
        exchange.refuse(code, text, self._service, options)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """uvicorn wants to run a request: it may once everything before it is answered."""
        self._line.append((cycle, app))
        if len(self._line) == 1:
            super()._start_asgi_task(cycle, app)
        elif len(self._line) > PIPELINED:
            self.flow.pause_reading()

    # The end

    def _refuse_and_close(self, code: int, text: str) -> None:
        """The last answer of this connection, to a request that is not read to its end."""
        self._deaf = self._cut_short = True
        if self._reading and not self._in_head and not self._fast:
            if self.cycle.response_started:
                self.transport.close()  # the app has answered already, as far as it has
                return
            # The app waits for the rest of it, which does not come; we answer in its place.
            self._line.pop()
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        options = self._seen() if self._reading else UNSEEN
        self._reading = False
        self._refuse(code, text, closes=True, options=options)

    def _seen(self) -> Options:
        """What is known of the request that is being read."""
        raise NotImplementedError

    def _end(self) -> None:
        self._idle_since = self._front.now
        if not self._cut_short:
            self.transport.close()
            return
        # Closed at once, the kernel would reset the connection, since the client still writes, and void our answer.
        if self.transport.can_write_eof():  # not with TLS, where the length of the answer must do
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _close_if_done(self) -> None:
        if self._stopping and not self._reading:
            self.transport.close()

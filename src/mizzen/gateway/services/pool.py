"""The calls of one service: each goes to its least busy address, over a connection that is reused.

    waiting -- a connection is free ---> in flight -- response --> finished
       |                                    |
       +-- deadline, cancel, unreachable    +-- deadline, cancel: the connection is closed, which stops the service

Calls without a free connection wait in order while connections are opened, up to a limit for each address. A call is
not bound to an address before it is sent: the first address with a free connection gets it.

Hazards: a call ends once (`live`), and its end may submit the next call before it returns. A service may close a
connection just as it is reused; a call that is lost this way, and only this way, is retried once. The connections of an
address that hangs are closed one by one at deadlines, so it would look like the least busy one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mizzen.gateway.queueing.call import BAD_REQUEST, EXPIRED, LATE, LOST, NOT_READY, UNAVAILABLE, Call
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.queueing.signature import SignatureCheck
from mizzen.gateway.services import requests
from mizzen.gateway.services.call import ServiceCall
from mizzen.gateway.services.endpoint import ServiceEndpoint
from mizzen.gateway.services.endpoints import ServiceEndpoints
from mizzen.gateway.services.http_connection import HttpConnection, HttpResponse
from mizzen.gateway.services.response_mapping import PROTOCOLS, CallOutcome
from mizzen.graph import table_types

BODY_BYTES = 64 << 20
"""Maximum bytes of an answer."""
CONNECTIONS = 64
"""Maximum connections to one address."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PoolCounts:
    """Counts of the calls of one service."""

    sent: int = 0
    retried: int = 0
    """Calls sent again, because their connection was closed as it was reused."""
    shed: int = 0
    cancelled: int = 0
    """Calls whose callers were gone."""
    connections: int = 0
    """Connections that were opened."""
    unreachable: int = 0
    """Connections that could not be opened."""
    ends: Counter[int] = field(default_factory=Counter)
    """Calls by the code they ended with."""
    seconds: float = 0.0
    """Total time in flight of answered calls."""


class ServicePool:
    """The pool of one service. Takes calls like a queue, and its deadlines are swept like those of queues."""

    def __init__(
        self,
        service: table_types.Service,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        sweeper: DeadlineTimer,
        limit: int,
        byte_limit: int = BODY_BYTES,
        body_limit: int = BODY_BYTES,
        connections: int = CONNECTIONS,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """`limit`, `byte_limit`: number and bytes of calls that may wait for a connection. `body_limit`: bytes of one
        answer. `connections`: to one address. `tls`: creates the context for https addresses."""
        self.signature: SignatureCheck | None = None
        """Always None: the inputs of a service are not known."""
        self.counts = PoolCounts()
        self._clock = clock
        self._sweeper = sweeper
        self._limit = limit
        self._byte_limit = byte_limit
        self._endpoints = ServiceEndpoints(
            self, loop=loop, clock=clock, tls=tls, connections=connections, body_limit=body_limit
        )
        self._waiting: OrderedDict[Call, ServiceCall] = OrderedDict()
        self._waiting_bytes = 0
        self._out: dict[Call, ServiceCall] = {}
        """Calls in flight, or about to be sent over a connection that is opened for them alone."""
        self._events = 0
        """Grows with each event whose order matters, because a clock may stand still."""
        self._pumping = self._retired = self._closed = False
        sweeper.queues.add(self)
        self.update(service)

    @property
    def ready(self) -> bool:
        """Whether some address is not in backoff."""
        now = self._clock()
        return any(endpoint.backoff_until <= now for endpoint in self._endpoints)

    @property
    def busy(self) -> int:
        return len(self._waiting) + len(self._out)

    @property
    def waiting(self) -> int:
        """Calls that wait for a connection."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._out)

    @property
    def unanswered(self) -> bytes:
        """The error for a call whose deadline has passed."""
        return f"{self._display_name} gave no answer within the deadline".encode()

    def submit(self, call: Call) -> None:
        if not self._admit(call):
            return
        self._events += 1
        self._waiting[call] = ServiceCall(call, self._events)
        self._waiting_bytes += call.size
        self._pump()
        if not self._sweeper.armed:
            self._sweeper.arm()

    def on_cancel(self, call: Call) -> None:
        """The caller is gone: the call is not sent, or its connection is closed, so that the service can stop."""
        service_call = self._waiting.get(call) or self._out.get(call)
        if service_call is not None:
            self.counts.cancelled += 1
            self._drop(service_call)
            self._pump()
            self._finish_if_retired()

    def update(self, service: table_types.Service) -> None:
        """Takes new settings of the same service, such as other addresses."""
        self.service = service
        self._display_name = f"'{_name(service.id)}'"
        self._protocol = PROTOCOLS[service.protocol]
        self._endpoints.replace(service.addresses)
        self._request_starts = {
            endpoint.address: requests.build_start(endpoint.host, service.path) for endpoint in self._endpoints
        }
        self._pump()

    def retire(self) -> None:
        """No Table names the service any more. Graphs in use may still call it, but idle connections are closed."""
        self._retired = True
        self._finish_if_retired()

    async def abort(self) -> None:
        """Closes everything and fails all pending calls."""
        self._retired = self._closed = True
        await self._endpoints.abort()
        text = f"{self._display_name} is not called any more: this gateway is stopping".encode()
        for service_call in [*self._waiting.values(), *self._out.values()]:
            self._drop(service_call)
            self._finish(service_call.call, CallOutcome(LOST, text), self._clock())
        self._finish_if_retired()

    def sweep(self, now: float) -> None:
        for calls in (self._waiting, self._out):
            for service_call in [each for each in calls.values() if each.call.deadline <= now or not each.call.pending]:
                self._expire(service_call, now)
        self._pump()
        self._finish_if_retired()

    # Events of connections

    def on_open(self, connection: HttpConnection, service_call: ServiceCall | None) -> None:
        self.counts.connections += 1
        now = self._clock()
        if service_call is not None and self._out.get(service_call.call) is service_call:
            self._send(service_call, connection, now)
        else:  # the call may have ended in the meantime
            self._endpoints.keep(connection, now)
        self._pump()
        self._finish_if_retired()

    def on_unreachable(self, endpoint: ServiceEndpoint, service_call: ServiceCall | None) -> None:
        self.counts.unreachable += 1
        self._events += 1
        endpoint.unreachable_at = self._events
        self._mark_failed(endpoint, endpoint.failure, self._clock())
        if service_call is not None and self._out.get(service_call.call) is service_call:
            self._release(service_call)
            self._waiting[service_call.call] = service_call  # another address may take it
            self._waiting.move_to_end(service_call.call, last=False)
            self._waiting_bytes += service_call.call.size
        self._pump()
        self._finish_if_retired()

    def on_response(self, connection: HttpConnection, answer: HttpResponse) -> None:
        now = self._clock()
        endpoint: ServiceEndpoint = connection.endpoint
        service_call: ServiceCall = connection.call
        self._release(service_call)
        if answer.status == UNAVAILABLE:
            self._mark_failed(endpoint, "it answered 503", now)
        else:
            endpoint.mark_alive(now)
        self._endpoints.keep(connection, now)
        self._pump()  # before the answer is decoded, so that the service is busy meanwhile
        self.counts.seconds += now - service_call.began
        self._finish(service_call.call, service_call.read(answer, self._display_name, now), now)
        self._finish_if_retired()

    def on_broken(self, connection: HttpConnection, fault: str, *, begun: bool) -> None:
        endpoint: ServiceEndpoint = connection.endpoint
        service_call: ServiceCall = connection.call
        call = service_call.call
        self._release(service_call)
        if service_call.attempt is not None:
            service_call.attempt.on_lost()
        if connection.used > 1 and not begun and not service_call.retried and call.pending and not self._closed:
            endpoint.close_idle()  # the others are probably closed too
            self.counts.retried += 1
            service_call.retried = True
            self._out[call] = service_call
            self._endpoints.open(endpoint, service_call)
            return
        now = self._clock()
        self._mark_failed(endpoint, fault or "its connection was lost", now)
        self._pump()
        text = (
            f"{self._display_name} gave an invalid answer: {fault}"
            if fault
            else f"the connection to {self._display_name} was lost"
        )
        self._finish(call, CallOutcome(LOST, text.encode(errors="replace")), now)
        self._finish_if_retired()

    def on_idle_close(self, connection: HttpConnection) -> None:
        with suppress(ValueError):  # it was just taken for a call
            connection.endpoint.idle.remove(connection)

    # Admission

    def _admit(self, call: Call) -> bool:
        """Returns False after it has refused the call."""
        if not self._endpoints or self._closed:
            self._refuse(call, self._missing_text())
            return False
        if self._retired:
            self._sweeper.queues.add(self)
        if self._is_full(call):
            for each in [each for each in self._waiting if not each.pending]:
                self.on_cancel(each)
            if self._is_full(call):
                self.counts.shed += 1
                text = f"too many calls to {self._display_name} are waiting already".encode()
                self._finish(call, CallOutcome(UNAVAILABLE, text), self._clock())
                return False
        return True

    def _is_full(self, call: Call) -> bool:
        waits = len(self._waiting)
        return waits > 0 and (waits >= self._limit or self._waiting_bytes + call.size > self._byte_limit)

    def _missing_text(self) -> str:
        return f"{self._display_name} cannot be called: {self.service.missing or 'it has no address'}"

    # Sending

    def _pump(self) -> None:
        """Sends calls while connections are free, and opens connections for the rest."""
        if self._pumping:  # the outer call continues until nothing is left to do
            return
        self._pumping = True
        try:
            while self._waiting and self._pump_first():
                pass
        finally:
            self._pumping = False

    def _pump_first(self) -> bool:
        """Handles the first waiting call; returns whether there may be more to do."""
        call, service_call = next(iter(self._waiting.items()))
        now = self._clock()
        if not call.pending or call.deadline <= now:
            self._expire(service_call, now)
            return call not in self._waiting  # else others with more time wait for it: at the next sweep
        endpoint = self._endpoints.choose(service_call, now)
        if endpoint is None:
            if self._out or self._endpoints.openings:
                return False
            self._release(service_call)
            why = [endpoint.failure for endpoint in self._endpoints]
            self._refuse(call, f"{self._display_name} cannot be reached: {why[-1]}" if why else self._missing_text())
            return True
        connection = endpoint.take()
        if connection is not None:
            self._release(service_call)
            self._send(service_call, connection, now)
            return True
        if self._endpoints.openings >= len(self._waiting):
            return False
        self._endpoints.open(endpoint, None)
        return True

    def _send(self, service_call: ServiceCall, connection: HttpConnection, now: float) -> None:
        call, endpoint = service_call.call, connection.endpoint
        try:
            service_call.write(self._protocol)
        except ValueError as error:
            self._release(service_call)
            self._endpoints.keep(connection, now)
            self._finish(call, CallOutcome(BAD_REQUEST, str(error).encode(errors="replace")), now)
            return
        self._events += 1
        endpoint.last_used = self._events
        endpoint.busy += 1
        self._out[call] = service_call
        self.counts.sent += 1
        start = self._request_starts.get(endpoint.address) or requests.build_start(endpoint.host, self.service.path)
        service_call.send(connection, start, self.service.id, now)

    # Ends

    def _expire(self, service_call: ServiceCall, now: float) -> None:
        """Ends a call whose deadline has passed or whose caller is gone."""
        call, connection = service_call.call, service_call.connection
        self._finish(call, CallOutcome(EXPIRED, self.unanswered, lacking=LATE), now)
        if call.pending:  # other requests with more time wait for it
            return
        if connection is not None and call.deadline <= now and connection.endpoint.last_response < service_call.began:
            self._mark_failed(connection.endpoint, "it does not answer", now)
        self._drop(service_call)

    def _drop(self, service_call: ServiceCall) -> None:
        """Releases the call and closes its connection."""
        connection = service_call.connection
        self._release(service_call)
        if connection is not None:
            connection.close()

    def _release(self, service_call: ServiceCall) -> None:
        """Removes the call from the waiting and in-flight calls."""
        call = service_call.call
        if self._waiting.pop(call, None) is not None:
            self._waiting_bytes -= call.size
        else:
            self._out.pop(call, None)
        if service_call.connection is not None:
            service_call.connection.endpoint.busy -= 1
            service_call.connection = None

    def _mark_failed(self, endpoint: ServiceEndpoint, why: str, now: float) -> None:
        if endpoint.mark_failed(now, why):
            log.warning("service %s at %s is failing: %s", self.service.id, endpoint.address, why)

    def _refuse(self, call: Call, text: str) -> None:
        self._finish(call, CallOutcome(UNAVAILABLE, text.encode(errors="replace"), lacking=NOT_READY), self._clock())

    def _finish(self, call: Call, end: CallOutcome, now: float) -> None:
        if not call.pending:
            self.counts.cancelled += 1
            return
        self.counts.ends[end.code] += 1
        if end.route is not None:
            with suppress(AttributeError):  # a call without this attribute did not ask for a route
                call.route = end.route  # type: ignore[attr-defined]
        call.finish(end.code, end.payload, now, end.retry, lacking=end.lacking)

    def _finish_if_retired(self) -> None:
        """Cleans up a retired pool once it has no calls."""
        if self._retired and not self.busy:
            self._endpoints.close_idle()
            self._sweeper.queues.discard(self)


def _name(id_: str) -> str:
    """Returns the name that callers know: the container, or the host."""
    if id_.startswith("svc:"):
        return urlsplit(id_.removeprefix("svc:")).netloc.rpartition("@")[2] or id_
    return id_.rpartition("/")[2]

"""One call of a service, from its submission to its result."""

from __future__ import annotations

from typing import Any

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.request.trace_context import Attempt, BatchTimes, traceparent
from mizzen.gateway.services import requests
from mizzen.gateway.services.http_connection import HttpConnection, HttpResponse
from mizzen.gateway.services.response_mapping import CallOutcome, outcome_of


class ServiceCall:
    __slots__ = ("_encoded", "_protocol", "_request", "attempt", "began", "call", "connection", "retried", "since")

    def __init__(self, call: Call, since: int) -> None:
        self.call = call
        self.since = since
        """When it was submitted, by the pool's event counter."""
        self.began = 0.0
        """When it was last sent, by the clock."""
        self.connection: HttpConnection | None = None
        """The connection, while the call is in flight."""
        self.retried = False
        self.attempt: Attempt | None = None
        self._encoded: requests.EncodedRequest | None = None

    def write(self, protocol: requests.ServiceProtocol) -> None:
        """Encodes the request once, before it is sent. Raises ValueError if the protocol cannot express it."""
        if self._encoded is None:
            self._protocol = protocol
            self._request = requests.tensor_request_of(self.call)
            self._encoded = protocol.write(self._request)

    def send(self, connection: HttpConnection, start: bytes, service: str, now: float) -> None:
        """`start`: the start of requests to that address. `service`: the name for the spans of a trace."""
        assert self._encoded is not None
        self.began = now
        self.connection = connection
        connection.call = self
        trace = self._trace_headers(service)
        head = requests.build_head(start, self._encoded, self.call, asks=self._request.asks, trace=trace, now=now)
        connection.send(head, self._encoded.body)

    def read(self, answer: HttpResponse, who: str, now: float) -> CallOutcome:
        if self.attempt is not None:
            self.attempt.on_answer(now - self.began, BatchTimes())
        return outcome_of(answer, self._request, self._protocol, who)

    def _trace_headers(self, service: str) -> tuple[str, str]:
        """Returns the headers that make the service's spans part of the caller's trace."""
        head: Any = getattr(self.call, "head", None)
        trace = None if head is None else head.trace
        if trace is None:
            return "", ""
        recording = trace.recording
        if recording is None:
            return trace.parent, trace.state
        self.attempt = recording.start_attempts([(recording, self.call.began)], service, 0, 1)[0]
        return traceparent(recording.trace, self.attempt.id), trace.state

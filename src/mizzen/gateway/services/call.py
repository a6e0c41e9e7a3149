"""One call of a service, from its arrival to its end."""

from __future__ import annotations

from typing import Any

from mizzen.gateway.inference.calls import Call
from mizzen.gateway.services import requests
from mizzen.gateway.services.http_connection import Answer, Connection
from mizzen.gateway.services.response_mapping import Outcome, outcome
from mizzen.gateway.telemetry.trace_recording import Run, Times, traceparent


class Exchange:
    __slots__ = ("_asked", "_speech", "_written", "began", "call", "connection", "retried", "run", "since")

    def __init__(self, call: Call, since: int) -> None:
        self.call = call
        self.since = since
        """When it came, by the pool's count of events."""
        self.began = 0.0
        """When it was last sent, by the clock."""
        self.connection: Connection | None = None
        """While it is out by one."""
        self.retried = False
        self.run: Run | None = None
        self._written: requests.Written | None = None

    def write(self, speech: requests.Speech) -> None:
        """Once, before it is sent. ValueError when it cannot be put so."""
        if self._written is None:
            self._speech = speech
            self._asked = requests.asked_of(self.call)
            self._written = speech.write(self._asked)

    def send(self, connection: Connection, start: bytes, service: str, now: float) -> None:
        """`start` is how requests to that address begin; `service` is what the spans of a trace tell."""
        assert self._written is not None
        self.began = now
        self.connection = connection
        connection.exchange = self
        trace = self._traced(service)
        head = requests.head(start, self._written, self.call, asks=self._asked.asks, trace=trace, now=now)
        connection.send(head, self._written.body)

    def read(self, answer: Answer, who: str, now: float) -> Outcome:
        if self.run is not None:
            self.run.answered(now - self.began, Times())
        return outcome(answer, self._asked, self._speech, who)

    def _traced(self, service: str) -> tuple[str, str]:
        """The headers that place what the service does in the caller's trace."""
        options: Any = getattr(self.call, "options", None)
        trace = None if options is None else options.trace
        if trace is None:
            return "", ""
        recording = trace.recording
        if recording is None:
            return trace.parent, trace.state
        self.run = recording.tracer.sent([(recording, self.call.began)], service, 0, 1)[0]
        return traceparent(recording.trace, self.run.id), trace.state

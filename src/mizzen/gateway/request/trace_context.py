"""The place of a request in a trace, and the measurements of a request that this gateway traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mizzen.telemetry.otlp import Context


class BatchTimes(NamedTuple):
    """Times that a runtime reports for a batch, in microseconds; 0 if it does not."""

    before: int = 0
    """Reading the batch."""
    after: int = 0
    """Writing the answers."""
    merged: int = 0
    """Requests answered together, including those of other gateways."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt to send a request to a replica."""

    wait_id: bytes
    """The span of the wait; `id` is that of the call."""
    id: bytes
    waited_from: float
    sent: float
    clock: Callable[[], float]
    ended: float | None = None
    seconds: float = 0.0
    """In the model."""
    times: BatchTimes = field(default_factory=BatchTimes)
    server: str = ""
    pid: int = 0
    """Of the replica."""
    batch: int = 0
    """The number of calls in the batch."""
    links: Sequence[Context] = ()
    fault: str | None = None

    def on_answer(self, seconds: float, times: BatchTimes) -> None:
        """`seconds`: in the model."""
        self.ended, self.seconds, self.times = self.clock(), seconds, times

    def on_lost(self) -> None:
        self.ended, self.fault = self.clock(), "the process was lost"


@dataclass(slots=True, eq=False)
class Recording:
    """The measurements of one traced request."""

    start_attempts: StartAttempts
    trace: bytes
    id: bytes
    parent: bytes
    """Empty: the trace begins here."""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def model_traceparent(self) -> str:
        """The `traceparent` for the model, so that its own spans are below its call."""
        return traceparent(self.trace, self.attempts[-1].id)


StartAttempts = Callable[[Iterable[tuple[Recording, float]], str, int, int], list[Attempt]]
"""Starts an attempt for each traced request of a batch. Takes the recordings with the time each request began, the
server, its process id and the size of the batch."""


class Trace(NamedTuple):
    parent: str
    """The value of a valid header `traceparent`."""
    state: str
    """The header `tracestate`; empty when there is none."""
    recording: Recording | None = None
    """The measurements, if this gateway traces the request; then `parent` names the span of the gateway."""

    @property
    def id(self) -> str:
        return self.parent[3:35]

    @property
    def passed_on(self) -> tuple[str, str]:
        """The values of both headers for the model."""
        return (self.parent if self.recording is None else self.recording.model_traceparent), self.state

    @property
    def sampled(self) -> bool:
        """Whether the caller traces the request."""
        return bool(int(self.parent[53:55], 16) & 1)


def traceparent(trace: bytes, span: bytes) -> str:
    return f"00-{trace.hex()}-{span.hex()}-01"

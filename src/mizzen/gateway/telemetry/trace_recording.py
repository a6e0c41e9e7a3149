"""Trace sampling, and the recording of one request: the request itself, its wait, its call of the model.

A request is traced if its `traceparent` has the sampled flag, or at random if it has no `traceparent`. Measurements
are kept in a Recording, which travels with the request (`RequestHead.trace`). The thread that exports spans builds them
from it later. A request that is not traced costs one comparison.

    POST /v2/models/{model}/infer       in the gateway, until the answer is written
      queue                             until it was sent to a replica; one for each attempt
      predict                           in the model, as its runtime measured it; the model's own spans are below

`spans` builds them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.request.trace_context import Attempt, Recording, Trace, traceparent
from mizzen.telemetry.otlp import Context

MAX_LINKS = 32
"""Links from one model call to the others in its batch."""
MAX_PATH = 1024
"""Bytes of a path that are recorded."""


class TracedRequest(NamedTuple):
    """A finished traced request, with everything that its spans need."""

    recording: Recording
    head: RequestHead
    request_id: bytes
    code: int
    began: float
    ended: float
    wall: float
    """When it ended, in seconds since 1970; the other times are monotonic."""
    bytes_in: int
    bytes_out: int
    served: tuple[str, str, str] | None


@dataclass(slots=True, eq=False)
class Tracer:
    put: Callable[[TracedRequest], None]
    """Receives finished requests."""
    share: float
    """Of requests without a `traceparent`."""
    _: KW_ONLY
    rng: random.Random
    clock: Callable[[], float]
    wall: Callable[[], float]

    def start(self, head: RequestHead) -> RequestHead:
        """Returns the head of a request to a model, with a recording if it is traced."""
        trace = head.trace
        if trace is None:
            if self.rng.random() >= self.share:
                return head
            recording = Recording(self.start_attempts, self.rng.randbytes(16), self.rng.randbytes(8), b"")
            state = ""
        elif trace.sampled and trace.recording is None:
            recording = self._start_recording(trace)
            state = trace.state
        else:
            return head
        return head._replace(trace=Trace(traceparent(recording.trace, recording.id), state, recording))

    def start_attempts(
        self, recorded: Iterable[tuple[Recording, float]], server: str, pid: int, batch: int
    ) -> list[Attempt]:
        """Records that a batch of `batch` calls is sent. `recorded`: its traced requests, and when they began."""
        now, new = self.clock(), self.rng.randbytes
        attempts: list[Attempt] = []
        contexts: list[Context] = []
        for of, began in recorded:
            attempt = Attempt(new(8), new(8), of.attempts[-1].ended or now if of.attempts else began, now, self.clock)
            attempt.server, attempt.pid, attempt.batch = server, pid, batch
            of.attempts.append(attempt)
            attempts.append(attempt)
            contexts.append((of.trace, attempt.id))
        if len(attempts) > 1:
            for place, attempt in enumerate(attempts):
                attempt.links = [*contexts[:place], *contexts[place + 1 :]][:MAX_LINKS]
        return attempts

    def finish(
        self, head: RequestHead, request_id: bytes, code: int, *, began: float, now: float, bytes_in: int,
        bytes_out: int, served: tuple[str, str, str] | None,
    ) -> None:  # fmt: skip
        """Exports any request that its caller traces, even if it reached no model."""
        trace = head.trace
        if trace is None or not trace.sampled:
            return
        recording = trace.recording or self._start_recording(trace)
        # Thousands may wait for export: keep nothing whose length a refused caller can choose.
        head = head._replace(path=head.path[:MAX_PATH], timeout_ms=None, header_length=None)
        self.put(TracedRequest(recording, head, request_id, code, began, now, self.wall(), bytes_in, bytes_out, served))

    def _start_recording(self, trace: Trace) -> Recording:
        return Recording(
            self.start_attempts, bytes.fromhex(trace.id), self.rng.randbytes(8), bytes.fromhex(trace.parent[36:52])
        )

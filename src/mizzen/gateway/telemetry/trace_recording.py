"""Which requests are traced, and the spans that come of one: the request itself, its wait, its call of the model.

A request is traced when its caller's trace is (`traceparent` with the flag sampled), or, where it brings none, by
chance. What is measured is kept in a Recording, which travels with the request (`Options.trace`); spans are made of it
afterwards, by the thread that sends them. Nothing here runs for a request that is not traced but one comparison.

    POST /v2/models/{model}/infer       the gateway's, until the answer is written
      queue                             until a replica was sent it; once for each time it was
      predict                           in the model, as its runtime measured it; what the model traces is below this

What they look like is in `spans`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mizzen.gateway.inference.protocols import Options
from mizzen.gateway.request.request_ids import Trace
from mizzen.telemetry.otlp import Context

MOST_LINKS = 32
"""From one call of the model to the others of its batch."""
MOST_PATH = 1024
"""Bytes of a path that are kept."""


class Times(NamedTuple):
    """What a runtime says of a batch, in microseconds; 0 where it says nothing."""

    before: int = 0
    """Reading it."""
    after: int = 0
    """Writing the answers."""
    merged: int = 0
    """Requests that it answered at once, those of other gateways among them."""


class Run:
    """One time that a request was sent to a replica."""

    __slots__ = (
        "_clock", "batch", "ended", "fault", "id", "links", "pid", "seconds", "sent", "server", "times", "wait_id",
        "waited_from",
    )  # fmt: skip

    def __init__(self, wait_id: bytes, id_: bytes, waited_from: float, sent: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.wait_id = wait_id
        self.id = id_
        """Of the span of its wait, and of that of the call."""
        self.waited_from = waited_from
        self.sent = sent
        self.ended: float | None = None
        self.seconds = 0.0
        """In the model."""
        self.times = Times()
        self.server = ""
        self.pid = self.batch = 0
        """Of the replica, and how many calls it was sent at once."""
        self.links: Sequence[Context] = ()
        self.fault: str | None = None

    def answered(self, seconds: float, times: Times) -> None:
        """`seconds`: in the model."""
        self.ended, self.seconds, self.times = self._clock(), seconds, times

    def lost(self) -> None:
        self.ended, self.fault = self._clock(), "the process was lost"


class Recording:
    """What is known of a request that is traced."""

    __slots__ = ("id", "parent", "runs", "trace", "tracer")

    def __init__(self, tracer: Tracer, trace: bytes, id_: bytes, parent: bytes) -> None:
        self.tracer = tracer
        self.trace = trace
        self.id = id_
        self.parent = parent
        """Empty: the trace begins here."""
        self.runs: list[Run] = []

    @property
    def passed_on(self) -> str:
        """The `traceparent` that the model is told: what it traces is below its call."""
        return traceparent(self.trace, self.runs[-1].id)


class Ended(NamedTuple):
    """A request that was traced, with all that its spans are made of."""

    recording: Recording
    options: Options
    request_id: bytes
    code: int
    began: float
    ended: float
    wall: float
    """The time of its end, in seconds since 1970: the others are by a clock that only measures."""
    bytes_in: int
    bytes_out: int
    served: tuple[str, str, str] | None


class Tracer:
    def __init__(
        self,
        put: Callable[[Ended], None],
        share: float,
        *,
        rng: random.Random,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`put` takes what has ended. `share`: of requests that bring no trace."""
        self._put = put
        self._share = share
        self._rng = rng
        self._clock = clock
        self._wall = wall

    def begun(self, options: Options) -> Options:
        """Those of a request for a model, with a recording if it is traced."""
        trace = options.trace
        if trace is None:
            if self._rng.random() >= self._share:
                return options
            recording = Recording(self, self._rng.randbytes(16), self._rng.randbytes(8), b"")
            state = ""
        elif trace.sampled and trace.recording is None:
            recording = self._recording(trace)
            state = trace.state
        else:
            return options
        return options._replace(trace=Trace(traceparent(recording.trace, recording.id), state, recording))

    def sent(self, recorded: Iterable[tuple[Recording, float]], server: str, pid: int, batch: int) -> list[Run]:
        """A batch of so many goes to a replica. `recorded`: those of it that are traced, and when they began."""
        now, new = self._clock(), self._rng.randbytes
        runs: list[Run] = []
        contexts: list[Context] = []
        for of, began in recorded:
            run = Run(new(8), new(8), of.runs[-1].ended or now if of.runs else began, now, self._clock)
            run.server, run.pid, run.batch = server, pid, batch
            of.runs.append(run)
            runs.append(run)
            contexts.append((of.trace, run.id))
        if len(runs) > 1:
            for place, run in enumerate(runs):
                run.links = [*contexts[:place], *contexts[place + 1 :]][:MOST_LINKS]
        return runs

    def ended(
        self, options: Options, request_id: bytes, code: int, *, began: float, now: float, bytes_in: int,
        bytes_out: int, served: tuple[str, str, str] | None,
    ) -> None:  # fmt: skip
        """Whatever it was: also what reached no model, where its caller traces it."""
        trace = options.trace
        if trace is None or not trace.sampled:
            return
        recording = trace.recording or self._recording(trace)
        # Thousands may wait to be sent: nothing is kept with them that is as long as who was refused liked.
        options = options._replace(path=options.path[:MOST_PATH], timeout_ms=None, header_length=None)
        self._put(Ended(recording, options, request_id, code, began, now, self._wall(), bytes_in, bytes_out, served))

    def _recording(self, trace: Trace) -> Recording:
        return Recording(self, bytes.fromhex(trace.id), self._rng.randbytes(8), bytes.fromhex(trace.parent[36:52]))


def traceparent(trace: bytes, span: bytes) -> str:
    return f"00-{trace.hex()}-{span.hex()}-01"

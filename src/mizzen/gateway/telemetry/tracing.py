"""Tracing as a whole: which requests are (`traces`), and the thread that sends what comes of it."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mizzen
from mizzen.gateway.telemetry.spans import spans
from mizzen.gateway.telemetry.trace_recording import Ended, Tracer
from mizzen.telemetry import otlp
from mizzen.telemetry.destination import Destination
from mizzen.telemetry.exporter import Exporter, Sent

FLUSH_SECONDS = 0.5
"""How long a stop waits for spans to be sent."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Traced:
    """Which requests are traced, and where their spans go."""

    destination: Destination
    share: float
    """Of requests that bring no trace; those whose callers trace them always are."""


class Tracing:
    def __init__(
        self,
        traced: Traced,
        gateway: str,
        *,
        secure: bool,
        rng: random.Random,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`gateway` is the name of this process. `secure`: it is asked by TLS."""
        host = socket.gethostname()
        resource: dict[str, otlp.Value] = {
            "service.version": mizzen.__version__, "service.instance.id": f"{host}/{gateway}", "host.name": host,
            "process.pid": os.getpid(), **traced.destination.resource,
        }  # fmt: skip

        def encode(requests: Sequence[Ended]) -> bytes:
            made = (span for request in requests for span in spans(request, "https" if secure else "http"))
            return otlp.request(resource, ("mizzen", mizzen.__version__), made)

        self._traced = traced
        self._exporter = Exporter(traced.destination, encode)
        self.tracer = Tracer(self._exporter.put, traced.share, rng=rng, clock=clock, wall=wall)

    @property
    def counts(self) -> Sent:
        return self._exporter.counts

    def start(self) -> None:
        self._exporter.start()
        log.info(
            "traces: requests of callers who trace them, and %.3g%% of the others, to %s",
            100 * self._traced.share, self._traced.destination.url,
        )  # fmt: skip

    def close(self) -> None:
        self._exporter.close(FLUSH_SECONDS)

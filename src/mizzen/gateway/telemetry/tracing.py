"""Tracing of a gateway: the tracer (`trace_recording`), and the thread that exports its spans."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mizzen
from mizzen.gateway.telemetry.spans import build_spans
from mizzen.gateway.telemetry.trace_recording import TracedRequest, Tracer
from mizzen.telemetry import otlp
from mizzen.telemetry.destination import Destination
from mizzen.telemetry.exporter import ExportCounts, Exporter

FLUSH_SECONDS = 0.5
"""How long shutdown waits for the export of spans."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Which requests are traced, and where their spans go."""

    destination: Destination
    share: float
    """Of requests without a `traceparent`; requests that their callers trace are always traced."""


class Tracing:
    def __init__(
        self,
        config: TracingConfig,
        gateway: str,
        *,
        secure: bool,
        rng: random.Random,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`gateway`: the name of this process. `secure`: it serves over TLS."""
        host = socket.gethostname()
        resource: dict[str, otlp.Value] = {
            "service.version": mizzen.__version__, "service.instance.id": f"{host}/{gateway}", "host.name": host,
            "process.pid": os.getpid(), **config.destination.resource,
        }  # fmt: skip

        def encode(requests: Sequence[TracedRequest]) -> bytes:
            exported = (span for request in requests for span in build_spans(request, "https" if secure else "http"))
            return otlp.encode_request(resource, ("mizzen", mizzen.__version__), exported)

        self._config = config
        self._exporter = Exporter(config.destination, encode)
        self.tracer = Tracer(self._exporter.put, config.share, rng=rng, clock=clock, wall=wall)

    @property
    def counts(self) -> ExportCounts:
        return self._exporter.counts

    def start(self) -> None:
        self._exporter.start()
        log.info(
            "traces: requests that their callers trace, and %.3g%% of the others, are exported to %s",
            100 * self._config.share, self._config.destination.url,
        )  # fmt: skip

    def close(self) -> None:
        self._exporter.close(FLUSH_SECONDS)

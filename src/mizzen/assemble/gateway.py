"""The gateway process, which serves the inference API."""

from __future__ import annotations

import gc
import logging
import os
import socket
from collections.abc import Mapping
from typing import cast

from mizzen.access import quota_usage
from mizzen.assemble.sockets import grpc_of, inference_of, socket_of, until_stopped, url_of
from mizzen.gateway.process import AccessOptions, FeedbackOptions, GatewayLimits, ReportOptions, serve
from mizzen.gateway.queueing.scale_from_zero import HoldLimits
from mizzen.gateway.telemetry.access_log import AccessLogMode
from mizzen.gateway.telemetry.tracing import TracingConfig
from mizzen.protocol.gateway_files import counts, demand, table_acks
from mizzen.selection import change_marker, state_db
from mizzen.selection.records import FOLDER
from mizzen.settings import Settings
from mizzen.supervisor import revive
from mizzen.supervisor.data_dir import Home
from mizzen.telemetry.destination import read_destination
from mizzen.web.connection_limits import max_connections
from mizzen.web.tls import CertificateFiles

GC_THRESHOLDS = 10_000, 20, 20
"""Requests create almost no reference cycles. Collecting as often as Python does by default costs too much."""

log = logging.getLogger(__name__)


async def run(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The inference API, until SIGTERM."""
    gc.set_threshold(*GC_THRESHOLDS)
    limits = GatewayLimits(
        max_body_bytes=settings.max_body_bytes,
        queue_limit=settings.queue_limit,
        queue_bytes=settings.queue_bytes,
        hold_seconds=settings.hold_seconds,
        held=HoldLimits(settings.held_limit, settings.held_bytes),
        stop_timeout=settings.stop_timeout,
        connections=max_connections(),
    )
    home = Home.of(settings.root)
    guard = AccessOptions(
        access=settings.root / "access.json",
        refusals=settings.root / "refusals",
        name=os.environ.get("MIZZEN_PROCESS_KEY", "gateway"),
        loopback=settings.loopback,
        rates=home.run / "rates",
        quotas=settings.root / quota_usage.FILE,
        sampled=settings.audit_predictions,
        origins=settings.cors_origins,
        anonymous=settings.anonymous,
    )
    records = ReportOptions(
        counts=home.run / counts.FOLDER,
        tables=home.run / table_acks.FOLDER,
        demand=home.run / demand.FOLDER,
        access_log=home.logs / f"access.{guard.name}.log",
        logged=cast("AccessLogMode", settings.access_log),
        log_bytes=settings.log_bytes,
        log_files=settings.log_files,
    )
    listening, secure = inference_of(listeners)
    await until_stopped(
        serve(
            socket=listening,
            grpc_socket=grpc_of(listeners),
            tls=_certificate_files(settings) if secure else None,
            table=settings.root / "table.json",
            control=_reachable_url(socket_of(listeners["control"])),
            guard=guard,
            limits=limits,
            records=records,
            learning=FeedbackOptions(
                settings.root / state_db.FILE, home.run / change_marker.FILE, settings.root / FOLDER
            ),
            traced=_tracing_config(settings, os.environ),
            log_level=settings.log_level,
        ),
        revive.keep(home, listeners, delay=1.0),
    )


def _certificate_files(settings: Settings) -> CertificateFiles:
    """The certificate that the plane creates and renews, or the one from the settings."""
    folder = settings.root / "tls"
    return CertificateFiles(*(settings.user_certificate or (folder / "server.pem", folder / "server-key.pem")))


def _tracing_config(settings: Settings, environ: Mapping[str, str]) -> TracingConfig | None:
    try:
        to = read_destination(settings.otel_endpoint, environ)
    except ValueError as fault:  # the variables may be meant for other programs
        log.warning("tracing is off: %s", fault)
        return None
    return None if to is None else TracingConfig(to, settings.otel_sample)


def _reachable_url(listening: socket.socket) -> str:
    """The URL of a socket of this machine: one that listens on all addresses is reached on loopback."""
    host = listening.getsockname()[0]
    return url_of(listening, host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))  # noqa: S104 - compared

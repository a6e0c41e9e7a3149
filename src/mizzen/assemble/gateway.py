"""A gateway: the inference API."""

from __future__ import annotations

import gc
import logging
import os
import socket
from collections.abc import Mapping
from typing import cast

from mizzen.access import quota_usage
from mizzen.assemble.sockets import grpc_of, inference_of, socket_of, until_stopped, url_of
from mizzen.gateway.process import Guard, Learning, Limits, Records, serve
from mizzen.gateway.queueing.scale_from_zero import Bounds
from mizzen.gateway.telemetry.access_log import Logged
from mizzen.gateway.telemetry.tracing import Traced
from mizzen.protocol.gateway_files import counts, demand, table_acks
from mizzen.selection import change_marker, state_db
from mizzen.selection.records import FOLDER
from mizzen.settings import Settings
from mizzen.supervisor import revive
from mizzen.supervisor.data_dir import Home
from mizzen.telemetry.destination import destination
from mizzen.web.connection_limits import most_connections
from mizzen.web.tls import Files

COLLECTED = 10_000, 20, 20
"""Requests leave next to no garbage that counting references does not end: to look for it as often as Python does by
default costs more than there is to find."""

log = logging.getLogger(__name__)


async def run(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The inference API, until SIGTERM."""
    gc.set_threshold(*COLLECTED)
    limits = Limits(
        max_body_bytes=settings.max_body_bytes,
        queue_limit=settings.queue_limit,
        queue_bytes=settings.queue_bytes,
        hold_seconds=settings.hold_seconds,
        held=Bounds(settings.held_limit, settings.held_bytes),
        stop_timeout=settings.stop_timeout,
        connections=most_connections(),
    )
    home = Home.of(settings.root)
    guard = Guard(
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
    records = Records(
        counts=home.run / counts.FOLDER,
        tables=home.run / table_acks.FOLDER,
        demand=home.run / demand.FOLDER,
        access_log=home.logs / f"access.{guard.name}.log",
        logged=cast("Logged", settings.access_log),
        log_bytes=settings.log_bytes,
        log_files=settings.log_files,
    )
    listening, secure = inference_of(listeners)
    await until_stopped(
        serve(
            socket=listening,
            grpc_socket=grpc_of(listeners),
            tls=_shown(settings) if secure else None,
            table=settings.root / "table.json",
            control=_reachable(socket_of(listeners["control"])),
            guard=guard,
            limits=limits,
            records=records,
            learning=Learning(settings.root / state_db.FILE, home.run / change_marker.FILE, settings.root / FOLDER),
            traced=_traced(settings, os.environ),
            log_level=settings.log_level,
        ),
        revive.keep(home, listeners, delay=1.0),
    )


def _shown(settings: Settings) -> Files:
    """What the plane has made and renews, or what somebody else does."""
    folder = settings.root / "tls"
    return Files(*(settings.given_certificate or (folder / "server.pem", folder / "server-key.pem")))


def _traced(settings: Settings, environ: Mapping[str, str]) -> Traced | None:
    try:
        to = destination(settings.otel_endpoint, environ)
    except ValueError as fault:  # of the environment, which others may have set for others
        log.warning("nothing is traced: %s", fault)
        return None
    return None if to is None else Traced(to, settings.otel_sample)


def _reachable(listening: socket.socket) -> str:
    """The URL of a socket of this machine: what listens at all addresses is found at its own."""
    host = listening.getsockname()[0]
    return url_of(listening, host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host))  # noqa: S104 - compared

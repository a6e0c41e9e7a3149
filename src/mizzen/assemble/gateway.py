"""A gateway: the inference API."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import cast

from mizzen.assemble.running import socket_of, until_stopped, url_of
from mizzen.gateway.accesslog import Logged
from mizzen.gateway.serve import Guard, Limits, Records, serve
from mizzen.protocol import counts, taken
from mizzen.settings import Settings
from mizzen.supervisor import revive
from mizzen.supervisor.home import Home
from mizzen.web.door import most_connections


async def run(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The inference API, until SIGTERM."""
    limits = Limits(
        max_body_bytes=settings.max_body_bytes,
        queue_limit=settings.queue_limit,
        queue_bytes=settings.queue_bytes,
        hold_seconds=settings.hold_seconds,
        stop_timeout=settings.stop_timeout,
        connections=most_connections(),
    )
    guard = Guard(
        access=settings.root / "access.json",
        refusals=settings.root / "refusals",
        name=os.environ.get("MIZZEN_PROCESS_KEY", "gateway"),
        loopback=settings.loopback,
        anonymous=settings.anonymous,
    )
    home = Home.of(settings.root)
    records = Records(
        counts=home.run / counts.FOLDER,
        tables=home.run / taken.FOLDER,
        access_log=home.logs / f"access.{guard.name}.log",
        logged=cast("Logged", settings.access_log),
    )
    await until_stopped(
        serve(
            socket=socket_of(listeners["inference"]),
            table=settings.root / "table.json",
            control=_reachable(socket_of(listeners["control"])),
            guard=guard,
            limits=limits,
            records=records,
            log_level=settings.log_level,
        ),
        revive.keep(home, listeners, delay=1.0),
    )


def _reachable(listening: socket.socket) -> str:
    """The URL of a socket of this machine: what listens at all addresses is found at its own."""
    host, port = listening.getsockname()[:2]
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on
    return url_of({"host": own, "port": port})

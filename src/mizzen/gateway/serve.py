"""Builds one gateway process and runs it until it is told to stop.

Run it with uvloop: `uvloop.run(serve(...))`. The listening socket is handed in; several gateways may share it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket as sockets
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mizzen.access import published
from mizzen.gateway.accesslog import AccessLog, Logged
from mizzen.gateway.app import App
from mizzen.gateway.calls import Call
from mizzen.gateway.census import Census
from mizzen.gateway.control import Control
from mizzen.gateway.cors import Cors
from mizzen.gateway.demand import DemandReport
from mizzen.gateway.exchange import Front
from mizzen.gateway.front import FastProtocol
from mizzen.gateway.infer import Service
from mizzen.gateway.intake import Intake
from mizzen.gateway.metrics import Metrics
from mizzen.gateway.naps import UNBOUNDED, Bounds
from mizzen.gateway.permits import Permits
from mizzen.gateway.queues import Queue
from mizzen.gateway.refusals import Refusals
from mizzen.gateway.sweeper import Sweeper
from mizzen.gateway.table import Fleet, TableFile
from mizzen.gateway.tracing import Traced, Tracing
from mizzen.gateway.watched import WatchedFile
from mizzen.graph.plan import Server as ServedVersion
from mizzen.protocol import notes, taken
from mizzen.web.door import Patience
from mizzen.web.server import WebServer
from mizzen.web.tls import Files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    max_body_bytes: int
    queue_limit: int
    queue_bytes: int
    """Of the bodies that wait for one served version, and of those that are still coming in."""
    hold_seconds: float
    stop_timeout: float
    connections: int
    """Open at once; further ones are closed."""
    patience: Patience = field(default_factory=Patience)
    held: Bounds = UNBOUNDED
    """What may wait for a served version that has no replicas until somebody asks."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Who is let in, and where it is written down who was not."""

    access: Path
    """access.json"""
    refusals: Path
    """The folder of all gateways' refusals."""
    name: str
    """Of this gateway, without a dot."""
    loopback: bool
    """Nobody but this machine can reach it."""
    origins: tuple[str, ...] = ()
    """Of web pages that may ask, `*` for all."""
    anonymous: bool = False
    """Those without a token may read and predict, unless access.json is stricter; never where others can reach it."""


@dataclass(frozen=True, slots=True)
class Records:
    """What a gateway leaves for others to read."""

    counts: Path
    """The folder of what all gateways count."""
    tables: Path
    """The folder of which Table each of them has taken."""
    demand: Path
    """The folder of what is asked of the servers whose replicas follow it."""
    access_log: Path
    logged: Logged = "errors"
    """What goes into it."""


async def serve(
    *,
    socket: sockets.socket,
    table: Path,
    guard: Guard,
    limits: Limits,
    records: Records,
    tls: Files | None = None,
    control: str = "",
    traced: Traced | None = None,
    log_level: str = "info",
    stopping: asyncio.Event | None = None,
    wall: Callable[[], float] = time.time,
) -> None:
    """Answer on `socket` until SIGTERM, SIGINT or `stopping`; then finish what is in flight and return.

    `tls`: what it is secured with, if it is; the files may come later. `control` is the URL of the plane, which can be
    asked to load a model. `traced`: None when nothing is. `wall` is by what tokens end: seconds since 1970.
    """
    loop = asyncio.get_running_loop()
    clock = time.monotonic
    rng = random.Random()  # noqa: S311 - ids must be unique, not secret
    anonymous = guard.anonymous and guard.loopback
    refusals = Refusals(guard.refusals, guard.name, wall=wall, call_later=loop.call_later)
    access_log = AccessLog(records.access_log, guard.name, records.logged, wall=wall, call_later=loop.call_later)
    tracing = (
        None if traced is None else Tracing(traced, guard.name, secure=tls is not None, rng=rng, clock=clock, wall=wall)
    )
    service = Service(
        max_body_bytes=limits.max_body_bytes,
        intake=Intake(limits.queue_bytes),
        metrics=Metrics(),
        clock=clock,
        wall=wall,
        new_id=lambda: rng.getrandbits(128).to_bytes(16, "big").hex().encode(),
        permits=Permits(None, anonymous=anonymous, wall=wall),
        refusals=refusals,
        access_log=access_log,
        cors=Cors(guard.origins),
        tracer=None if tracing is None else tracing.tracer,
    )
    sweeper = Sweeper(clock, loop.call_later)
    report = DemandReport(records.demand, guard.name, clock=clock, call_later=loop.call_later)

    def new_queue(server: ServedVersion, offer: Callable[[Call], bool]) -> Queue:
        return Queue(
            server,
            limit=limits.queue_limit,
            byte_limit=limits.queue_bytes,
            hold_seconds=limits.hold_seconds,
            clock=clock,
            call_soon=loop.call_soon,
            call_later=loop.call_later,
            sweeper=sweeper,
            offer=offer,
            held=limits.held,
            wake=report.wake,
        )

    def permit(data: bytes) -> str:
        access = published.decode(data)
        service.replace(permits=Permits(access, anonymous=anonymous, wall=wall))
        return f"access {access.serial}: {len(access.passes)} tokens, {len(access.grants)} bindings"

    def acknowledge(serial: int) -> None:
        report.follow(fleet.queues.values())
        try:
            taken.write(records.tables, taken.Taken(guard.name, os.getpid(), serial))
        except OSError as error:  # then the plane waits a while for nothing
            log.warning("cannot write down that table %d is in force: %s", serial, error)

    fleet = Fleet(service, new_queue, loop, acknowledge)
    files = WatchedFile("access", guard.access, permit, loop), TableFile(table, fleet.take, loop)
    for file in files:
        file.start()
    census = Census(
        records.counts, guard.name, service.metrics, fleet.queues.values, wall=wall, call_later=loop.call_later,
        traced=None if tracing is None else tracing.counts,
    )  # fmt: skip
    census.start()
    front = Front(service, loopback=guard.loopback, patience=limits.patience, most=limits.connections)
    server = _Server(
        App(service, census.all, Control(control)),
        partial(FastProtocol, front=front),
        front,
        stop_timeout=limits.stop_timeout,
        log_level=log_level,
        tls=None if tls is None else await tls.first(),
    )
    if tracing is not None:
        tracing.start()
    try:
        await server.run_until(stopping, socket, tls)
    finally:
        for file in files:
            file.stop()
        await fleet.close()
        notes.remove(records.tables, guard.name)
        report.stop()
        refusals.close()
        access_log.close()
        census.stop()
        if tracing is not None:
            tracing.close()


class _Server(WebServer):
    """Ends when it is told to, and with it whatever has not ended by then."""

    async def run_until(self, stopping: asyncio.Event | None, socket: sockets.socket, files: Files | None) -> None:
        beside = [] if stopping is None else [asyncio.create_task(self._stop_on(stopping))]
        if files is not None:
            beside.append(asyncio.create_task(files.keep_current(self._secure)))
        try:
            await self.serve([socket])
        finally:
            for task in beside:
                task.cancel()
            for connection in list(self.server_state.connections):
                connection.transport.abort()  # the time to finish is over

    async def _stop_on(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.should_exit = True

    def _secure(self, tls: ssl.SSLContext) -> None:
        self.tls = tls

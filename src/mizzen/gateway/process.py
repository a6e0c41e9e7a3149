"""Builds one gateway process and runs it until it is told to stop.

Run it with uvloop: `uvloop.run(serve(...))`. The listening sockets are handed in; several gateways may share them.
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
from typing import Any

from mizzen.access import access_file
from mizzen.gateway.access.audit_sampling import Samples
from mizzen.gateway.access.authorizer import Permits
from mizzen.gateway.access.quotas import Quotas
from mizzen.gateway.access.rate_limiter import Rates
from mizzen.gateway.access.rate_limits import Allowances
from mizzen.gateway.access.refusal_log import Refusals
from mizzen.gateway.cache.cached_queue import Room
from mizzen.gateway.feedback.routes import Feedback
from mizzen.gateway.graphs.factory import Making
from mizzen.gateway.grpc.service import GrpcService
from mizzen.gateway.http.asgi_app import App
from mizzen.gateway.http.exchange import Front
from mizzen.gateway.http.fast_protocol import FastProtocol
from mizzen.gateway.http.plane_client import Control
from mizzen.gateway.inference.calls import Call
from mizzen.gateway.inference.inference import Service
from mizzen.gateway.queueing.deadline_timer import Sweeper
from mizzen.gateway.queueing.demand_report import DemandReport
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.scale_from_zero import UNBOUNDED, Bounds
from mizzen.gateway.request.body_budget import Intake
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.table_loader import Fleet, TableFile
from mizzen.gateway.telemetry.access_log import FILE_BYTES, AccessLog, Logged
from mizzen.gateway.telemetry.counts_exchange import Census
from mizzen.gateway.telemetry.metrics import Metrics
from mizzen.gateway.telemetry.tracing import Traced, Tracing
from mizzen.gateway.watched_file import WatchedFile
from mizzen.graph.table_types import Server as ServedVersion
from mizzen.protocol.gateway_files import status_files, table_acks
from mizzen.selection.cached_state import View
from mizzen.selection.feedback_writer import Desk
from mizzen.web.connection_limits import Patience
from mizzen.web.http2.connection import Http2Protocol
from mizzen.web.server import WebServer, serve_all
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
    rates: Path
    """The file of how fast everybody asks who is limited; all gateways have it mapped."""
    quotas: Path
    """The file of how much everybody has asked who has a quota."""
    sampled: float = 0.0
    """The share of predictions that leave an entry in the audit."""
    origins: tuple[str, ...] = ()
    """Of web pages that may ask, `*` for all."""
    anonymous: bool = False
    """Those without a token may read and predict, unless access.json is stricter; never where others can reach it."""

    def samples(self, *, wall: Callable[[], float], rng: random.Random) -> Samples:
        loop = asyncio.get_running_loop()
        entries = Refusals(self.refusals, self.name, wall=wall, call_later=loop.call_later, sort="p")
        return Samples(
            self.sampled, entries, wall=wall, rng=rng, elsewhere=lambda work: loop.run_in_executor(None, work)
        )


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
    log_bytes: int = FILE_BYTES
    """Size at which it is put aside."""
    log_files: int = 1
    """That are kept so."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What all gateways learn from feedback, together."""

    state: Path
    """state.db: what bandits know, and the feedback that was given."""
    word: Path
    """Which tells whether that has changed; all gateways have it mapped."""
    records: Path
    """The folder of what answered whom."""

    def feedback(self, service: Service) -> Feedback:
        """Who takes it, in the loop that runs."""
        post = asyncio.get_running_loop().call_soon_threadsafe
        desk = Desk(self.state, self.word, random.Random(), post=post)  # noqa: S311 - not the loop's: it has a thread
        return Feedback(self.records, desk, service)


async def serve(
    *,
    socket: sockets.socket,
    grpc_socket: sockets.socket | None = None,
    table: Path,
    guard: Guard,
    limits: Limits,
    records: Records,
    learning: Learning,
    tls: Files | None = None,
    control: str = "",
    traced: Traced | None = None,
    log_level: str = "info",
    stopping: asyncio.Event | None = None,
    wall: Callable[[], float] = time.time,
) -> None:
    """Answer on `socket` until SIGTERM, SIGINT or `stopping`; then finish what is in flight and return.

    `grpc_socket` is where the same is answered over gRPC. `tls`: what they are secured with, if they are; the files may
    come later. `control` is the URL of the plane, which can be asked to load a model. `traced`: None when nothing is.
    `wall` is by what tokens end: seconds since 1970.
    """
    loop = asyncio.get_running_loop()
    clock = time.monotonic
    rng = random.Random()  # noqa: S311 - ids must be unique, not secret
    anonymous = guard.anonymous and guard.loopback
    refusals = Refusals(guard.refusals, guard.name, wall=wall, call_later=loop.call_later)
    access_log = AccessLog(
        records.access_log, guard.name, records.logged, wall=wall, call_later=loop.call_later,
        file_bytes=records.log_bytes, files=records.log_files,
    )  # fmt: skip
    tracing = (
        None if traced is None else Tracing(traced, guard.name, secure=tls is not None, rng=rng, clock=clock, wall=wall)
    )
    samples = guard.samples(wall=wall, rng=rng) if guard.sampled else None
    allowances = Allowances(Rates(guard.rates), Quotas(guard.quotas, call_later=loop.call_later))
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
        samples=samples,
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
        access = access_file.decode(data)
        service.replace(permits=Permits(access, anonymous=anonymous, wall=wall, allowances=allowances))
        return f"access {access.serial}: {len(access.passes)} tokens, {len(access.grants)} bindings"

    def acknowledge(serial: int) -> None:
        report.follow(fleet.queues.values())
        try:
            table_acks.write(records.tables, table_acks.Taken(guard.name, os.getpid(), serial))
        except OSError as error:  # then the plane waits a while for nothing
            log.warning("cannot write down that table %d is in force: %s", serial, error)

    graphs = Making(
        view=View(learning.state, learning.word, rng), records=learning.records, gateway=_number(guard.name),
        limit=limits.queue_limit, sweeper=sweeper, loop=loop, clock=clock, wall=wall, rng=rng,
    )  # fmt: skip
    fleet = Fleet(
        service, new_queue, loop, acknowledge, graphs=graphs, room=Room(limits.queue_limit, limits.held.calls)
    )
    files = WatchedFile("access", guard.access, permit, loop), TableFile(table, fleet.take, loop)
    for file in files:
        file.start()
    census = Census(
        records.counts, guard.name, service.metrics, fleet.queues.values, wall=wall, call_later=loop.call_later,
        traced=None if tracing is None else tracing.counts, graphs=graphs.tallies.counts,
    )  # fmt: skip
    census.start()
    front = Front(service, loopback=guard.loopback, patience=limits.patience, most=limits.connections)
    app = App(service, census.all, Control(control), learning.feedback(service))

    async def served(protocol: Callable[..., Any], socket: sockets.socket, files: Files | None) -> _Served:
        secured = None if files is None else await files.first()
        server = WebServer(app, protocol, front, stop_timeout=limits.stop_timeout, log_level=log_level, tls=secured)
        return _Served(server, socket, files)

    servers = [await served(partial(FastProtocol, front=front), socket, tls)]
    if grpc_socket is not None:
        grpc = partial(Http2Protocol, host=GrpcService(service, app, front.verdicts), door=front)
        servers.append(await served(grpc, grpc_socket, None if tls is None else tls.offering("h2")))
    if tracing is not None:
        tracing.start()
    try:
        await _run_until(stopping, servers)
    finally:
        for file in files:
            file.stop()
        await fleet.close()
        status_files.remove(records.tables, guard.name)
        ends = app.close, report.stop, allowances.close, refusals.close, access_log.close, census.stop
        sometimes = [each.close for each in (samples, tracing) if each is not None]
        for end in (*ends, *sometimes):
            end()


def _number(name: str) -> int:
    """Of a gateway among its siblings, by its name: what it writes for all of them says by which it was."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


@dataclass(frozen=True, slots=True)
class _Served:
    """A server, and what it answers on."""

    server: WebServer
    socket: sockets.socket
    files: Files | None

    def secure(self, tls: ssl.SSLContext) -> None:
        self.server.tls = tls


async def _run_until(stopping: asyncio.Event | None, served: list[_Served]) -> None:
    """Ends when it is told to, and with it whatever has not ended by then."""

    async def stop() -> None:
        assert stopping is not None
        await stopping.wait()
        for each in served:
            each.server.should_exit = True

    beside = [] if stopping is None else [asyncio.create_task(stop())]
    beside += [asyncio.create_task(each.files.keep_current(each.secure)) for each in served if each.files is not None]
    try:
        await serve_all(*((each.server, each.socket) for each in served))
    finally:
        for task in beside:
            task.cancel()
        for each in served:
            for connection in list(each.server.server_state.connections):
                connection.transport.abort()  # the time to finish is over

"""Assembles one gateway process and runs it until it is stopped.

Run it with uvloop: `uvloop.run(serve(...))`. Callers pass in the listening sockets, which several gateways may share.
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
from mizzen.gateway.access.audit_sampling import AuditSampler
from mizzen.gateway.access.authorizer import Authorizer
from mizzen.gateway.access.quotas import Quotas
from mizzen.gateway.access.rate_limiter import RateLimiter
from mizzen.gateway.access.rate_limits import RateLimits
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.gateway.cache.cached_queue import WaitLimits
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.feedback.routes import FeedbackApi
from mizzen.gateway.graphs.factory import GraphFactory
from mizzen.gateway.grpc.service import GrpcService
from mizzen.gateway.http.asgi_app import App
from mizzen.gateway.http.exchange import GatewayConnections
from mizzen.gateway.http.fast_protocol import FastProtocol
from mizzen.gateway.http.plane_client import PlaneClient
from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.scale_from_zero import UNLIMITED, HoldLimits
from mizzen.gateway.request.body_budget import BodyBudget
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.table_loader import TableFile, TableLoader
from mizzen.gateway.telemetry.access_log import FILE_BYTES, AccessLog, AccessLogMode
from mizzen.gateway.telemetry.counters import Metrics
from mizzen.gateway.telemetry.counts_exchange import SiblingCounts
from mizzen.gateway.telemetry.demand_report import DemandReport
from mizzen.gateway.telemetry.tracing import Tracing, TracingConfig
from mizzen.gateway.watched_file import WatchedFile
from mizzen.graph.table_types import Server as ServedVersion
from mizzen.protocol.gateway_files import status_files, table_acks
from mizzen.selection.cached_state import StateCache
from mizzen.selection.feedback_writer import FeedbackWriter
from mizzen.web.connection_limits import Timeouts
from mizzen.web.http2.connection import Http2Protocol
from mizzen.web.server import WebServer, serve_all
from mizzen.web.tls import CertificateFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    max_body_bytes: int
    queue_limit: int
    queue_bytes: int
    """Limit for the bodies that wait for one served version, and for all bodies that are still arriving."""
    hold_seconds: float
    stop_timeout: float
    connections: int
    """Maximum of open connections; further ones are closed."""
    patience: Timeouts = field(default_factory=Timeouts)
    held: HoldLimits = UNLIMITED
    """Limits for the calls that wait for a served version that was scaled to zero."""


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Access to this gateway, and the log of its refusals."""

    access: Path
    """access.json"""
    refusals: Path
    """The folder with the refusals of all gateways."""
    name: str
    """The name of this gateway, without a dot."""
    loopback: bool
    """The gateway listens on loopback only."""
    rates: Path
    """The file with the request rates of limited callers; all gateways map it."""
    quotas: Path
    """The file with the usage of callers that have a quota."""
    sampled: float = 0.0
    """The share of predictions that are sampled for the audit."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may send requests; `*` for all."""
    anonymous: bool = False
    """Callers without a token may read and predict, unless access.json is stricter. Only applies on loopback."""

    def samples(self, *, wall: Callable[[], float], rng: random.Random) -> AuditSampler:
        loop = asyncio.get_running_loop()
        entries = RefusalLog(self.refusals, self.name, wall=wall, call_later=loop.call_later, prefix="p")
        return AuditSampler(
            self.sampled, entries, wall=wall, rng=rng, run_in_thread=lambda work: loop.run_in_executor(None, work)
        )


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The files that a gateway writes for others."""

    counts: Path
    """The folder with the counts of all gateways."""
    tables: Path
    """The folder with the Table that each gateway has in force."""
    demand: Path
    """The folder with the demand for servers that scale with load."""
    access_log: Path
    logged: AccessLogMode = "errors"
    """Which requests are logged."""
    log_bytes: int = FILE_BYTES
    """Size at which the log file is rotated."""
    log_files: int = 1
    """The number of rotated files to keep."""


@dataclass(frozen=True, slots=True)
class FeedbackOptions:
    """The state that all gateways learn from feedback."""

    state: Path
    """state.db: the state of bandits, and the feedback."""
    word: Path
    """The marker file that shows changes of that state; all gateways map it."""
    records: Path
    """The folder with the records of answers."""

    def feedback(self, service: GatewayContext) -> FeedbackApi:
        """The feedback API, for the running event loop."""
        post = asyncio.get_running_loop().call_soon_threadsafe
        desk = FeedbackWriter(self.state, self.word, random.Random(), post=post)  # noqa: S311 - not the loop's: it has a thread
        return FeedbackApi(self.records, desk, service)


async def serve(
    *,
    socket: sockets.socket,
    grpc_socket: sockets.socket | None = None,
    table: Path,
    guard: AccessOptions,
    limits: GatewayLimits,
    records: ReportOptions,
    learning: FeedbackOptions,
    tls: CertificateFiles | None = None,
    control: str = "",
    traced: TracingConfig | None = None,
    log_level: str = "info",
    stopping: asyncio.Event | None = None,
    wall: Callable[[], float] = time.time,
) -> None:
    """Answer on `socket` until SIGTERM, SIGINT or `stopping`; then finish what is in flight and return.

    `grpc_socket` serves the same API over gRPC. `tls`: the certificate files of both sockets, if any; they may be
    written later. `control` is the URL of the plane, which loads and unloads models. `traced`: None to trace nothing.
    `wall` returns seconds since 1970, and decides when tokens expire.
    """
    gateway = _Gateway(guard, limits, records, learning, traced, secure=tls is not None, wall=wall)
    gateway.start(table)
    service = gateway.service
    front = GatewayConnections(
        service, loopback=guard.loopback, tls=tls is not None, patience=limits.patience, most=limits.connections
    )
    app = App(service, gateway.counts.all_counts, PlaneClient(control), learning.feedback(service))

    async def bind(
        protocol: Callable[..., Any], socket: sockets.socket, files: CertificateFiles | None
    ) -> _BoundServer:
        secured = None if files is None else await files.wait_for_context()
        server = WebServer(app, protocol, front, stop_timeout=limits.stop_timeout, log_level=log_level, tls=secured)
        return _BoundServer(server, socket, files)

    servers = [await bind(partial(FastProtocol, front=front), socket, tls)]
    if grpc_socket is not None:
        grpc = partial(Http2Protocol, host=GrpcService(service, app, front.origin_check), limiter=front)
        servers.append(await bind(grpc, grpc_socket, None if tls is None else tls.with_protocols("h2")))
    if gateway.tracing is not None:
        gateway.tracing.start()
    try:
        await _run_until(stopping, servers)
    finally:
        await gateway.close(app)


class _Gateway:
    """All parts of a gateway process except its web servers."""

    def __init__(
        self,
        guard: AccessOptions,
        limits: GatewayLimits,
        records: ReportOptions,
        learning: FeedbackOptions,
        traced: TracingConfig | None,
        *,
        secure: bool,
        wall: Callable[[], float],
    ) -> None:
        loop, clock = asyncio.get_running_loop(), time.monotonic
        rng = random.Random()  # noqa: S311 - ids must be unique, not secret
        self._loop = loop
        self._guard = guard
        self._limits = limits
        self._records = records
        self._files: list[WatchedFile] = []
        self._anonymous = guard.anonymous and guard.loopback
        self._allowances = RateLimits(RateLimiter(guard.rates), Quotas(guard.quotas, call_later=loop.call_later))
        self.tracing = (
            None if traced is None else Tracing(traced, guard.name, secure=secure, rng=rng, clock=clock, wall=wall)
        )
        self.service = self._new_service(rng, wall)
        self._sweeper = DeadlineTimer(clock, loop.call_later)
        self._demand = DemandReport(records.demand, guard.name, clock=clock, call_later=loop.call_later)
        graphs = GraphFactory(
            view=StateCache(learning.state, learning.word, rng), records=learning.records,
            gateway=_gateway_number(guard.name),
            limit=limits.queue_limit, sweeper=self._sweeper, loop=loop, clock=clock, wall=wall, rng=rng,
        )  # fmt: skip
        room = WaitLimits(limits.queue_limit, limits.held.calls)
        self._fleet = TableLoader(self.service, self._new_queue, loop, self._acknowledge, graphs=graphs, room=room)
        self.counts = SiblingCounts(
            records.counts, guard.name, self.service.metrics, self._fleet.queues.values, wall=wall,
            call_later=loop.call_later, traced=None if self.tracing is None else self.tracing.counts,
            graphs=graphs.stats.counts,
        )  # fmt: skip

    def start(self, table: Path) -> None:
        """Load access.json and the Table, if they exist, and reload them whenever they change."""
        self._files = [
            WatchedFile("access", self._guard.access, self._permit, self._loop),
            TableFile(table, self._fleet.take, self._loop),
        ]
        for file in self._files:
            file.start()
        self.counts.start()

    async def close(self, app: App) -> None:
        for file in self._files:
            file.stop()
        await self._fleet.close()
        status_files.remove(self._records.tables, self._guard.name)
        service = self.service
        app.close()
        self._demand.stop()
        self._allowances.close()
        service.refusals.close()
        service.access_log.close()
        self.counts.stop()
        for each in (service.samples, self.tracing):
            if each is not None:
                each.close()

    def _new_service(self, rng: random.Random, wall: Callable[[], float]) -> GatewayContext:
        guard, limits, records, call_later = self._guard, self._limits, self._records, self._loop.call_later
        return GatewayContext(
            max_body_bytes=limits.max_body_bytes,
            intake=BodyBudget(limits.queue_bytes),
            metrics=Metrics(),
            clock=time.monotonic,
            wall=wall,
            new_id=lambda: rng.getrandbits(128).to_bytes(16, "big").hex().encode(),
            permits=Authorizer(None, anonymous=self._anonymous, wall=wall),
            refusals=RefusalLog(guard.refusals, guard.name, wall=wall, call_later=call_later),
            access_log=AccessLog(
                records.access_log, guard.name, records.logged, wall=wall, call_later=call_later,
                file_bytes=records.log_bytes, files=records.log_files,
            ),
            cors=Cors(guard.origins),
            samples=guard.samples(wall=wall, rng=rng) if guard.sampled else None,
            tracer=None if self.tracing is None else self.tracing.tracer,
        )  # fmt: skip

    def _new_queue(self, server: ServedVersion, offer: Callable[[Call], bool]) -> Queue:
        limits = self._limits
        return Queue(
            server,
            limit=limits.queue_limit,
            byte_limit=limits.queue_bytes,
            hold_seconds=limits.hold_seconds,
            clock=self.service.clock,
            call_soon=self._loop.call_soon,
            call_later=self._loop.call_later,
            sweeper=self._sweeper,
            offer=offer,
            held=limits.held,
            wake=self._demand.wake,
        )

    def _permit(self, data: bytes) -> str:
        access = access_file.decode(data)
        permits = Authorizer(access, anonymous=self._anonymous, wall=self.service.wall, rate_limits=self._allowances)
        self.service.replace(permits=permits)
        return f"access {access.serial}: {len(access.passes)} tokens, {len(access.grants)} bindings"

    def _acknowledge(self, serial: int) -> None:
        self._demand.follow(self._fleet.queues.values())
        try:
            table_acks.write(self._records.tables, table_acks.TableAck(self._guard.name, os.getpid(), serial))
        except OSError as error:  # then the plane waits until its timeout
            log.warning("cannot acknowledge table %d: %s", serial, error)


def _gateway_number(name: str) -> int:
    """The number of a gateway among its siblings, from its name; shared records carry it."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


@dataclass(frozen=True, slots=True)
class _BoundServer:
    """A server, its socket and its certificate files."""

    server: WebServer
    socket: sockets.socket
    files: CertificateFiles | None

    def secure(self, tls: ssl.SSLContext) -> None:
        self.server.tls = tls


async def _run_until(stopping: asyncio.Event | None, served: list[_BoundServer]) -> None:
    """Run until stopped, then abort the connections that are still open after the stop timeout."""

    async def stop() -> None:
        assert stopping is not None
        await stopping.wait()
        for each in served:
            each.server.should_exit = True

    background = [] if stopping is None else [asyncio.create_task(stop())]
    background += [asyncio.create_task(each.files.watch(each.secure)) for each in served if each.files is not None]
    try:
        await serve_all(*((each.server, each.socket) for each in served))
    finally:
        for task in background:
            task.cancel()
        for each in served:
            for connection in list(each.server.server_state.connections):
                connection.transport.abort()  # the time to finish is over

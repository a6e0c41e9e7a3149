"""A plane: the control API and the controllers."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from mizzen import frameworks
from mizzen.access import access_file, credentials, quota_usage
from mizzen.access.jwt import TrustedIssuer
from mizzen.assemble import confinement, environments, feedback_retention, orphans, training
from mizzen.assemble.boot import gateway_names
from mizzen.assemble.sockets import inference_of, socket_of, until_stopped, url_of
from mizzen.assemble.traffic_barrier import TrafficBarrier
from mizzen.blobs.disk_room import Room, free_bytes
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.limits import IngestLimits
from mizzen.confinement import machine
from mizzen.controllers import acceptance
from mizzen.controllers.access_publisher import AccessPublisher, IssuerWithKeys
from mizzen.controllers.events import EventRecorder
from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.service_probes import ServiceProber
from mizzen.controllers.local_node import keep_registered, node_of
from mizzen.controllers.models import Models
from mizzen.controllers.monitors import ModelMonitors
from mizzen.controllers.refusal_ingest import RefusalIngest
from mizzen.controllers.scaling.autoscaler import Autoscaler
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.table_acks import GatewayTraffic
from mizzen.controllers.table_publisher import TablePublisher
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.gpus import discovery
from mizzen.errors import MizzenError
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Ref
from mizzen.protocol.gateway_files import counts, demand, table_acks
from mizzen.reconcile.controller import Controller
from mizzen.reconcile.loop import Loop
from mizzen.runs.checkpoints import CheckpointStore
from mizzen.selection import state_db
from mizzen.selection.state_reader import StateReader
from mizzen.server.admin.metrics import PlaneStats
from mizzen.server.admin.tls_certificates import Certificates
from mizzen.server.admission import namespaced_store
from mizzen.server.app import begin_stop, create_app
from mizzen.server.auth import targets
from mizzen.server.auth.authentication import ADMIN
from mizzen.server.auth.jwks import IssuerKeys
from mizzen.server.auth.oidc import OidcAuthenticator
from mizzen.server.auth.role_bindings import RoleBindingCache
from mizzen.server.auth.tokens import AdminToken
from mizzen.server.deletion import audit_retention
from mizzen.server.deletion.cascade import finish_cascades
from mizzen.server.deletion.garbage import keep_collecting
from mizzen.server.deletion.namespaces import keep_emptying
from mizzen.server.flow_control import interpreter
from mizzen.server.flow_control.limits import FlowLimits
from mizzen.server.http import pagination
from mizzen.server.http.context import ServerContext
from mizzen.server.monitor import tool_key
from mizzen.server.versions.manifest_downloads import ManifestDownloads
from mizzen.settings import Settings
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.supervisor import revive
from mizzen.supervisor.data_dir import Home
from mizzen.usage.inventory import InventoryCache
from mizzen.usage.processes import Processes
from mizzen.usage.sampler import Sampler
from mizzen.web.connection_limits import ConnectionLimiter, Timeouts, max_connections
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer, serve_all

log = logging.getLogger(__name__)


async def run(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The control API and the controllers, until SIGTERM."""
    base = await _open_base(settings, listeners)
    plane = _Plane(base)
    await plane.jobs.restore(base.store)
    # Before the first request is served: callers that had access at the last start may have lost it since.
    await plane.access.publish()
    plane.app = plane.create_app()
    interpreter.shorten_turns()
    try:
        await until_stopped(*_serve_control(plane.app, settings, listeners), *plane.tasks())
    finally:
        await plane.close()


@dataclass(frozen=True, slots=True)
class _Base:
    """The foundation of the controllers and the control API."""

    settings: Settings
    listeners: Mapping[str, int]
    home: Home
    token: AdminToken
    inference_url: str
    room: Room
    store: SqliteStore
    vault: Vault
    blobs: FileBlobs
    engine: LocalEngine
    gpus: int


async def _open_base(settings: Settings, listeners: Mapping[str, int]) -> _Base:
    root, home = settings.root, Home.of(settings.root)
    token = AdminToken.load_or_create(root / "admin-token")
    inference_url = _inference_url(settings, listeners)
    room = Room(root, settings.disk_low_bytes, settings.disk_critical_bytes)
    store = await _open_store(root / "mizzen.db", settings.keep_events, room)
    for files in (counts, table_acks, demand):
        files.sweep(home.run / files.FOLDER, gateway_names(settings))
    vault = Vault(store.secrets, root / "secret-key")
    await _report_lost_key(vault)
    blobs, blob_secrets = await training.blobs_of(settings, vault, room)
    await asyncio.to_thread(_report_broken_plugins)
    gpus = await asyncio.to_thread(discovery.find_devices, settings.gpus)
    engine = LocalEngine(
        home, blobs, python=sys.executable, reveal=vault.reveal, gpus=gpus,
        build_settings=environments.build_settings_of(settings),
        blob_env=training.disk_limit_variables(settings), blob_secrets=blob_secrets,
        confining=confinement.policy_of(settings, home, machine.detect()),
    )  # fmt: skip
    return _Base(settings, listeners, home, token, inference_url, room, store, vault, blobs, engine, len(gpus))


class _Plane:
    """The controllers, the publishers and the control API, connected to each other."""

    app: Starlette

    def __init__(self, base: _Base) -> None:
        settings, store, home = base.settings, base.store, base.home
        self._base = base
        self._context = Context(capabilities=frozenset(base.engine.capabilities))
        self._node = node_of(socket.gethostname(), self._context.capabilities, base.gpus)
        self._downloads = ManifestDownloads(lambda: self.app.state.context, self._enqueue)
        self._traffic = GatewayTraffic(home.run / table_acks.FOLDER, clock=time.monotonic)
        self._autoscaler = Autoscaler(home.run / demand.FOLDER, self._enqueue, clock=time.monotonic)
        self._checkpoints = CheckpointStore(base.blobs.documents)
        self._prober = ServiceProber(self._enqueue)
        self.jobs = training.build_controller(
            settings, store, base.blobs, self._context,
            gpus=base.gpus, here=self._node.meta.name, enqueue=self._enqueue, now=_now,
        )  # fmt: skip
        self._recorder = _build_event_recorder(store)
        self._loop = Loop(store, self._build_controllers(), now=_now, recorder=self._recorder)
        self._issuer = _find_issuer(settings)
        self.access = _build_access_publisher(settings, store, base.token, self._issuer)
        self._tables = TablePublisher(
            store, settings.root / "table.json", on_published=self._traffic.on_published, store_id=store.mark().store
        )
        self._processes = Processes(home)
        inventory = InventoryCache(self._tables.snapshot)
        self._sampler = Sampler(home.run / counts.FOLDER, self._processes, inventory, clock=time.time)

    def create_app(self) -> Starlette:
        base, settings, store, root = self._base, self._base.settings, self._base.store, self._base.settings.root
        return create_app(
            ServerContext(
                store=namespaced_store.NamespacedStore(store),
                blobs=base.blobs,
                identities=store.identities,
                secrets=store.secrets,
                vault=base.vault,
                audit=store.audit,
                bindings=RoleBindingCache(store),
                inference_url=base.inference_url,
                checkpoints=self._checkpoints,
                data_dir=root,
                logs=base.engine.logs,
                ready=lambda: True,
                now=_now,
                anonymous=settings.anonymous,
                capabilities=self._context.capabilities,
                wait_for_traffic=TrafficBarrier(self._tables, self._traffic),
                pages=pagination.Paginator.load_or_create(root / "page-key"),
                limits=IngestLimits(settings.max_upload_bytes, settings.max_unpacked_bytes),
                default_framework=settings.default_framework,
                recorder=self._recorder,
                quota_used=lambda subject: quota_usage.current_usage(root / quota_usage.FILE, subject, time.time()),
                usage=self._sampler,
                feedback_state=StateReader(root / state_db.FILE),
            ),
            admin_token=base.token,
            loopback=settings.loopback,
            oidc=OidcAuthenticator(*self._issuer, _now) if self._issuer else None,
            wait_published=self.access.wait_published,
            flow_limits=FlowLimits(
                reading=settings.api_reads_per_actor,
                mutating=settings.api_writes_per_actor,
                queued=settings.api_queued_per_actor,
                streams=settings.api_streams_per_actor,
            ),
            internals=PlaneStats(
                store.tally, self._loop.list_backlogs, lambda: _size_of(root / "mizzen.db"), lambda: free_bytes(root)
            ),
        )

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """All tasks next to the control API; they run until cancelled."""
        base, settings, store, root = self._base, self._base.settings, self._base.store, self._base.settings.root
        confined = confinement.condition(confinement.report(settings, machine.detect()))
        return (
            self._loop.run(),
            self._recorder.run(),
            self._tables.run(),
            self._autoscaler.run(),
            self._processes.run(),
            self._sampler.run(),
            self.access.run(),
            RefusalIngest(store.audit, root / "refusals").run(),
            audit_retention.keep_pruning(
                store.audit, _now, days=settings.audit_days, refusals=settings.audit_refusal_rows
            ),
            finish_cascades(store),
            keep_emptying(store, base.vault),
            keep_registered(store, self._node, _now, room=base.room, recorder=self._recorder, more=(confined,)),
            keep_collecting(
                store,
                base.blobs,
                _now,
                data_dir=root,
                grace=timedelta(hours=settings.garbage_hours),
                held=lambda: store.mark().held,
            ),
            self._follow_engine(),
            orphans.keep_ending(store, base.engine),
            environments.keep_clearing(base.engine, settings.environment_hours),
            feedback_retention.keep_pruning(store, root),
            revive.keep(base.home, base.listeners, delay=0.0),
        )

    async def close(self) -> None:
        await self._prober.close()
        await self._downloads.close()
        await self._base.engine.close()
        await self._base.store.close()

    def _build_controllers(self) -> list[Controller[SqliteStore, Any]]:
        base, context, store, traffic = self._base, self._context, self._base.store, self._traffic
        serving = Serving(
            base.inference_url, context, self._downloads,
            here=self._node.meta.name, traffic=traffic, scaler=self._autoscaler, checkpoints=self._checkpoints,
        )  # fmt: skip
        graphs = Graphs(base.inference_url, context, prober=self._prober, traffic=traffic)
        monitors = _build_monitors(context, base.home, base.listeners)
        accepting = (acceptance.Acceptance(kind, context, store.identities, store.secrets) for kind in acceptance.KINDS)
        working = (Models(context), Versions(context), serving, graphs, self.jobs, monitors, Workloads(base.engine))
        return [*working, *accepting]

    def _enqueue(self, ref: Ref) -> None:
        self._loop.enqueue(ref)

    async def _follow_engine(self) -> None:
        async for ref in self._base.engine.changes():
            self._enqueue(ref)


def _build_monitors(context: Context, home: Home, listeners: Mapping[str, int]) -> ModelMonitors:
    """Creates the key that monitoring tools require of callers: without it, no tool starts."""
    tool_key.read_or_create(home.run)
    return ModelMonitors(context, home.data_dir, control_url=_control_url(listeners), installed=_is_installed)


async def _report_lost_key(vault: Vault) -> None:
    """The plane serves without its key, but no process with a secret starts."""
    try:
        await vault.check()
    except MizzenError as error:
        log.error("%s; %s", error.message, error.hint)  # noqa: TRY400 - the message says all


def _report_broken_plugins() -> None:
    """Run before the first request, in a thread: it imports third-party code, in separate processes."""
    for broken in frameworks.broken():
        log.warning("the plug-in %s", broken)


def _size_of(store: Path) -> int:
    """Including the write-ahead log, which is not yet merged into the database."""
    files = (store, store.with_name(f"{store.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


async def _open_store(path: Path, keep_events: int, room: Room) -> SqliteStore:
    """Creates the built-in namespaces, which a data dir of an older release may lack."""
    store = await SqliteStore.open(path, clock=_now, new_id=_new_id, keep_events=keep_events, room=room.for_writes)
    await namespaced_store.create_missing(store, await store.namespaces())
    return store


def _serve_control(
    app: Starlette, settings: Settings, listeners: Mapping[str, int]
) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
    """The app on both sockets of the control API, until SIGTERM; and the task that renews the TLS certificate."""
    plain, tls = socket_of(listeners["control"]), socket_of(listeners["control-tls"])
    names = socket.gethostname(), settings.host, tls.getsockname()[0], *settings.tls_names
    certificates = Certificates(settings.root / "tls", names, _now)
    context = certificates.context()
    certificates.link_inference_certificate(settings.user_certificate[0] if settings.user_certificate else None)

    limiter = ConnectionLimiter(Timeouts(unread=settings.untaken_seconds), max_connections())

    def server(with_tls: ssl.SSLContext | None = None) -> WebServer:
        protocol = partial(LimitedProtocol, limiter=limiter)
        grace = max(1.0, settings.stop_timeout)
        return WebServer(app, protocol, limiter, stop_timeout=grace, log_level=settings.log_level, tls=with_tls)

    serving = serve_all((server(), plain), (server(context), tls), on_stop=lambda: begin_stop(app))
    return serving, certificates.keep_current(context)


def _control_url(listeners: Mapping[str, int]) -> str:
    with socket_of(listeners["control"]) as listening:
        return url_of(listening)


def _is_installed(package: str) -> bool:
    """Whether this interpreter can find the package. Nothing is imported."""
    importlib.invalidate_caches()
    return importlib.util.find_spec(package) is not None


def _inference_url(settings: Settings, listeners: Mapping[str, int]) -> str:
    """The URL in statuses. With TLS it uses a name of the certificate, which cannot contain a wildcard address."""
    listening, secure = inference_of(listeners)
    if not secure:
        return url_of(listening)
    return url_of(listening, "https", settings.tls_names[0] if settings.tls_names else "")


def _find_issuer(settings: Settings) -> tuple[TrustedIssuer, IssuerKeys] | None:
    """The issuer whose JWTs are accepted, if any, and the source of its keys."""
    if not settings.oidc_issuer:
        return None
    claims = settings.oidc_user_claim, settings.oidc_groups_claim, settings.oidc_admin_group
    trust = TrustedIssuer(settings.oidc_issuer, settings.oidc_audience, *claims)
    # Relative to the data dir, which is the plane's working directory wherever it was started.
    return trust, IssuerKeys(settings.oidc_issuer, settings.oidc_keys, time.monotonic)


def _build_access_publisher(
    settings: Settings, store: SqliteStore, token: AdminToken, issuer: tuple[TrustedIssuer, IssuerKeys] | None
) -> AccessPublisher:
    """The publisher of the access rights that gateways enforce."""
    return AccessPublisher(
        store,
        store.identities,
        RoleBindingCache(store).current,
        settings.root / "access.json",
        admin=access_file.TokenEntry(
            digest=credentials.digest(token), id="admin-token", principal=ADMIN.name, admin=True
        ),
        anonymous=settings.loopback and settings.anonymous,
        trusted_issuer=IssuerWithKeys(*issuer) if issuer else None,
        now=_now,
        mark=store.mark,
    )


def _build_event_recorder(store: SqliteStore) -> EventRecorder:
    """The recorder of Events. Readers of a model may read the Events of all objects that belong to it."""
    return EventRecorder(store, lambda resource: min(targets.of(resource).models, default=""), now=_now)


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex

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
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from mizzen import frameworks
from mizzen.access import access_file, credentials, quota_usage
from mizzen.access.jwt import Trust
from mizzen.assemble import environments, feedback_retention, training
from mizzen.assemble.boot import gateways
from mizzen.assemble.sockets import inference_of, socket_of, until_stopped, url_of
from mizzen.assemble.traffic_barrier import Carrying
from mizzen.blobs.disk_room import Room, free_bytes
from mizzen.blobs.limits import Limits
from mizzen.controllers import acceptance
from mizzen.controllers.access_publisher import AccessPublisher, Vouching
from mizzen.controllers.events import Happenings
from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.graphs.service_probes import Probes
from mizzen.controllers.local_node import keep_registered, node_of
from mizzen.controllers.models import Models
from mizzen.controllers.monitors import Monitors
from mizzen.controllers.refusal_ingest import RefusalsIntake
from mizzen.controllers.scaling.autoscaler import Autoscaler
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.table_acks import Traffic
from mizzen.controllers.table_publisher import TablePublisher
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.gpus import discovery
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Ref
from mizzen.protocol.gateway_files import counts, demand, table_acks
from mizzen.reconcile.loop import Loop
from mizzen.runs.checkpoints import Shelf
from mizzen.selection import state_db
from mizzen.selection.state_reader import Reader
from mizzen.server.admin.metrics import Inside
from mizzen.server.admin.tls_certificates import Certificates
from mizzen.server.admission import namespaced_store
from mizzen.server.app import begin_stop, create_app
from mizzen.server.auth import targets
from mizzen.server.auth.authentication import ADMIN
from mizzen.server.auth.jwks import IssuerKeys
from mizzen.server.auth.oidc import Oidc
from mizzen.server.auth.role_bindings import Bindings
from mizzen.server.auth.tokens import AdminToken
from mizzen.server.deletion import audit_retention
from mizzen.server.deletion.cascade import finish_cascades
from mizzen.server.deletion.garbage import keep_collecting
from mizzen.server.deletion.namespaces import keep_emptying
from mizzen.server.http import pagination
from mizzen.server.monitor import tool_key
from mizzen.server.versions.manifest_downloads import Fetches
from mizzen.settings import Settings
from mizzen.stores.records.vault import Vault
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.supervisor import revive
from mizzen.supervisor.data_dir import Home
from mizzen.usage.inventory import Kept
from mizzen.usage.processes import Processes
from mizzen.usage.sampler import Sampler
from mizzen.web.connection_limits import Door, Patience, most_connections
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer, serve_all

log = logging.getLogger(__name__)


async def run(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The control API and the controllers, until SIGTERM."""
    root = settings.root
    home = Home.of(root)
    token = AdminToken.load_or_create(root / "admin-token")
    inference_url = _inference_url(settings, listeners)
    room = Room(root, settings.disk_low_bytes, settings.disk_critical_bytes)
    store = await _store(root / "mizzen.db", settings.keep_events, room)
    counts.sweep(home.run / counts.FOLDER, gateways(settings))
    table_acks.sweep(home.run / table_acks.FOLDER, gateways(settings))
    demand.sweep(home.run / demand.FOLDER, gateways(settings))
    vault = Vault(store.secrets, root / "secret-key")
    blobs, told_to_runners = await training.blobs_of(settings, vault, room)
    making = environments.making(settings)
    await asyncio.to_thread(_look_for_plugins)
    gpus = await asyncio.to_thread(discovery.found, settings.gpus)
    engine = LocalEngine(
        home, blobs, python=sys.executable, reveal=vault.reveal, making=making, gpus=gpus,
        blob_env=training.disk_marks(settings), blob_secrets=told_to_runners,
    )  # fmt: skip
    context = Context(capabilities=frozenset(engine.capabilities))
    machine = node_of(socket.gethostname(), context.capabilities, len(gpus))

    def poke(ref: Ref) -> None:
        loop.poke(ref)

    fetches = Fetches(lambda: app.state.plane, poke)
    accepting = (acceptance.Acceptance(kind, context, store.identities, store.secrets) for kind in acceptance.KINDS)
    traffic = Traffic(home.run / table_acks.FOLDER, clock=time.monotonic)
    scaling = Autoscaler(home.run / demand.FOLDER, poke, clock=time.monotonic)
    shelf = Shelf(blobs.documents)
    serving = Serving(
        inference_url, context, fetches, here=machine.meta.name, traffic=traffic, scaling=scaling, checkpoints=shelf
    )
    probes = Probes(poke)
    graphs = Graphs(inference_url, context, probing=probes, traffic=traffic)
    jobs = training.controller(
        settings, store, blobs, context, gpus=len(gpus), here=machine.meta.name, poke=poke, now=_now
    )
    await jobs.prime(store)
    monitors = _monitors(context, home, listeners)
    working = (Models(context), Versions(context), serving, graphs, jobs, monitors, Workloads(engine))
    happenings = _recorder(store)
    loop = Loop(store, [*working, *accepting], now=_now, recorder=happenings)
    vouching = _vouching(settings)
    publisher = _publisher(settings, store, token, vouching)
    tables = TablePublisher(store, root / "table.json", published=traffic.published)
    processes, sampler = _watching(home, tables)
    # Before anybody is answered: whoever got in at the last start may have lost their rights since.
    await publisher.publish()
    app = create_app(
        store=store,
        blobs=blobs,
        identities=store.identities,
        secrets=store.secrets,
        vault=vault,
        audit=store.audit,
        admin_token=token,
        inference_url=inference_url,
        shelf=shelf,
        data_dir=root,
        logs=engine.logs,
        ready=lambda: True,
        now=_now,
        loopback=settings.loopback,
        anonymous=settings.anonymous,
        capabilities=context.capabilities,
        oidc=Oidc(*vouching, _now) if vouching else None,
        settle=publisher.settled,
        carried=Carrying(tables, traffic),
        pages=pagination.Pages.kept(root / "page-key"),
        limits=Limits(settings.max_upload_bytes, settings.max_unpacked_bytes),
        default_framework=settings.default_framework,
        recorder=happenings,
        used=lambda subject: quota_usage.now(root / quota_usage.FILE, subject, time.time()),
        seen=sampler,
        learnt=Reader(root / state_db.FILE),
        inside=Inside(store.tally, loop.backlogs, lambda: _size_of(root / "mizzen.db"), lambda: free_bytes(root)),
    )

    async def hints() -> None:
        async for ref in engine.changes():
            poke(ref)

    try:
        await until_stopped(
            *_answering(app, settings, listeners),
            loop.run(),
            happenings.run(),
            tables.run(),
            scaling.run(),
            processes.run(),
            sampler.run(),
            publisher.run(),
            RefusalsIntake(store.audit, root / "refusals").run(),
            audit_retention.keep_pruning(
                store.audit, _now, days=settings.audit_days, refusals=settings.audit_refusal_rows
            ),
            finish_cascades(store),
            keep_emptying(store, vault),
            keep_registered(store, machine, _now, room=room, recorder=happenings),
            keep_collecting(store, blobs, _now, data_dir=root, grace=timedelta(hours=settings.garbage_hours)),
            hints(),
            environments.keep_clearing(engine, settings.environment_hours),
            feedback_retention.keep_tidy(store, root),
            revive.keep(home, listeners, delay=0.0),
        )
    finally:
        await probes.close()
        await fetches.close()
        await engine.close()
        await store.close()


def _monitors(context: Context, home: Home, listeners: Mapping[str, int]) -> Monitors:
    """With the key that the tools they start ask for: without it, none runs."""
    tool_key.kept(home.run)
    return Monitors(context, home.data_dir, control_url=_control_url(listeners), installed=_is_installed)


def _watching(home: Home, tables: TablePublisher) -> tuple[Processes, Sampler]:
    """Who sees what is used: which processes there are, and what they and the gateways say."""
    processes = Processes(home)
    return processes, Sampler(home.run / counts.FOLDER, processes, Kept(tables.told), clock=time.time)


def _look_for_plugins() -> None:
    """Before anybody asks, and beside the event loop: it imports other people's code, in processes of its own."""
    for broken in frameworks.broken():
        log.warning("the plug-in %s", broken)


def _size_of(store: Path) -> int:
    """With what has been written and not yet moved to its place."""
    files = (store, store.with_name(f"{store.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


async def _store(path: Path, keep_events: int, room: Room) -> SqliteStore:
    """With the namespaces that have to be there, also in a data dir that is older than they are."""
    store = await SqliteStore.open(path, clock=_now, new_id=_new_id, keep_events=keep_events, room=room.for_writes)
    await namespaced_store.prepare(store, await store.namespaces())
    return store


def _answering(
    app: Starlette, settings: Settings, listeners: Mapping[str, int]
) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
    """The app on both sockets of the control API, until SIGTERM; and what keeps the certificate of one current."""
    plain, tls = socket_of(listeners["control"]), socket_of(listeners["control-tls"])
    names = socket.gethostname(), settings.host, tls.getsockname()[0], *settings.tls_names
    certificates = Certificates(settings.root / "tls", names, _now)
    context = certificates.context()
    certificates.point_to(settings.given_certificate[0] if settings.given_certificate else None)

    door = Door(Patience(untaken=settings.untaken_seconds), most_connections())

    def server(with_tls: ssl.SSLContext | None = None) -> WebServer:
        protocol = partial(LimitedProtocol, door=door)
        grace = max(1.0, settings.stop_timeout)
        return WebServer(app, protocol, door, stop_timeout=grace, log_level=settings.log_level, tls=with_tls)

    serving = serve_all((server(), plain), (server(context), tls), on_stop=lambda: begin_stop(app))
    return serving, certificates.keep_current(context)


def _control_url(listeners: Mapping[str, int]) -> str:
    with socket_of(listeners["control"]) as listening:
        return url_of(listening)


def _is_installed(package: str) -> bool:
    """Where this interpreter finds packages. Nothing is imported."""
    importlib.invalidate_caches()
    return importlib.util.find_spec(package) is not None


def _inference_url(settings: Settings, listeners: Mapping[str, int]) -> str:
    """As others are told it. No certificate names an address that stands for all."""
    listening, secure = inference_of(listeners)
    if not secure:
        return url_of(listening)
    return url_of(listening, "https", settings.tls_names[0] if settings.tls_names else "")


def _vouching(settings: Settings) -> tuple[Trust, IssuerKeys] | None:
    """Whose JWTs are taken, if anybody's, and where the keys come from."""
    if not settings.oidc_issuer:
        return None

    trust = Trust(
        settings.oidc_issuer,
        settings.oidc_audience,
        settings.oidc_user_claim,
        settings.oidc_groups_claim,
        settings.oidc_admin_group,
    )
    # Relative to the data dir: that is where a plane runs, wherever it was started.
    return trust, IssuerKeys(settings.oidc_issuer, settings.oidc_keys, time.monotonic)


def _publisher(
    settings: Settings, store: SqliteStore, token: AdminToken, vouching: tuple[Trust, IssuerKeys] | None
) -> AccessPublisher:
    """Tells gateways who may ask what."""
    return AccessPublisher(
        store,
        store.identities,
        Bindings(store).fresh,
        settings.root / "access.json",
        admin=access_file.Pass(digest=credentials.digest(token), id="admin-token", principal=ADMIN.name, admin=True),
        anonymous=settings.loopback and settings.anonymous,
        vouching=Vouching(*vouching) if vouching else None,
        now=_now,
    )


def _recorder(store: SqliteStore) -> Happenings:
    """Keeps Events of what controllers do; who may read a model may read those of all that belongs to it."""
    return Happenings(store, lambda resource: min(targets.of(resource).models, default=""), now=_now)


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex

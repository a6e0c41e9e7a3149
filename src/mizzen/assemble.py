"""Settings -> a running plane or gateway. The only file that names concrete classes.

`find` and `start` are what `mizzen up` calls; `start` writes down what to run and starts the supervisor. That then runs
this module as `python -m mizzen.assemble plane` and `… gateway`, with the settings and the listening sockets in the
environment. Imports stand inside the functions, because a gateway must not pay for a plane.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import time
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from mizzen.errors import MizzenError
from mizzen.settings import Settings
from mizzen.supervisor.home import Home
from mizzen.supervisor.protocol import Boot, Listener, ProcessSpec

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from starlette.applications import Starlette

    from mizzen.access.jwts import Trust
    from mizzen.controllers.access import AccessPublisher
    from mizzen.controllers.happenings import Happenings
    from mizzen.kinds.meta import Ref
    from mizzen.server.jwks import IssuerKeys
    from mizzen.server.tokens import AdminToken
    from mizzen.stores.sqlite import SqliteStore

RANK_GATEWAY, RANK_PLANE = 0, 1
"""Order of stopping: first nobody comes in any more, then nobody decides; runtimes follow with rank 2."""

log = logging.getLogger("mizzen")


@dataclass(frozen=True, slots=True)
class Running:
    """A plane that has been started: where it is, not whether it is ready yet."""

    control_url: str
    inference_url: str
    data_dir: str
    supervisor_pid: int
    already_running: bool


def find(home: Home) -> Running | None:
    """The plane that runs in this data dir and will go on; waits some seconds while that is unsure."""
    from mizzen.supervisor import launch

    info = launch.settled(home)
    return None if info is None else _running(info, already=True)


def settings_of(home: Home) -> Settings | None:
    """Those the plane of this data dir was last started with."""
    try:
        texts = [process.env["MIZZEN_SETTINGS"] for process in Boot.read(home.boot).processes]
        return Settings.from_json(texts[0])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def start(settings: Settings) -> Running:
    """Start the supervisor of this data dir, for when `find` found none. Raises launch.StartFailed.

    It ends again unless somebody ties a tether to it soon: a starter that dies leaves nothing behind.
    """
    from mizzen.supervisor import launch

    home = Home.of(settings.root)
    home.prepare()
    boot(settings, home).write(home.boot)
    here = launch.launch(home, python=sys.executable, tethered=True)
    info = launch.alive(home)
    if info is None:
        raise launch.StartFailed("the supervisor ended right after its start")
    return _running(info, already=not here)


def _running(info: Mapping[str, Any], *, already: bool) -> Running:
    from mizzen.sdk import locate

    control_url, inference_url = locate.urls(info)
    return Running(control_url, inference_url, info["data_dir"], info["pid"], already_running=already)


def url_of(listener: Mapping[str, Any]) -> str:
    host = listener["host"]
    return f"http://{f'[{host}]' if ':' in host else host}:{listener['port']}"


def boot(settings: Settings, home: Home) -> Boot:
    """What the supervisor holds and runs by itself: the sockets, the plane, and the gateways."""

    def process(key: str, role: str, rank: int) -> ProcessSpec:
        return ProcessSpec(
            key=key,
            argv=(sys.executable, "-P", "-m", "mizzen.assemble", role),
            env={"MIZZEN_SETTINGS": settings.to_json()},
            cwd=str(settings.root),
            log=str(home.logs / f"{key}.log"),
            grace=settings.stop_timeout,
            listeners=True,
            rank=rank,
        )

    return Boot(
        listeners=(
            Listener("control", settings.host, settings.port),
            Listener("control-tls", settings.host, settings.tls_port),
            Listener("inference", settings.host, settings.inference_port),
        ),
        processes=(
            process("plane", "plane", RANK_PLANE),
            *(process(f"gateway-{number}", "gateway", RANK_GATEWAY) for number in range(settings.gateways)),
        ),
        stop_timeout=settings.stop_timeout,
    )


async def plane(settings: Settings, listeners: Mapping[str, int]) -> None:  # noqa: PLR0915 - a list of parts
    """The control API and the controllers, until SIGTERM."""
    from mizzen.blobs.files import FileBlobs
    from mizzen.blobs.limits import Limits
    from mizzen.controllers import acceptance
    from mizzen.controllers.machine import keep_registered, node_of
    from mizzen.controllers.models import Models
    from mizzen.controllers.refusals import RefusalsIntake
    from mizzen.controllers.serving import Serving
    from mizzen.controllers.table import TablePublisher
    from mizzen.controllers.versions import Versions
    from mizzen.controllers.workloads import Workloads
    from mizzen.engines.local.engine import LocalEngine
    from mizzen.kinds.findings import Context
    from mizzen.reconcile.loop import Loop
    from mizzen.server import pages, pruning
    from mizzen.server.app import create_app
    from mizzen.server.collection import keep_collecting
    from mizzen.server.emptying import keep_emptying
    from mizzen.server.fetching import Fetches
    from mizzen.server.oidc import Oidc
    from mizzen.server.removal import finish_cascades
    from mizzen.server.tokens import AdminToken
    from mizzen.stores.vault import Vault
    from mizzen.supervisor import revive

    root = settings.root
    home = Home.of(root)
    token = AdminToken.load_or_create(root / "admin-token")
    inference_url = url_of(dict(zip(("host", "port"), _socket(listeners["inference"]).getsockname()[:2], strict=True)))
    store = await _store(root / "mizzen.db", settings.keep_events)
    blobs = FileBlobs(root / "blobs")
    await asyncio.to_thread(blobs.sweep)
    vault = Vault(store.secrets, root / "secret-key")
    engine = LocalEngine(home, blobs, python=sys.executable, reveal=vault.reveal)
    context = Context(capabilities=frozenset(engine.capabilities))
    machine = node_of(socket.gethostname(), context.capabilities)

    def poke(ref: Ref) -> None:
        loop.poke(ref)

    fetches = Fetches(lambda: app.state.plane, poke)
    accepting = (acceptance.Acceptance(kind, context, store.identities, store.secrets) for kind in acceptance.KINDS)
    serving = Serving(inference_url, context, fetches, here=machine.meta.name)
    working = (Models(context), Versions(context), serving, Workloads(engine))
    happenings = _recorder(store)
    loop = Loop(store, [*working, *accepting], now=_now, recorder=happenings)
    vouching = _vouching(settings)
    publisher = _publisher(settings, store, token, vouching)
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
        logs=engine.logs,
        ready=lambda: True,
        now=_now,
        loopback=settings.loopback,
        anonymous=settings.anonymous,
        capabilities=context.capabilities,
        oidc=Oidc(*vouching, _now) if vouching else None,
        settle=publisher.settled,
        pages=pages.Pages.kept(root / "page-key"),
        limits=Limits(settings.max_upload_bytes, settings.max_unpacked_bytes),
        default_framework=settings.default_framework,
        recorder=happenings,
    )

    async def hints() -> None:
        async for ref in engine.changes():
            poke(ref)

    try:
        await _until_stopped(
            *_answering(app, settings, listeners),
            loop.run(),
            happenings.run(),
            TablePublisher(store, root / "table.json").run(),
            publisher.run(),
            RefusalsIntake(store.audit, root / "refusals").run(),
            pruning.keep_pruning(store.audit, _now, days=settings.audit_days, refusals=settings.audit_refusal_rows),
            finish_cascades(store),
            keep_emptying(store, vault),
            keep_registered(store, machine, _now),
            keep_collecting(store, blobs, _now, grace=timedelta(hours=settings.garbage_hours)),
            hints(),
            revive.keep(home, listeners, delay=0.0),
        )
    finally:
        await fetches.close()
        await engine.close()
        await store.close()


async def _store(path: Path, keep_events: int) -> SqliteStore:
    """With the namespaces that have to be there, also in a data dir that is older than they are."""
    from mizzen.server import namespaces
    from mizzen.stores.sqlite import SqliteStore

    store = await SqliteStore.open(path, clock=_now, new_id=_new_id, keep_events=keep_events)
    await namespaces.prepare(store, await store.namespaces())
    return store


def _answering(
    app: Starlette, settings: Settings, listeners: Mapping[str, int]
) -> tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, None]]:
    """The app on both sockets of the control API, until SIGTERM; and what keeps the certificate of one current."""
    from mizzen.server.app import begin_stop
    from mizzen.server.certificates import Certificates
    from mizzen.webserver import Door, LimitedProtocol, Patience, WebServer, most_connections, serve_all

    plain, tls = _socket(listeners["control"]), _socket(listeners["control-tls"])
    names = socket.gethostname(), settings.host, tls.getsockname()[0]
    certificates = Certificates(settings.root / "tls", names, _now)
    context = certificates.context()

    door = Door(Patience(untaken=settings.untaken_seconds), most_connections())

    def server(with_tls: ssl.SSLContext | None = None) -> WebServer:
        protocol = partial(LimitedProtocol, door=door)
        grace = max(1.0, settings.stop_timeout)
        return WebServer(app, protocol, door, stop_timeout=grace, log_level=settings.log_level, tls=with_tls)

    serving = serve_all((server(), plain), (server(context), tls), on_stop=lambda: begin_stop(app))
    return serving, certificates.keep_current(context)


async def gateway(settings: Settings, listeners: Mapping[str, int]) -> None:
    """The inference API, until SIGTERM."""
    from mizzen.gateway.serve import Guard, Limits, serve
    from mizzen.supervisor import revive
    from mizzen.webserver import most_connections

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
    await _until_stopped(
        serve(
            socket=_socket(listeners["inference"]),
            table=settings.root / "table.json",
            control=_reachable(_socket(listeners["control"])),
            guard=guard,
            limits=limits,
            log_level=settings.log_level,
        ),
        revive.keep(Home.of(settings.root), listeners, delay=1.0),
    )


def _reachable(listening: socket.socket) -> str:
    """The URL of a socket of this machine: what listens at all addresses is found at its own."""
    host, port = listening.getsockname()[:2]
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not listened on
    return url_of({"host": own, "port": port})


def main() -> None:
    """Run by the supervisor as `python -m mizzen.assemble plane|gateway`."""
    import uvloop

    settings = Settings.from_json(os.environ["MIZZEN_SETTINGS"])
    listeners: dict[str, int] = json.loads(os.environ["MIZZEN_LISTENERS"])
    _set_up_log(settings.log_level)
    role = {"plane": plane, "gateway": gateway}[sys.argv[1]]
    try:
        uvloop.run(role(settings, listeners))
    except MizzenError as error:
        # The last lines of the log, which whoever waits for the start shows.
        sys.exit(f"error: {error.message}\nhint: {error.hint}" if error.hint else f"error: {error.message}")


def _set_up_log(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    for name in ("httpx2", "httpcore2"):  # they tell of every URL, also of one with a signature in it
        logging.getLogger(name).setLevel(logging.WARNING)


def _vouching(settings: Settings) -> tuple[Trust, IssuerKeys] | None:
    """Whose JWTs are taken, if anybody's, and where the keys come from."""
    if not settings.oidc_issuer:
        return None
    from mizzen.access.jwts import Trust
    from mizzen.server.jwks import IssuerKeys

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
    from mizzen.access import credentials, published
    from mizzen.controllers.access import AccessPublisher, Vouching
    from mizzen.server.bindings import Bindings
    from mizzen.server.identity import ADMIN

    return AccessPublisher(
        store,
        store.identities,
        Bindings(store).fresh,
        settings.root / "access.json",
        admin=published.Pass(digest=credentials.digest(token), id="admin-token", principal=ADMIN.name, admin=True),
        anonymous=settings.loopback and settings.anonymous,
        vouching=Vouching(*vouching) if vouching else None,
        now=_now,
    )


def _recorder(store: SqliteStore) -> Happenings:
    """Keeps Events of what controllers do; who may read a model may read those of all that belongs to it."""
    from mizzen.controllers.happenings import Happenings
    from mizzen.server import targets

    return Happenings(store, lambda resource: min(targets.of(resource).models, default=""), now=_now)


async def _until_stopped(server: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run all of them until the server ends, which is how a stop is asked for. Any other end is loud."""

    async def must_not_end(work: Coroutine[Any, Any, None]) -> None:
        await work
        raise RuntimeError(f"{work} ended by itself")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(must_not_end(work)) for work in others]
        await server
        for task in tasks:
            task.cancel()


def _socket(fd: int) -> socket.socket:
    listening = socket.socket(fileno=os.dup(fd))
    listening.setblocking(False)
    return listening


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return uuid.uuid4().hex


if __name__ == "__main__":
    main()

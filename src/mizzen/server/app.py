"""The control API as one ASGI application: routes, and the layers every request passes through.

From the outside in: errors in one shape; the audit; Host and Origin; refusal while stopping; room for deletions;
gateways told; who asks; no answer without a decision. A write is acknowledged after the store has returned, and a
store returns when it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.limits import Limits
from mizzen.errors import MizzenError, Unavailable
from mizzen.kinds import catalog
from mizzen.reconcile.recorder import NOBODY, Recorder
from mizzen.runs.checkpoints import Shelf
from mizzen.selection.state_reader import Reader
from mizzen.server.admin import metrics, openapi, usage, users
from mizzen.server.admin import rate_limits as limit_routes
from mizzen.server.admin import secrets as secret_routes
from mizzen.server.admin.metrics import Inside
from mizzen.server.admission.namespaced_store import NamespacedStore
from mizzen.server.auth import audit as audit_routes
from mizzen.server.auth.access_barrier import Settle, Settled, nothing_to_settle
from mizzen.server.auth.audit import Audited
from mizzen.server.auth.authentication import Identity
from mizzen.server.auth.authorization import FailClosed, Identify
from mizzen.server.auth.oidc import Oidc
from mizzen.server.auth.origin_check import LoopbackOnly
from mizzen.server.auth.role_bindings import Bindings
from mizzen.server.auth.tokens import AdminToken
from mizzen.server.http.context import Carried, Logs, Plane, nobody_to_carry, plane_of
from mizzen.server.http.disk_pressure import Freeing
from mizzen.server.http.errors import ErrorBoundary, answer_http_exception, answer_mizzen_error
from mizzen.server.http.pagination import Pages
from mizzen.server.kubernetes import access_reviews, crds, discovery, events, namespaces, openapi_v3
from mizzen.server.models import aliases, graphs, history, routes, servers, suggestions, triton_repository
from mizzen.server.monitor import routes as monitor_routes
from mizzen.server.monitor.sessions import Visits
from mizzen.server.resources import routes as resources_routes
from mizzen.server.training import checkpoints
from mizzen.server.training import routes as training_routes
from mizzen.server.versions import routes as versions_routes
from mizzen.server.versions import uploads
from mizzen.stores.records.protocol import AuditLog, Identities, Secrets
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Store
from mizzen.usage.sampler import Unseen, Usage


def create_app(
    *,
    store: Store,
    blobs: FileBlobs,
    identities: Identities,
    secrets: Secrets,
    vault: Vault,
    audit: AuditLog,
    admin_token: str,
    inference_url: str,
    logs: Logs,
    ready: Callable[[], bool],
    now: Callable[[], datetime],
    loopback: bool = True,
    anonymous: bool = True,
    oidc: Oidc | None = None,
    capabilities: frozenset[str] = frozenset(),
    pages: Pages | None = None,
    limits: Limits | None = None,
    default_framework: str = "",
    settle: Settle = nothing_to_settle,
    carried: Carried = nobody_to_carry,
    recorder: Recorder = NOBODY,
    seen: Usage | None = None,
    used: Callable[[str], dict[str, int]] = lambda _: {},
    learnt: Reader | None = None,
    inside: Inside | None = None,
    shelf: Shelf | None = None,
    data_dir: Path | None = None,
) -> Starlette:
    """`loopback`: nobody but this machine can reach it; else nobody without a token gets anything, whatever `anonymous`
    says. `oidc`: whose JWTs are taken. `settle`: waits until gateways can know of rights that were written, `carried`:
    until they follow what was decided about traffic. `recorder`: who is told what people decided. `seen` and `inside`:
    what is told of what is used. `used`: how much of their quotas somebody has. `learnt`: what feedback has taught.
    `shelf` and `data_dir`: where checkpoints and the files of jobs are; if absent, with and beside the blobs."""
    bindings, visits = Bindings(store), Visits(now)
    identity = Identity(AdminToken(admin_token), identities, oidc, now)
    plane = Plane(
        store=NamespacedStore(store),
        blobs=blobs,
        inference_url=inference_url,
        logs=logs,
        ready=ready,
        now=now,
        identities=identities,
        secrets=secrets,
        vault=vault,
        audit=audit,
        bindings=bindings,
        usage=seen or Unseen(),
        used=used,
        learnt=learnt or Reader(None),
        anonymous=loopback and anonymous,
        shelf=shelf or Shelf(blobs.documents),
        data_dir=data_dir or blobs.root.parent,
        capabilities=capabilities,
        pages=pages or Pages(),
        limits=limits or Limits(),
        default_framework=default_framework,
        recorder=recorder,
        carried=carried,
    )
    app = Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/livez", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            *discovery.routes(),
            *openapi_v3.routes(),
            *crds.routes(),
            *access_reviews.routes(),
            *namespaces.routes(),
            *openapi.routes(),
            *resources_routes.routes(),
            *events.routes(),
            *routes.routes(),
            *aliases.routes(),
            *history.routes(),
            *versions_routes.routes(),
            *uploads.routes(),
            *servers.routes(),
            *training_routes.routes(),
            *checkpoints.routes(),
            *monitor_routes.routes(identity, visits, plane.data_dir),
            *triton_repository.routes(),
            *users.routes(),
            *limit_routes.routes(),
            *secret_routes.routes(),
            *audit_routes.routes(),
            *usage.routes(),
            *graphs.routes(),
            *metrics.routes(inside or Inside()),
        ],
        middleware=[
            Middleware(ErrorBoundary),
            Middleware(Audited, log=audit, now=now),
            Middleware(LoopbackOnly, loopback=loopback),
            Middleware(RefuseWhileStopping, plane=plane),
            Middleware(Freeing),
            Middleware(Settled, settle=settle),
            Middleware(Identify, identity=identity, bindings=bindings, visitor=visits.visitor),
            Middleware(FailClosed, plane=plane),
        ],
        exception_handlers={MizzenError: answer_and_note, HTTPException: answer_http_exception},
    )
    # A redirect would be an answer that nobody decided on.
    app.router.redirect_slashes = False
    app.state.plane = plane
    return app


def begin_stop(app: Starlette) -> None:
    """From now on requests get 503, and watches and followed logs end, so that a graceful stop has nothing to wait for.

    Call it in the app's event loop.
    """
    app.state.plane.stopping.set()


class RefuseWhileStopping:
    def __init__(self, app: ASGIApp, plane: Plane) -> None:
        self.app = app
        self.plane = plane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self.plane.stopping.is_set() and scope["path"] not in ("/healthz", "/livez"):
            raise Unavailable("the plane is stopping")
        await self.app(scope, receive, send)


async def answer_and_note(request: Request, error: Exception) -> Response:
    """For the audit, which is to say why a route refused something."""
    assert isinstance(error, MizzenError)
    request.state.error = error
    return await answer_mizzen_error(request, await suggestions.explained(request, error))


async def index(request: Request) -> Response:
    kinds = {kind.plural: f"{resources_routes.ROOT}/{kind.plural}" for kind in catalog.KINDS}
    links = {
        "models": "/model", "users": "/user", "secrets": "/secret", "audit": "/audit", "whoami": "/whoami",
        "usage": "/usage", "metrics": "/metrics",
        "health": "/healthz", "ready": "/readyz", "version": "/version", "discovery": "/apis",
        "openapi": "/openapi.json", "resources": kinds,
    }  # fmt: skip
    return JSONResponse({"name": "mizzen", "inference": _inference_url(request), "links": links})


def _inference_url(request: Request) -> str:
    """As whoever asks can reach it: all addresses of this machine are none to connect to from another."""
    url = URL(plane_of(request).inference_url)
    everywhere = url.hostname in ("0.0.0.0", "::") and request.url.hostname  # noqa: S104 - compared, not listened on
    return str(url.replace(hostname=request.url.hostname) if everywhere else url)


async def healthz(_request: Request) -> Response:
    return JSONResponse({"live": True})


async def readyz(request: Request) -> Response:
    if not plane_of(request).ready():
        raise Unavailable("the plane is starting")
    return JSONResponse({"ready": True})

"""The control API as one ASGI application: the routes, and the middleware that every request passes through.

From the outside in: errors in one shape; the audit; Host and Origin checks; refusal while stopping; deletions on a full
disk; the barrier until gateways know of changed rights; authentication; the turn of the actor; no response without an
access decision. A write is acknowledged after the store has returned, and the store returns when the write is on disk.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.errors import MizzenError, Unavailable
from mizzen.kinds import catalog
from mizzen.server.admin import metrics, openapi, usage, users
from mizzen.server.admin import rate_limits as limit_routes
from mizzen.server.admin import secrets as secret_routes
from mizzen.server.admin.metrics import PlaneStats
from mizzen.server.auth import audit as audit_routes
from mizzen.server.auth.access_barrier import AccessBarrier, WaitPublished, no_gateways
from mizzen.server.auth.audit import AuditMiddleware
from mizzen.server.auth.authentication import ADMIN, Authenticator
from mizzen.server.auth.authorization import AuthenticationMiddleware, FailClosedMiddleware
from mizzen.server.auth.oidc import OidcAuthenticator
from mizzen.server.auth.origin_check import OriginMiddleware
from mizzen.server.auth.tokens import AdminToken
from mizzen.server.flow_control.limits import FlowControl, FlowLimits
from mizzen.server.flow_control.middleware import FlowControlMiddleware
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.disk_pressure import AllowDeletesWhenFull
from mizzen.server.http.errors import ErrorBoundary, answer_http_exception, answer_mizzen_error
from mizzen.server.http.middleware import HttpMiddleware
from mizzen.server.kubernetes import access_reviews, crds, discovery, events, namespaces, openapi_v3
from mizzen.server.models import aliases, graphs, history, routes, servers, suggestions, triton_repository
from mizzen.server.monitor import routes as monitor_routes
from mizzen.server.monitor.sessions import MonitorSessions
from mizzen.server.resources import routes as resources_routes
from mizzen.server.resources.write import WriteHooks
from mizzen.server.training import checkpoints
from mizzen.server.training import routes as training_routes
from mizzen.server.versions import registration, uploads
from mizzen.server.versions import routes as versions_routes

WRITE_HOOKS = {registration.KIND.name: WriteHooks(create=registration.register, keep=registration.keep_decided_fields)}
"""Kinds that the resource API writes in a way of their own."""


def create_app(
    context: ServerContext,
    *,
    admin_token: str,
    loopback: bool = True,
    oidc: OidcAuthenticator | None = None,
    wait_published: WaitPublished = no_gateways,
    internals: PlaneStats | None = None,
    flow_limits: FlowLimits | None = None,
) -> Starlette:
    """`loopback`: only this machine can reach the API. If it is False, callers without a token get nothing, even if
    `context.anonymous` is True. `oidc`: authenticates JWTs of one issuer; without it, none is accepted.
    `wait_published`: waits until gateways can know of changed access rights. `internals`: the sources of the plane's
    own metrics. `flow_limits`: what one actor may have in flight."""
    context = replace(context, anonymous=loopback and context.anonymous)
    sessions = MonitorSessions(context.now)
    flow_control = FlowControl(flow_limits or FlowLimits(), exempt=ADMIN)
    authenticator = Authenticator(AdminToken(admin_token), context.identities, oidc, context.now)
    app = Starlette(
        routes=[
            *_routes(),
            *monitor_routes.routes(authenticator, sessions, context.data_dir),
            *metrics.routes(internals or PlaneStats(), flow_control),
        ],
        middleware=[
            Middleware(ErrorBoundary),
            Middleware(AuditMiddleware, log=context.audit, now=context.now),
            Middleware(OriginMiddleware, loopback=loopback),
            Middleware(RefuseWhileStopping, context=context),
            Middleware(AllowDeletesWhenFull),
            Middleware(AccessBarrier, wait_published=wait_published),
            Middleware(AuthenticationMiddleware, authenticator, context.bindings, sessions.identify),
            Middleware(FlowControlMiddleware, control=flow_control),
            Middleware(FailClosedMiddleware, context=context),
        ],
        exception_handlers={MizzenError: answer_error, HTTPException: answer_http_exception},
    )
    # A redirect would be a response without an access decision.
    app.router.redirect_slashes = False
    app.state.context = context
    app.state.flow_control = flow_control
    app.state.write_hooks = WRITE_HOOKS
    return app


def _routes() -> list[BaseRoute]:
    """All routes that need nothing but the context."""
    return [
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
        *triton_repository.routes(),
        *users.routes(),
        *limit_routes.routes(),
        *secret_routes.routes(),
        *audit_routes.routes(),
        *usage.routes(),
        *graphs.routes(),
    ]


def begin_stop(app: Starlette) -> None:
    """Refuses all requests from now on with 503, and ends watches and followed logs, so that a graceful stop is quick.

    Call it in the app's event loop.
    """
    app.state.context.stopping.set()
    app.state.flow_control.stop()


class RefuseWhileStopping(HttpMiddleware):
    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        super().__init__(app)
        self.context = context

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.context.stopping.is_set() and scope["path"] not in ("/healthz", "/livez"):
            raise Unavailable("the plane is stopping")
        await self.app(scope, receive, send)


async def answer_error(request: Request, error: Exception) -> Response:
    """Also keeps the error for the audit, which records why a route refused a request."""
    assert isinstance(error, MizzenError)
    request.state.error = error
    return await answer_mizzen_error(request, await suggestions.add_suggestion(request, error))


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
    """Returns a URL that the caller can reach: a wildcard address is replaced by the host that the caller used."""
    url = URL(context_of(request).inference_url)
    everywhere = url.hostname in ("0.0.0.0", "::") and request.url.hostname  # noqa: S104 - compared, not listened on
    return str(url.replace(hostname=request.url.hostname) if everywhere else url)


async def healthz(_request: Request) -> Response:
    return JSONResponse({"live": True})


async def readyz(request: Request) -> Response:
    if not context_of(request).ready():
        raise Unavailable("the plane is starting")
    return JSONResponse({"ready": True})

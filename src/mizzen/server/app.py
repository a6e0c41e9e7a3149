"""The control API as one ASGI application: routes, and the layers every request passes through.

From the outside in: errors in one shape; Host and Origin; refusal while stopping; who asks; no answer without a
decision. A write is acknowledged after the store has returned, and a store returns when it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen import __version__
from mizzen.access.policy import Target
from mizzen.blobs.files import FileBlobs
from mizzen.errors import MizzenError, Unavailable
from mizzen.kinds import catalog
from mizzen.server import models, resources, servers, versions
from mizzen.server.auth import AdminToken, FailClosed, Identify, LoopbackOnly, require
from mizzen.server.errors import ErrorBoundary, answer_http_exception, answer_mizzen_error
from mizzen.server.plane import Logs, Plane, plane_of
from mizzen.stores.store import Store


def create_app(
    *,
    store: Store,
    blobs: FileBlobs,
    admin_token: str,
    inference_url: str,
    logs: Logs,
    ready: Callable[[], bool],
    now: Callable[[], datetime],
    loopback: bool = True,
) -> Starlette:
    plane = Plane(store, blobs, inference_url, logs, ready, loopback, now)
    app = Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/version", version, methods=["GET"]),
            *resources.routes(),
            *models.routes(),
            *versions.routes(),
            *servers.routes(),
        ],
        middleware=[
            Middleware(ErrorBoundary),
            Middleware(LoopbackOnly, loopback=loopback),
            Middleware(RefuseWhileStopping, plane=plane),
            Middleware(Identify, token=AdminToken(admin_token)),
            Middleware(FailClosed),
        ],
        exception_handlers={MizzenError: answer_mizzen_error, HTTPException: answer_http_exception},
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
        if self.plane.stopping.is_set() and scope["path"] != "/healthz":
            raise Unavailable("the plane is stopping")
        await self.app(scope, receive, send)


async def index(request: Request) -> Response:
    kinds = {kind.plural: f"{resources.ROOT}/{kind.plural}" for kind in catalog.KINDS}
    links = {"models": "/model", "health": "/healthz", "ready": "/readyz", "version": "/version", "resources": kinds}
    return JSONResponse({"name": "mizzen", "inference": plane_of(request).inference_url, "links": links})


async def healthz(_request: Request) -> Response:
    return JSONResponse({"live": True})


async def readyz(request: Request) -> Response:
    if not plane_of(request).ready():
        raise Unavailable("the plane is starting")
    return JSONResponse({"ready": True})


async def version(request: Request) -> Response:
    require(request, "read", Target("", "Plane"))
    return JSONResponse({"version": __version__, "gitVersion": f"v{__version__}"})

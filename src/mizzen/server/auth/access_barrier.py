"""Delays the response to a change of access rights until gateways can know of it: a revoked token fails there, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.server.http.middleware import HttpMiddleware, respond_after

WaitPublished = Callable[[], Awaitable[None]]
"""Returns when the last change is published; at once if there is nothing to publish. Raises Unavailable."""


class AccessBarrier(HttpMiddleware):
    """Runs inside the audit middleware and outside all routes."""

    def __init__(self, app: ASGIApp, wait_published: WaitPublished) -> None:
        super().__init__(app)
        self.wait_published = wait_published

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
        else:
            await respond_after(self.app, scope, receive, send, lambda _: self.wait_published())


async def no_gateways() -> None:
    """For a control API without gateways."""

"""Refusal of requests from web pages: a page can post to this machine, but the Origin header reveals it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.access import origins
from mizzen.errors import Forbidden
from mizzen.server.http.middleware import HttpMiddleware

MAX_QUOTED = 100
"""The most characters of a header that a message repeats."""


class OriginMiddleware(HttpMiddleware):
    """Refuses a foreign Host (DNS rebinding) or a foreign Origin (cross-site request).

    While the plane listens on loopback, Host must be a loopback name. An Origin must always match Host.
    """

    def __init__(self, app: ASGIApp, loopback: bool) -> None:
        super().__init__(app)
        self.loopback = loopback

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        host = ",".join(headers.getlist("host"))
        if self.loopback and not origins.is_loopback(host):
            hint = f"use {scope['scheme']}://127.0.0.1:<port>"
            raise Forbidden(f"Host '{host[:MAX_QUOTED].lower()}' is not this machine", hint=hint)
        pages = headers.getlist("origin")
        if not all(origins.is_own(page, host, (scope["scheme"],)) for page in pages):
            raise Forbidden(f"pages from '{', '.join(pages)[:MAX_QUOTED]}' may not call this API")
        await self.app(scope, receive, send)

"""Refusal of requests from web pages: a page can post to this machine, but the Origin header reveals it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.errors import Forbidden
from mizzen.server.http.middleware import HttpMiddleware

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
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
        host = ",".join(headers.getlist("host")).lower()
        if self.loopback and _without_port(host) not in LOOPBACK:
            hint = f"use {scope['scheme']}://127.0.0.1:<port>"
            raise Forbidden(f"Host '{host[:MAX_QUOTED]}' is not this machine", hint=hint)
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if any(origin != f"{scope['scheme']}://{host}" for origin in origins):
            raise Forbidden(f"pages from '{', '.join(origins)[:MAX_QUOTED]}' may not call this API")
        await self.app(scope, receive, send)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and (port.isdecimal() or not port) else host

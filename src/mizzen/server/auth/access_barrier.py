"""Delays the response to a change of access rights until gateways can know of it: a revoked token fails there, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.errors import Unavailable
from mizzen.server.http.errors import error_response

WaitPublished = Callable[[], Awaitable[None]]
"""Returns when the last change is published; at once if there is nothing to publish. Raises Unavailable."""


class AccessBarrier:
    """Runs inside the audit middleware and outside all routes."""

    def __init__(self, app: ASGIApp, wait_published: WaitPublished) -> None:
        self.app = app
        self.wait_published = wait_published

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return

        async def send_published(message: Message) -> None:
            if message["type"] == "http.response.start":
                try:
                    await self.wait_published()
                except Unavailable as error:
                    # No outer layer could still turn this error into a response.
                    await error_response(error)(scope, receive, send)
                    raise _NotPublished from error
            await send(message)

        try:
            await self.app(scope, receive, send_published)
        except _NotPublished:
            return


class _NotPublished(Exception):
    pass


async def no_gateways() -> None:
    """For a control API without gateways."""

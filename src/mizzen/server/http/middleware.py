"""Shared parts of middleware: the limitation to HTTP requests, and responses that are held back for a moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.errors import Unavailable
from mizzen.server.http.errors import error_response


class HttpMiddleware:
    """Calls `handle` for each HTTP request, and passes everything else on."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self.handle if scope["type"] == "http" else self.app
        await handle(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


async def respond_after(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, wait: Callable[[Message], Awaitable[None]]
) -> None:
    """Runs the app, and awaits `wait` before its response starts. If that raises Unavailable, the caller gets a 503."""

    async def send_after(message: Message) -> None:
        if message["type"] == "http.response.start":
            try:
                await wait(message)
            except Unavailable as error:
                # No outer layer could still turn this error into a response.
                await error_response(error)(scope, receive, send)
                raise _Withheld from error
        await send(message)

    try:
        await app(scope, receive, send_after)
    except _Withheld:
        return


class _Withheld(Exception):
    pass

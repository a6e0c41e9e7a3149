"""A change of who may do what is answered when gateways can know of it: a token that was revoked is dead there, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.errors import Unavailable
from mizzen.server.http.errors import error_response

Settle = Callable[[], Awaitable[None]]
"""Returns when what was written is published; at once when there is nothing to publish. Unavailable."""


class Settled:
    """Within the audit, and outside of all routes."""

    def __init__(self, app: ASGIApp, settle: Settle) -> None:
        self.app = app
        self.settle = settle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return

        async def settled(message: Message) -> None:
            if message["type"] == "http.response.start":
                try:
                    await self.settle()
                except Unavailable as error:
                    # From here nobody could turn it into an answer any more.
                    await error_response(error)(scope, receive, send)
                    raise _Withheld from error
            await send(message)

        try:
            await self.app(scope, receive, settled)
        except _Withheld:
            return


class _Withheld(Exception):
    pass


async def nothing_to_settle() -> None:
    """For a control API without gateways."""

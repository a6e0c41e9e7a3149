"""Who deletes something makes room: on a disk that is nearly full, they alone may write what that takes."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.blobs import disk_room


class Freeing:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            with disk_room.freeing():
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)

"""Disk pressure: a DELETE makes room, so only it may write its bookkeeping when the disk is nearly full."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from mizzen.blobs import disk_room


class AllowDeletesWhenFull:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            with disk_room.freeing():
                await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, send)

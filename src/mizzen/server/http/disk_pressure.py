"""Disk pressure: a DELETE makes room, so only it may write its bookkeeping when the disk is nearly full."""

from __future__ import annotations

from contextlib import nullcontext

from starlette.types import Receive, Scope, Send

from mizzen.blobs import disk_room
from mizzen.server.http.middleware import HttpMiddleware


class AllowDeletesWhenFull(HttpMiddleware):
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        with disk_room.freeing() if scope["method"] == "DELETE" else nullcontext():
            await self.app(scope, receive, send)

"""What plane and gateways have in common while they run."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine, Mapping
from typing import Any


async def until_stopped(server: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run all of them until the server ends, which is how a stop is asked for. Any other end is loud."""

    async def must_not_end(work: Coroutine[Any, Any, None]) -> None:
        await work
        raise RuntimeError(f"{work} ended by itself")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(must_not_end(work)) for work in others]
        await server
        for task in tasks:
            task.cancel()


def socket_of(fd: int) -> socket.socket:
    listening = socket.socket(fileno=os.dup(fd))
    listening.setblocking(False)
    return listening


def url_of(listener: Mapping[str, Any]) -> str:
    host = listener["host"]
    return f"http://{f'[{host}]' if ':' in host else host}:{listener['port']}"

"""Sockets and task groups of planes and gateways."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine, Mapping
from typing import Any


async def until_stopped(server: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run all until the server ends, which is how a process is stopped. The end of any other task is an error."""

    async def must_not_end(work: Coroutine[Any, Any, None]) -> None:
        await work
        raise RuntimeError(f"{work} ended unexpectedly")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(must_not_end(work)) for work in others]
        await server
        for task in tasks:
            task.cancel()


def socket_of(fd: int) -> socket.socket:
    listening = socket.socket(fileno=os.dup(fd))
    listening.setblocking(False)
    return listening


def url_of(listening: socket.socket, scheme: str = "http", host: str = "") -> str:
    """The URL of the socket's own address, or of `host` if given."""
    bound, port = listening.getsockname()[:2]
    name = host or bound
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


def inference_of(listeners: Mapping[str, int]) -> tuple[socket.socket, bool]:
    """The socket of the inference API, and whether it speaks TLS, which its name in `listeners` says."""
    tls = "inference-tls" in listeners
    return socket_of(listeners["inference-tls" if tls else "inference"]), tls


def grpc_of(listeners: Mapping[str, int]) -> socket.socket | None:
    """The socket of the inference API over gRPC, with TLS if the HTTP one has it. None: a supervisor of a release
    without gRPC holds no such socket."""
    found = listeners.get("grpc-tls" if "inference-tls" in listeners else "grpc")
    return None if found is None else socket_of(found)

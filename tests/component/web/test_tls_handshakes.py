"""Connections over TLS before they are secured: they count, they end, and they keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mizzen.server.admin.tls_certificates import Certificates
from mizzen.web.connection_limits import ConnectionLimiter, Timeouts, max_connections
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer, serve_all

FILES = 256
"""The server of the first test may have this many open."""

Run = Callable[[Coroutine[Any, Any, None]], None]
both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def test_those_who_only_connect_take_no_files_and_keep_nobody_out(tmp_path: Path) -> None:
    Certificates(tmp_path, (), lambda: datetime.now(UTC)).context()
    plain, tls = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    numbers = [str(each.fileno()) for each in (plain, tls)]
    program = f"import sys; from {__name__} import serve_with_few_files as serve; serve(*sys.argv[1:])"
    server = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), *numbers], pass_fds=[plain.fileno(), tls.fileno()]
    )
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(3 * FILES):
                stack.enter_context(socket.create_connection(tls.getsockname(), timeout=60))
            for address, context in ((plain, None), (tls, _trusting(tmp_path))):
                assert _asked(address.getsockname(), context).endswith(b"\r\n\r\nopened")
    finally:
        server.terminate()
        server.wait()
        plain.close()
        tls.close()


def serve_with_few_files(folder: str, *numbers: str) -> None:
    """Each request opens half of the files that are kept for what is no connection."""

    async def opening(scope: Any, receive: Any, send: Any) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(FILES // 8):
                stack.enter_context(open(os.devnull))  # noqa: ASYNC230
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"opened"})

    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    context = Certificates(Path(folder), (), lambda: datetime.now(UTC)).context()
    limiter = ConnectionLimiter(Timeouts(handshake=600.0), max_connections())
    plain, tls = (socket.socket(fileno=int(number)) for number in numbers)
    uvloop.run(serve_all((_server(opening, limiter), plain), (_server(opening, limiter, context), tls)))


@both_loops
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_never_gets_secured_is_closed_and_counts_no_more(run: Run, tmp_path: Path, sent: bytes) -> None:
    async def wait() -> None:
        limiter = ConnectionLimiter(Timeouts(handshake=0.2), 10)
        async with _serving(tmp_path, limiter) as (_, tls):
            reader, writer = await asyncio.open_connection(*tls)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await _until(lambda: not limiter.open)
            assert not limiter.handshakes

    run(asyncio.wait_for(wait(), 60))


@both_loops
def test_who_asks_a_tls_port_in_plain_http_is_told(run: Run, tmp_path: Path) -> None:
    async def ask() -> None:
        limiter = ConnectionLimiter(Timeouts(), 10)
        async with _serving(tmp_path, limiter) as (_, tls):
            reader, writer = await asyncio.open_connection(*tls)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"use https" in answer
            writer.close()
            await _until(lambda: not limiter.open)

    run(asyncio.wait_for(ask(), 60))


@both_loops
def test_all_sockets_share_one_count_of_connections(run: Run, tmp_path: Path) -> None:
    async def fill() -> None:
        limiter = ConnectionLimiter(Timeouts(handshake=600.0), 4)
        async with _serving(tmp_path, limiter) as (plain, tls):
            held = [await asyncio.open_connection(*plain) for _ in range(2)]
            held.append(await asyncio.open_connection(*tls, ssl=_trusting(tmp_path)))
            silent, kept = await asyncio.open_connection(*tls)
            held.append((silent, kept))
            await _until(lambda: limiter.open == 4 and len(limiter.handshakes) == 1)
            held.append(await asyncio.open_connection(*plain))
            with contextlib.suppress(ConnectionError):
                assert not await silent.read(), "the one in its handshake gave way"
            for address in (plain, tls):
                reader, writer = await asyncio.open_connection(*address)
                with contextlib.suppress(ConnectionError):
                    assert not await reader.read(), "all others are used"
                writer.close()
            assert limiter.open == 4
            for reader, writer in held[:3]:
                writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 204")
            for _, writer in held:
                writer.close()
            await _until(lambda: not limiter.open)

    run(asyncio.wait_for(fill(), 60))


@contextlib.asynccontextmanager
async def _serving(folder: Path, limiter: ConnectionLimiter) -> Any:
    """Addresses of a plain socket, and of one with TLS."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    context = Certificates(folder, (), lambda: datetime.now(UTC)).context()
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [each.getsockname() for each in listening]
    servers = _server(app, limiter), _server(app, limiter, context)
    serving = asyncio.create_task(serve_all(*zip(servers, listening, strict=True)))
    try:
        yield addresses
    finally:
        for server in servers:
            server.should_exit = True
        await serving


def _server(app: Any, limiter: ConnectionLimiter, tls: ssl.SSLContext | None = None) -> WebServer:
    return WebServer(app, partial(LimitedProtocol, limiter=limiter), limiter, stop_timeout=5.0, tls=tls)


def _trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


def _asked(address: tuple[str, int], tls: ssl.SSLContext | None) -> bytes:
    connection = socket.create_connection(address, timeout=60)
    if tls is not None:
        connection = tls.wrap_socket(connection, server_hostname=address[0])
    with connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return b"".join(iter(partial(connection.recv, 65536), b""))


async def _until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - closed by and by
        await asyncio.sleep(0.01)

"""Several servers with one stop, with and without TLS."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mizzen.server.admin.tls_certificates import Certificates
from mizzen.web.connection_limits import ConnectionLimiter, Timeouts
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer, serve_all

GRACE = 60.0
"""Seconds a stop may take before it cuts off: more than a test would wait."""


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_servers_with_and_without_tls_when_they_have_answered(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None], number: signal.Signals
) -> None:
    run(_asked_while_stopping(tmp_path / "tls", number))


async def _asked_while_stopping(folder: Path, number: signal.Signals) -> None:
    asked, answer, stops = asyncio.Semaphore(0), asyncio.Event(), list[str]()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            asked.release()
            await answer.wait()
        body = scope["scheme"].encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    context = Certificates(folder, (), lambda: datetime.now(UTC)).context()
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in listening]
    serving = asyncio.create_task(
        serve_all(
            (_server(slow), listening[0]),
            (_server(slow, context), listening[1]),
            on_stop=lambda: stops.append("told"),
        )
    )
    connect = asyncio.open_connection
    plain = await connect("127.0.0.1", ports[0])
    secure = await connect("127.0.0.1", ports[1], ssl=client, server_hostname="127.0.0.1")
    # One that was answered and stays: it never says goodbye, because nobody reads there.
    idle = socket.create_connection(("127.0.0.1", ports[1]))
    await asyncio.to_thread(_answered, client, idle)
    silent = socket.create_connection(("127.0.0.1", ports[1]))
    for _, writer in (plain, secure):
        writer.write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        await asked.acquire()
    os.kill(os.getpid(), number)
    while any(each.fileno() >= 0 for each in listening):  # noqa: ASYNC110 - uvicorn closes them when it begins to stop
        await asyncio.sleep(0.01)
    assert not serving.done()
    answer.set()
    for (reader, writer), scheme in ((plain, b"http"), (secure, b"https")):
        assert (await reader.read()).endswith(b"\r\n\r\n" + scheme), "answered whole, then closed"
        writer.close()
    await asyncio.wait_for(serving, GRACE / 2)
    assert stops == ["told"]
    idle.close()
    silent.close()


def _server(app: Any, tls: ssl.SSLContext | None = None) -> WebServer:
    limiter = ConnectionLimiter(Timeouts(handshake=GRACE), 100)
    return WebServer(app, partial(LimitedProtocol, limiter=limiter), limiter, stop_timeout=GRACE, tls=tls)


def _answered(client: ssl.SSLContext, connection: socket.socket) -> None:
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = client.wrap_bio(into, out, server_hostname="127.0.0.1")

    def until(step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                connection.sendall(out.read())
                into.write(connection.recv(65536))

    until(secured.do_handshake)
    secured.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    connection.sendall(out.read())
    assert until(lambda: secured.read(65536)).startswith(b"HTTP/1.1 200")

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn

from mizzen.webserver import HEAD_BYTES, LimitedProtocol, WebServer


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def ask(*parts: bytes) -> bytes:
    """The first line of what a server that runs for this one question says; nothing when it cut us off."""
    config = uvicorn.Config(
        hello, http=LimitedProtocol, host="127.0.0.1", port=0, lifespan="off", log_config=None, ws="none"
    )
    server = WebServer(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.readuntil(b"\r\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    finally:
        writer.close()
        server.should_exit = True
        await running


def test_ordinary_heads_pass_in_pieces_too() -> None:
    pieces = (b"GET / HTT", b"P/1.1\r\nhost: x\r\n", b"x-long: " + b"a" * (HEAD_BYTES // 2), b"\r\n\r\n")
    assert asyncio.run(ask(*pieces)).startswith(b"HTTP/1.1 200")


def test_a_head_without_end_is_cut_off() -> None:
    endless = (b"GET / HTTP/1.1\r\nhost: x\r\nx-long: ", *([b"a" * HEAD_BYTES] * 64))
    # Who goes on writing may lose the answer to a reset; either way the server takes no more.
    assert asyncio.run(ask(*endless))[:12] in (b"HTTP/1.1 431", b"")


def test_a_long_body_is_no_head() -> None:
    body = b"a" * (2 * HEAD_BYTES)
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert asyncio.run(ask(head, body)).startswith(b"HTTP/1.1 200")

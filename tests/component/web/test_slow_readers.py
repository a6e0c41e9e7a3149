"""Whoever takes nothing of an answer is not waited for without end, and whoever takes it slowly is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from mizzen.web.connection_limits import ConnectionLimiter, Timeouts
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer


def test_a_stream_that_nobody_reads_is_ended() -> None:
    now = 0.0
    ended = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        async def leaves() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        left = asyncio.ensure_future(leaves())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not left.done():
            await send({"type": "http.response.body", "body": b"x" * (1 << 20), "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    async def main() -> None:
        nonlocal now
        limiter = ConnectionLimiter(Timeouts(), 10, clock=lambda: now)
        server = WebServer(endless, partial(LimitedProtocol, limiter=limiter), limiter, stop_timeout=5.0)
        server.config.host, server.config.port = "127.0.0.1", 0
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")

        async def until_held() -> None:
            """Until nothing more can be written."""
            [connection] = server.server_state.connections
            left = -1
            while left != (left := connection.transport.get_write_buffer_size()) or not left:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

        def later(seconds: float) -> None:
            nonlocal now
            now += seconds
            limiter.tick()
            limiter.close_expired(server.server_state)

        await reader.readexactly(1)
        for _ in range(3):  # much later than anybody is waited for, but some of it is taken each time
            await until_held()
            later(0)
            later(50)
            await reader.readexactly(8 << 20)
        await until_held()
        later(0)
        later(59)
        assert not ended.is_set()
        later(2)
        await ended.wait()
        assert not server.server_state.connections
        writer.close()
        server.should_exit = True
        await serving

    asyncio.run(asyncio.wait_for(main(), 60))

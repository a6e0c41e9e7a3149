"""A connection is parsed in turns: nothing is lost or reordered, and little is held in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from mizzen.web.connection_limits import ConnectionLimiter, Timeouts
from mizzen.web.http_connection import MAX_HEADERS, MAX_PIPELINED, LimitedProtocol
from mizzen.web.read_turns import MAX_NOISE
from mizzen.web.server import WebServer

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LIMIT = 60.0


class Echo:
    """Answers with the path and the size of the body; at /held once it is released; at /deaf without reading it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.released = asyncio.Event()
        self.limiter = ConnectionLimiter(Timeouts(), 100, clock=lambda: self.now)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, scope["path"] != "/deaf"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        if scope["path"] == "/held":
            await self.released.wait()
        body = f"{scope['path']} {size}\n".encode()
        body *= 1 << 20 if scope["path"] == "/large" else 1
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.limiter.tick()
        self.limiter.close_expired(self.server.server_state)

    @property
    def connection(self) -> LimitedProtocol:
        [found] = self.server.server_state.connections
        assert isinstance(found, LimitedProtocol)
        return found

    async def connect(self) -> Streams:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Streams]:
        """One connection to it."""
        self.server = WebServer(self, partial(LimitedProtocol, limiter=self.limiter), self.limiter, stop_timeout=5.0)
        self.server.config.host, self.server.config.port = "127.0.0.1", 0
        self.server.on_tick = self._tick  # type: ignore[method-assign]
        serving = asyncio.create_task(self.server.serve())
        while not self.server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.01)
        reader, writer = await self.connect()
        try:
            yield reader, writer
        finally:
            writer.close()
            self.released.set()
            self.server.should_exit = True
            await serving

    async def _tick(self, counter: int) -> bool:
        """The time is the test's own."""
        assert counter >= 0
        return self.server.should_exit


def play(test: Callable[[Echo, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        echo = Echo()
        async with echo.running() as (reader, writer):
            await test(echo, reader, writer)

    asyncio.run(asyncio.wait_for(run(), LIMIT))


def request_of(number: int, size: int, kind: str) -> bytes:
    head = f"POST /{number} HTTP/1.1\r\nHost: x\r\n"
    if kind == "plain":
        return f"{head}Content-Length: {size}\r\n\r\n".encode() + b"\r\n" * (size // 2) + b"x" * (size % 2)
    piece = {"small": 40, "large": 3000}[kind]
    sizes = [piece] * (size // piece) + ([size % piece] if size % piece else [])
    chunks = b"".join(b"%x\r\n%b\r\n" % (each, b"\r\n\r\n" * (each // 4) + b"y" * (each % 4)) for each in sizes)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize("seed", range(4))
def test_requests_are_answered_in_order_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    wanted = [(number, rng.choice((0, 1, 50, 3000, 70_000, 300_000))) for number in range(60)]
    data = b"".join(request_of(*each, rng.choice(("plain", "small", "large"))) for each in wanted)

    async def test(_: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write() -> None:
            at = 0
            while at < len(data):
                step = rng.choice((1, 30, 1000, 20_000, 1_000_000))
                writer.write(data[at : at + step])
                await writer.drain()
                at += step

        writing = asyncio.create_task(write())
        for number, size in wanted:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readline() == f"/{number} {size}\n".encode()
        await writing

    play(test)


def test_a_pipeline_waits_in_the_socket_and_not_in_memory() -> None:
    one = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"

    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(one * 2000)
        while not echo.server.server_state.connections or not echo.connection.pipeline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert echo.connection.flow.read_paused
        assert len(echo.connection.pipeline) <= MAX_PIPELINED
        echo.released.set()
        for _ in range(2000):
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readline() == b"/held 0\n"

    play(test)


def test_tiny_pieces_are_forgiven_over_time() -> None:
    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        rounds, chunks = 30, MAX_NOISE // 12
        for count in range(1, rounds + 1):
            writer.write(b"1\r\nx\r\n" * chunks)
            while not echo.server.server_state.connections or echo.connection._body_bytes < count * chunks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            echo.later(1)
        writer.write(b"0\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readline() == f"/ {rounds * chunks}\n".encode()
        writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 3 * MAX_NOISE
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400")

    play(test)


def test_headers_have_a_limit() -> None:
    async def test(_: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * (MAX_HEADERS - 1) + b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await reader.readline()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 431")

    play(test)


def test_a_client_that_reads_too_slowly_is_ended() -> None:
    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readexactly(1)
        connection = echo.connection
        while not connection.flow.write_paused:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        allowed = Timeouts().request + connection.transport.get_write_buffer_size() / Timeouts().min_bytes_per_second
        seconds = 0
        while not connection.transport.is_closing():
            assert seconds <= allowed + 60
            await reader.readexactly(4 << 10)  # it takes some of it each time
            echo.later(20)
            seconds += 20
        assert seconds > Timeouts().unread

    play(test)


def test_a_refusal_waits_for_earlier_responses_and_reaches_a_client_that_writes_on() -> None:
    async def test(echo: Echo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
        writer.write(b"x" * (4 << 20))
        await asyncio.sleep(0)
        echo.released.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await reader.readline()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 501")

    play(test)

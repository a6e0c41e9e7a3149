from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mizzen.web.connection_limits import ConnectionLimiter, Timeouts, max_connections
from mizzen.web.http_connection import MAX_HEAD_BYTES, MAX_NON_BODY_BYTES, LimitedProtocol
from mizzen.web.server import WebServer

HURRY = Timeouts(idle=0.2, stalled=0.2, request=60.0)
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Says `hello` when the body has come; at /watch it says so and goes on; at /early it does not wait for the body;
    at /late it waits for a while before it wants the body; at /large it says much."""
    path = scope["path"]
    if path == "/late":
        await asyncio.sleep(1.5)
    while path != "/early":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    answer = b"hello" if path != "/large" else bytes(64 << 20)
    length = str(len(answer)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    if path == "/watch":
        await send({"type": "http.response.body", "body": b"he", "more_body": True})
        await asyncio.sleep(2.5)
        await send({"type": "http.response.body", "body": b"llo"})
        return
    await send({"type": "http.response.body", "body": answer})


class Running:
    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def open(self) -> int:
        return len(self._server.server_state.connections)

    @property
    def asked(self) -> int:
        return self._server.server_state.total_requests

    async def connect(self, *parts: bytes) -> Streams:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.append(writer)
        for part in parts:
            writer.write(part)
            await writer.drain()
        return reader, writer

    async def ask(self, *parts: bytes) -> bytes:
        """The first line of the answer; nothing when it cut us off."""
        try:
            reader, _ = await self.connect(*parts)
            return await reader.readuntil(b"\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def running(patience: Timeouts | None = None, most: int = 100) -> AsyncIterator[Running]:
    limiter = ConnectionLimiter(patience or Timeouts(), most)
    server = WebServer(app, partial(LimitedProtocol, limiter=limiter), limiter, stop_timeout=5.0)
    server.config.host, server.config.port = "127.0.0.1", 0
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
        await asyncio.sleep(0.01)
    here = Running(server)
    try:
        yield here
    finally:
        here.close()
        server.should_exit = True
        await serving


def ask(*parts: bytes) -> bytes:
    async def one() -> bytes:
        async with running() as server:
            return await server.ask(*parts)

    return asyncio.run(one())


def post(length: int, path: str = "/", more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n".encode()


def test_ordinary_heads_pass_in_pieces_too() -> None:
    pieces = (b"GET / HTT", b"P/1.1\r\nhost: x\r\n", b"x-long: " + b"a" * (MAX_HEAD_BYTES // 2), b"\r\n\r\n")
    assert ask(*pieces).startswith(b"HTTP/1.1 200")


def test_a_head_without_end_is_cut_off() -> None:
    endless = (b"GET / HTTP/1.1\r\nhost: x\r\nx-long: ", *([b"a" * MAX_HEAD_BYTES] * 64))
    # Who goes on writing may lose the answer to a reset; either way the server takes no more.
    assert ask(*endless)[:12] in (b"HTTP/1.1 431", b"")


@pytest.mark.parametrize("start", [b"1;", b"1\r\n \r\n0\r\nx: "], ids=["between chunks", "behind them"])
def test_what_is_no_part_of_a_body_in_chunks_has_an_end(start: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert ask(head + start, *([b"a" * MAX_NON_BODY_BYTES] * 64))[:12] in (b"HTTP/1.1 400", b"")
    small = b"".join(b"1;%b\r\na\r\n" % (b"b" * 50) for _ in range(1000))
    assert ask(head + small, b"0\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_long_body_is_no_head() -> None:
    body = b"a" * (2 * MAX_HEAD_BYTES)
    assert ask(post(len(body)), body).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", []),
        (b"\r\n\r\n", []),
        (b"GET / HTTP/1.1\r\nhost: ", [b"408"]),
        (post(10) + b"half", [b"408"]),
        (GET + b"GET /", [b"200", b"408"]),
        (GET + b"\r\n", [b"200"]),
        (post(10, "/early"), [b"200"]),
        (post(10, "/watch", "expect: 100-continue\r\n"), [b"100", b"408"]),
    ],
    ids=["nothing", "empty lines", "head", "body", "second head", "kept", "answered", "continue"],
)
def test_what_does_not_come_to_its_end_is_closed(sent: bytes, answers: list[bytes]) -> None:
    async def wait() -> bytes:
        async with running(HURRY) as server:
            reader, _ = await server.connect(sent)
            return await asyncio.wait_for(reader.read(), 60)

    said = asyncio.run(wait())
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == answers


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async def wait() -> None:
        async with running(Timeouts(idle=0.1, request=0.5)) as server:
            await server.connect(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
            while not server.asked:  # noqa: ASYNC110 - answered by and by
                await asyncio.sleep(0.01)
            assert server.open
            while server.open:  # noqa: ASYNC110 - closed by and by
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(wait(), 60))


@pytest.mark.parametrize("part", ["head", "body"])
def test_what_comes_in_drops_is_closed_in_the_end(part: str) -> None:
    patience = replace(HURRY, stalled=0.8) if part == "head" else Timeouts(stalled=5.0, request=0.8)

    async def drip() -> bytes:
        async with running(patience) as server:
            reader, writer = await server.connect(post(100_000) if part == "body" else b"GET / HTTP/1.1\r\nx: ")
            line = asyncio.ensure_future(reader.readuntil(b"\r\n"))
            while not line.done():
                writer.write(b"a")
                await asyncio.sleep(0.05)
            return await line

    assert asyncio.run(drip()).startswith(b"HTTP/1.1 408")


def test_an_upload_that_makes_progress_may_go_on() -> None:
    """For longer than a whole request may take, as long as it is not too slow."""

    async def upload() -> bytes:
        async with running(Timeouts(stalled=2.0, request=0.1, min_bytes_per_second=1000)) as server:
            reader, writer = await server.connect(post(30 * 2000))
            for _ in range(30):
                writer.write(b"a" * 2000)
                await asyncio.sleep(0.1)
            return await reader.readuntil(b"\r\n")

    assert asyncio.run(upload()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /watch HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /watch HTTP/1.1\r\nhost: x\r\n\r\nGET / HT",
        post(2, "/late", "expect: 100-continue\r\n"),
    ],
    ids=["watch", "with half a request behind it", "waiting for 100"],
)
def test_who_waits_for_us_is_not_cut(sent: bytes) -> None:
    async def read() -> bytes:
        async with running(HURRY) as server:
            reader, writer = await server.connect(sent)
            said = b""
            while b"hello" not in said:
                piece = await asyncio.wait_for(reader.read(1000), 60)
                assert piece, said
                said += piece
                if piece.startswith(b"HTTP/1.1 100"):
                    writer.write(b"ok")
            return said

    assert b"HTTP/1.1 200" in asyncio.run(read())


def test_connections_beyond_the_most_are_closed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def flood() -> None:
        async with running(most=10) as server:
            held = [await server.connect() for _ in range(10)]
            while server.open < 10:  # noqa: ASYNC110 - accepted by and by
                await asyncio.sleep(0.01)
            assert [await server.ask(GET) for _ in range(5)] == [b""] * 5
            held[3][1].write(GET)
            assert (await held[3][0].readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
            held[0][1].close()
            while server.open == 10:  # noqa: ASYNC110 - closed by and by
                await asyncio.sleep(0.01)
            assert (await server.ask(GET)).startswith(b"HTTP/1.1 200")

    with caplog.at_level(logging.WARNING, "mizzen.web.connection_limits"):
        asyncio.run(flood())
    assert [record.message for record in caplog.records if record.name == "mizzen.web.connection_limits"] == [
        "10 connections are open, which is the limit; further connections are closed at once"
    ]


def test_the_most_leaves_files_for_other_things() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert files // 2 < max_connections() <= files - files // 4

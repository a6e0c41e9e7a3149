"""A service may answer without end, in pieces as small as it likes: the call ends, and so does its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from bench import attack_streams
from bench.attack_streams import Attack
from mizzen.gateway.services.http_connection import MAX_INTERIM
from tests.component.gateway.services.world import Reply, World, good, played

LIMIT = 1 << 20
"""Bytes of an answer that the pool takes."""
ENDLESS = attack_streams.responses()


@pytest.mark.parametrize("attack", ENDLESS, ids=[each.name for each in ENDLESS])
def test_an_answer_without_end_is_cut_off(attack: Attack) -> None:
    @played
    async def play(world: World) -> None:
        async def flood(writer: asyncio.StreamWriter) -> None:
            for block in attack.blocks():
                writer.write(block)
                await writer.drain()

        async with serving(flood) as port:
            pool = world.pool(f"http://127.0.0.1:{port}", body_limit=LIMIT)
            call = await world.ask(pool)
            assert call.code == 502
            assert pool.in_flight == 0

    play()


class serving:  # noqa: N801 - used like a function
    """A service that answers each request by what `answer` writes, until its client has left."""

    def __init__(self, answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._answer = answer
        self._left = asyncio.Event()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        await self._left.wait()  # the pool has closed the connection
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await self._answer(writer)
        self._left.set()
        writer.close()


@played
async def test_some_interim_responses_and_small_chunks_are_fine(world: World) -> None:
    body = json.dumps({"outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "data": [2.5]}]}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    interim = b"HTTP/1.1 102 Processing\r\n\r\n" * MAX_INTERIM
    server = await world.server(Reply(interim + head + chunks + b"0\r\nX-Trailer: y\r\n\r\n"), good())
    pool = world.pool(server.address())
    for _ in range(2):
        assert (await world.ask(pool)).code == 200
    assert server.connections == 1

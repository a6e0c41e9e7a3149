"""What is held for watchers who read nothing, counted on real connections; and that nothing of them is left."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.http.streaming import until_stopped
from mizzen.server.resources import watch
from mizzen.stores.sqlite import read_ops
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Where
from mizzen.web.connection_limits import ConnectionLimiter, Timeouts
from mizzen.web.http_connection import LimitedProtocol
from mizzen.web.server import WebServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = 5
LARGE = 200_000
CHANGES = 60


def test_little_is_held_for_who_reads_nothing_and_then_nothing(tmp_path: Path) -> None:
    now = 0.0
    made: list[_Counted] = []

    async def main() -> None:
        nonlocal now
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: str(next(ids)))
        await store.create(Resource("Model", Meta("large")), "ann")

        async def app(scope: Any, receive: Any, send: Any) -> None:
            since = Request(scope).query_params["since"]
            lines = watch.stream_lines(store, "Model", Where(), watch.WatchOptions(since), lambda _: True)
            made.append(_Counted())
            counted = made[-1].of(until_stopped(lines, asyncio.Event()))
            await StreamingResponse(counted)(scope, receive, send)

        door = ConnectionLimiter(Timeouts(), 100, clock=lambda: now)
        server = WebServer(app, partial(LimitedProtocol, limiter=door), door, stop_timeout=5.0)
        server.config.host, server.config.port = "127.0.0.1", 0
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        before = asyncio.all_tasks()
        slow = [await _asking(port, "1") for _ in range(SLOW)]
        reader, writer = await _asking(port, "1")
        for number in range(CHANGES):
            await store.update(Resource("Model", Meta("large"), {"notes": f"{number} {'x' * LARGE}"}), "ann")
            assert (await _next(reader))["spec"]["notes"].split()[0] == str(number), "nobody else waits for them"
        writer.close()
        longest = LARGE + 1000
        for connection in server.server_state.connections:
            assert connection.transport.get_write_buffer_size() <= HIGH_WATER_LIMIT + longest
        assert all(one.lines < CHANGES for one in made[:SLOW])
        assert read_ops.EVENTS_BYTES < CHANGES * LARGE, "nor is there room for all on their page"

        door.tick()
        door.close_expired(server.server_state)
        now += 61
        door.tick()
        door.close_expired(server.server_state)
        while server.server_state.connections or asyncio.all_tasks() - before:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert all(one.ended for one in made)
        assert not store._feed._waiting
        await store.delete(Ref("Model", "large"), "ann")
        for _, theirs in slow:
            theirs.close()
        server.should_exit = True
        await serving
        await store.close()

    asyncio.run(asyncio.wait_for(main(), 60))


class _Counted:
    """How far one stream was read, and whether it was ended."""

    def __init__(self) -> None:
        self.lines = 0
        self.ended = False

    async def of(self, lines: Any) -> Any:
        try:
            async for line in lines:
                self.lines += 1
                yield line
        finally:
            await lines.aclose()
            self.ended = True


async def _asking(port: int, since: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
    writer.write(f"GET /?since={since} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def _next(reader: asyncio.StreamReader) -> Any:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return json.loads((await reader.readexactly(size + 2))[:-2])["object"]

"""A pool on a real loop, and services on real sockets that answer what a test says, byte for byte.

Time is the test's own: deadlines pass when it says so.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import uvloop

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.request.head import EMPTY_HEAD, RequestHead
from mizzen.gateway.services.pool import ServicePool
from mizzen.graph.table_types import Service
from mizzen.protocol import plain_elements, v2
from mizzen.protocol.frames import framing

DEADLINE = 60.0
"""Of a test that hangs."""


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test whose first parameter is a World, on a loop of its own."""

    def run(**named: Any) -> None:
        async def play() -> None:
            async with World() as world:
                await asyncio.wait_for(test(world, **named), DEADLINE)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(play())

    signature = inspect.signature(test)
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return run


class Asked(Call):
    __slots__ = ("asks", "done", "ends", "headers", "lacking", "retry", "route")

    def __init__(self, entries: Sequence[v2.Entry], names: Sequence[str] | None = None, raw: Any = True) -> None:
        self.item = (entries, names, raw) if raw else (entries, names)
        self.id = b"r-1"
        self.head: RequestHead = EMPTY_HEAD
        self.size = 10
        self.began = 1000.0
        self.deadline = 1030.0
        self.pending = True
        self.retry_alone = False
        self.asks: dict[str, str] | None = None
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self.route: str | None = None
        self.ends: list[tuple[int, bytes]] = []
        self.retry = 0
        self.lacking = b""
        self.done = asyncio.Event()

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        assert self.pending, "a call ends once"
        self.pending = False
        self.item = None
        self.ends.append((code, payload))
        self.retry, self.lacking = retry, lacking
        self.done.set()

    @property
    def code(self) -> int:
        return self.ends[0][0] if self.ends else 0

    @property
    def text(self) -> str:
        return self.ends[0][1].decode()

    @property
    def outputs(self) -> dict[str, tuple[str, list[int], list[Any]]]:
        """Datatype, shape and values, by name, of an answer with raw outputs."""
        code, payload = self.ends[0]
        assert code == 200, payload
        (length,) = struct.unpack_from("<I", payload)
        at, found = 4 + length, {}
        for output in json.loads(payload[4:at]):
            size = output["parameters"]["binary_data_size"]
            values = plain_elements.unpack(output["datatype"], output["shape"], payload[at : at + size])
            found[output["name"]] = output["datatype"], output["shape"], list(values)
            at += size
        assert at == len(payload)
        return found


def entry(name: str, datatype: str, shape: list[int], values: list[Any]) -> v2.Entry:
    return name, datatype, shape, framing.RAW, memoryview(plain_elements.pack(datatype, values))


def json_entry(name: str, datatype: str, shape: list[int], data: Any) -> v2.Entry:
    return name, datatype, shape, framing.JSON, memoryview(json.dumps(data).encode())


def asked(**more: Any) -> Asked:
    """Of one number."""
    return Asked([entry("x", "FP64", [1], [1.5])], **more)


class Request(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The how manieth of the server."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply(NamedTuple):
    data: bytes = b""
    closes: bool = False
    """The connection, after that."""
    resets: bool = False
    """The same, rudely."""
    holds: bool = False
    """Until the server is released, or its client has left."""


def http(
    body: Any = b"", status: str = "200 OK", *headers: str, kind: str = "application/json", closes: bool = False
) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers]
    if kind:
        lines.append(f"Content-Type: {kind}")
    return Reply("\r\n".join([*lines, "", ""]).encode() + data, closes=closes)


def good(value: float = 2.5) -> Reply:
    return http({"outputs": [{"name": "y", "datatype": "FP64", "shape": [1], "data": [value]}]})


class Server:
    """Answers with `replies`, one for each request, and with the last of them from then on."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.connections = 0
        self.left = 0
        """Connections that the client has closed."""
        self.held = 0
        self.released = asyncio.Event()
        self.changed = asyncio.Condition()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self._scheme = "http"

    async def up(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "https" if tls else "http"
        self._server = await asyncio.start_server(self._serve, host, self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """And all its connections."""
        if self._server is not None:
            self._server.close()
            self.drop_all()
            await self._server.wait_closed()
            self._server = None

    def drop_all(self) -> None:
        for writer in self._writers:
            writer.close()

    def address(self, host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}"

    async def until(self, condition: Callable[[Server], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: condition(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer, number):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left += 1
        finally:
            self._writers.discard(writer)
            writer.close()
            await self._tell()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append(Request(line, headers, body, number))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.holds:
            self.held += 1
            await self._tell()
            await self._hold(reader)
        else:
            await self._tell()
        writer.write(reply.data)
        await writer.drain()
        if reply.resets:
            # Closed with a linger of nothing: the client sees a reset.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return not (reply.closes or reply.resets)

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        leaving = asyncio.ensure_future(reader.read(1))
        releasing = asyncio.ensure_future(self.released.wait())
        await asyncio.wait((leaving, releasing), return_when=asyncio.FIRST_COMPLETED)
        releasing.cancel()
        if leaving.done():
            with suppress(ConnectionError):
                assert leaving.result() == b"", "nothing is sent before the answer"
            raise ConnectionError
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.sweeper = DeadlineTimer(lambda: self.now, lambda seconds, call: None)
        self._ends: list[Callable[[], Awaitable[None]]] = []

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in reversed(self._ends):
            await end()

    async def server(self, *replies: Reply, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Server:
        server = Server(*(replies or (good(),)))
        await server.up(host, tls)
        self._ends.append(server.down)
        return server

    def pool(self, *addresses: str, path: str = "/v2/models/m/infer", protocol: Any = "v2", **more: Any) -> ServicePool:
        service = Service(id="default/g/scorer", addresses=addresses, path=path, protocol=protocol)
        named: dict[str, Any] = {"limit": 100, "clock": lambda: self.now, "sweeper": self.sweeper} | more
        pool = ServicePool(service, loop=asyncio.get_running_loop(), **named)
        self._ends.append(pool.abort)
        return pool

    async def ask(self, pool: ServicePool, call: Asked | None = None) -> Asked:
        """Until its end."""
        call = call or asked()
        pool.submit(call)
        await call.done.wait()
        return call


def free_port() -> int:
    """Where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

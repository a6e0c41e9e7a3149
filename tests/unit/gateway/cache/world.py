"""A gateway in virtual time: real Tables, queues, caches and connections, whose other ends are in memory.

What a process answers says who gave it, with which files, and to which input.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from mizzen.gateway.access.authorizer import Authorizer
from mizzen.gateway.access.refusal_log import RefusalLog
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.graphs.factory import GraphFactory
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import JSON
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.request.body_budget import BodyBudget
from mizzen.gateway.request.cors import Cors
from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.gateway.table_loader import TableLoader
from mizzen.gateway.telemetry.access_log import AccessLog
from mizzen.gateway.telemetry.counters import Metrics
from mizzen.graph.table_types import Server, Table
from mizzen.protocol.frames import framing, msgpack
from mizzen.selection.cached_state import StateCache

T = TypeVar("T")


class _Instant(selectors.DefaultSelector):
    """Waits for nobody: it is as late as was to be waited for."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)
        self.processes: dict[str, Process] = {}

    def time(self) -> float:
        return self._instant.now

    def pass_time(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))

    async def create_unix_connection(self, factory: Callable[[], Any], path: str | None = None, **_: Any) -> Any:  # type: ignore[override]
        process = self.processes.get(path or "")
        if process is None or not process.up:
            raise ConnectionRefusedError(path)
        protocol = factory()
        connection = Connection(self, process, protocol)
        process.connections.append(connection)
        protocol.connection_made(connection)
        self.call_soon(connection.greet)
        return connection, protocol


class Process:
    """A replica that answers when it is told to."""

    def __init__(self, loop: VirtualLoop, path: str, files: str, greeted: Callable[[Connection], None]) -> None:
        self.path = path
        self.files = files
        self.greeted = greeted
        self.up = True
        self.births = 0
        self.connections: list[Connection] = []
        self.sent: list[tuple[str, list[Any]]] = []
        """What came, and whose greeting it came after."""
        loop.processes[path] = self

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    @property
    def token(self) -> str:
        return f"{self.files} {self.path} {self.births}"

    def lose(self) -> None:
        self.up = False
        connections, self.connections = self.connections, []
        for connection in connections:
            connection.abort()

    def begin_again(self) -> None:
        """With whatever its environment is now."""
        self.births += 1
        self.up = True

    def drain(self) -> None:
        for connection in self.connections:
            connection.say(framing.DRAIN, 0)

    def answer(self) -> bool:
        """What it has had for longest. False: it has nothing."""
        connection = next((each for each in self.connections if each.owed), None)
        if connection is None:
            return False
        id_, items = connection.owed.pop(0)
        connection.say(framing.REPLY, id_, [1.0, [_answer(connection.token, item) for item in items]])
        return True


def _answer(token: str, item: list[Any]) -> tuple[int, bytes]:
    value = json.loads(item[0][0][4])[0]
    if value < 0:
        return framing.MODEL_FAILED, b"%d" % value
    said = f"{token} {value}"
    return framing.OK, json.dumps([{"name": "y", "datatype": "BYTES", "shape": [1], "data": [said]}]).encode()


class Connection(asyncio.Transport):
    def __init__(self, loop: VirtualLoop, process: Process, protocol: Any) -> None:
        super().__init__()
        self.process = process
        self.token = process.token
        self.files = process.files
        self.owed: list[tuple[int, list[Any]]] = []
        self._loop = loop
        self._protocol = protocol
        self._reader = framing.FrameReader()
        self._closed = False

    def greet(self) -> None:
        if not self._closed:
            self.say(framing.HELLO, 0, {"state": "ready", "files": self.files, "callers": True})
            self.process.greeted(self)

    def say(self, type_: int, id_: int, value: Any = None) -> None:
        if not self._closed:
            self._protocol.data_received(framing.encode(type_, id_, b"" if value is None else msgpack.pack(value)))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        for frame in self._reader.feed(bytes(data)):
            items = msgpack.unpack(frame.body)[:-1]
            self.owed.append((frame.id, items))
            self.process.sent.append((self.token, items))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self in self.process.connections:
                self.process.connections.remove(self)
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


class Asked(Inference):
    """One request, and how it was answered."""

    __slots__ = ("allowed", "body", "code", "ends", "kind", "url", "value", "versions")

    def __init__(self, url: bytes, value: int) -> None:
        self.url = url
        self.value = value
        self.code = self.ends = 0
        self.versions: set[Any] = set()
        """Those that answered for its URL at any time since it was asked."""
        self.allowed: set[str] = set()
        """Whose answers it may get: of those who answered for one of these versions meanwhile."""

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        self.ends += 1
        self.code, self.body, self.kind = code, body, kind


class World:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.in_force = 0
        self.enforced: Callable[[], None] = lambda: None
        nowhere = Path("nowhere")
        ids = itertools.count()
        loop = self.loop
        self.service = GatewayContext(
            max_body_bytes=1 << 20, intake=BodyBudget(1 << 20), metrics=Metrics(), clock=loop.time, wall=loop.time,
            new_id=lambda: b"new-%d" % next(ids), permits=Authorizer(None, anonymous=True, wall=loop.time),
            refusals=RefusalLog(nowhere, "g", wall=loop.time, call_later=loop.call_later),
            access_log=AccessLog(nowhere, "g", "off", wall=loop.time, call_later=loop.call_later), cors=Cors(()),
        )  # fmt: skip
        self.sweeper = DeadlineTimer(loop.time, loop.call_later)
        graphs = GraphFactory(
            view=StateCache(nowhere, nowhere, Random(0)), records=nowhere, gateway=0, limit=1000, sweeper=self.sweeper,
            loop=loop, clock=loop.time, wall=loop.time, rng=Random(0),
        )  # fmt: skip
        self.fleet = TableLoader(self.service, self._queue, loop, self._taken, graphs=graphs)

    def _queue(self, server: Server, offer: Any) -> Queue:
        loop = self.loop
        return Queue(
            server, limit=1000, byte_limit=1 << 30, hold_seconds=2.0, clock=loop.time, call_soon=loop.call_soon,
            call_later=loop.call_later, sweeper=self.sweeper, offer=offer,
        )  # fmt: skip

    def _taken(self, serial: int) -> None:
        self.in_force = serial
        self.enforced()

    def take(self, table: Table) -> None:
        self.run(self._take(table))

    async def _take(self, table: Table) -> None:
        self.fleet.take(table)

    def ask(self, call: Asked, id_: str, timeout_ms: int) -> bool:
        """False: there is no such URL. Without an id or a timeout, nothing is said of them."""
        endpoint = self.service.routes.hot.get(call.url)
        if endpoint is None:
            return False
        tensor = {"name": "x", "datatype": "INT64", "shape": [1], "data": [call.value]}
        body = json.dumps({"id": id_, "inputs": [tensor]} if id_ else {"inputs": [tensor]}).encode()
        self.run(self._ask(call, endpoint, body, timeout_ms))
        return True

    async def _ask(self, call: Asked, endpoint: Any, body: bytes, timeout_ms: int) -> None:
        call.start(
            self.service, endpoint, body, EMPTY_HEAD._replace(timeout_ms=b"%d" % timeout_ms if timeout_ms else None)
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.run(self.fleet.close())
        self.loop.close()

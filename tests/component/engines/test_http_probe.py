"""A probe that asks over HTTP, and small servers that say what a test has them say."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mizzen.engines.local.probes.http_probe import HttpProbe, HttpTarget, ProbeIntervals, get_status
from mizzen.kinds.workload import WireProtocol

QUICK = ProbeIntervals(timeout=60.0, ready=0.01, starting=0.01, grace=600.0)
AT_ONCE = ProbeIntervals(timeout=60.0, ready=0.01, starting=0.01, grace=0.0)
V2, V2_MODEL, V1 = "/v2/health/ready", "/v2/models/a%2Fb/ready", "/v1/models/a%2Fb"
SELDON, PING = "/health/status", "/health/ping"
ALL = [V2, V2_MODEL, V1, SELDON, PING]


@dataclass
class Program:
    """Answers each path with the status that is set for it, 404 where none is."""

    statuses: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: bool = False
    port: int = field(default=0, init=False)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.asked.append(path)
        if self.silent:
            await reader.read()
        else:
            status = self.statuses.get(path, 404)
            writer.write(f"HTTP/1.1 {status} Well\r\nContent-Length: 2\r\n\r\n".encode() if status else b"\x15\x03\r\n")
            await writer.drain()
            writer.write(b"ok")
        writer.close()


@asynccontextmanager
async def running(program: Program, bound: socket.socket | None = None) -> AsyncIterator[Program]:
    """`bound`: to a port, where it begins to listen."""
    server = await asyncio.start_server(program.answer, sock=bound or socket.create_server(("127.0.0.1", 0)))
    program.port = server.sockets[0].getsockname()[1]
    try:
        yield program
    finally:
        server.close()
        await server.wait_closed()


class Watched:
    """A probe and its changes."""

    def __init__(self, port: int, pace: ProbeIntervals, protocol: WireProtocol | None = None, known: str = "") -> None:
        self._moved = asyncio.Event()
        self.probe = HttpProbe(HttpTarget(port, "a/b", protocol), self._moved.set, known=known, intervals=pace)

    async def until(self, enough: Callable[[HttpProbe], bool]) -> None:
        while not enough(self.probe):
            await self._moved.wait()
            self._moved.clear()

    async def ready(self) -> None:
        await self.until(lambda probe: probe.state.readiness == "ready")

    async def starting(self) -> None:
        await self.until(lambda probe: probe.state.readiness == "starting")


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await body()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "protocol"), [(V2, "v2"), (V2_MODEL, "v2"), (V1, "v1"), (SELDON, "seldon"), (PING, "seldon")]
)
def test_all_are_asked_in_their_order_and_then_only_the_one_that_answered(path: str, protocol: str) -> None:
    async def body() -> None:
        async with running(Program({path: 200})) as program:
            watched = Watched(program.port, QUICK)
            await watched.ready()
            assert watched.probe.state.report.protocol == protocol
            assert program.asked[: ALL.index(path) + 1] == ALL[: ALL.index(path) + 1]
            program.asked.clear()
            program.statuses = dict.fromkeys(ALL, 200) | {path: 404}
            await watched.starting()
            assert set(program.asked) == {path}
            why = f"GET {path} returned 404"
            assert watched.probe.state.message == f"it listens on port {program.port} but is not ready: {why}"
            program.statuses[path] = 200
            await watched.ready()
            assert (watched.probe.state.message, watched.probe.state.report.protocol) == ("", protocol)
            watched.probe.stop()

    run(body)


def test_a_protocol_that_is_given_is_the_only_one_asked() -> None:
    async def body() -> None:
        async with running(Program(dict.fromkeys([V2, SELDON], 200))) as program:
            watched = Watched(program.port, AT_ONCE, protocol="v1")
            await watched.starting()
            assert watched.probe.state.message.endswith(f"is not ready: GET {V1} returned 404")
            program.statuses[V1] = 200
            await watched.ready()
            assert set(program.asked) == {V1}
            watched.probe.stop()

    run(body)


def test_what_was_found_out_before_is_not_asked_again() -> None:
    async def body() -> None:
        async with running(Program(dict.fromkeys(ALL, 200))) as program:
            watched = Watched(program.port, QUICK, known="seldon")
            assert watched.probe.state.report.protocol == "seldon"
            await watched.ready()
            assert set(program.asked) == {SELDON}
            watched.probe.stop()

    run(body)


def test_who_is_not_yet_ready_in_one_protocol_is_not_asked_for_the_next() -> None:
    async def body() -> None:
        async with running(Program({V2: 503, V1: 200})) as program:
            watched = Watched(program.port, QUICK)
            await watched.starting()
            assert (set(program.asked), watched.probe.state.report.protocol) == ({V2}, "")
            program.statuses[V2] = 200
            await watched.ready()
            assert watched.probe.state.report.protocol == "v2"
            watched.probe.stop()

    run(body)


def test_but_for_ever_it_is_not_waited_for() -> None:
    async def body() -> None:
        async with running(Program({V2: 503, V1: 200})) as program:
            watched = Watched(program.port, AT_ONCE)
            await watched.ready()
            assert watched.probe.state.report.protocol == "v1"
            watched.probe.stop()

    run(body)


def test_it_takes_a_while_until_it_is_told_what_was_asked_in_vain() -> None:
    async def body() -> None:
        async with running(Program({V1: 500})) as program:
            patient = Watched(program.port, QUICK)
            await patient.starting()
            assert patient.probe.state.message == ""
            patient.probe.stop()
            watched = Watched(program.port, AT_ONCE)
            await watched.until(lambda probe: probe.state.message != "")
            heard = ", ".join(f"GET {path} returned {500 if path == V1 else 404}" for path in ALL)
            assert watched.probe.state.message == f"it listens on port {program.port} but is not ready: {heard}"
            assert watched.probe.state.readiness == "starting"
            watched.probe.stop()

    run(body)


def test_where_nothing_listens_it_is_told_how_the_port_is_said() -> None:
    async def body() -> None:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        watched = Watched(port, AT_ONCE)
        await watched.until(lambda probe: probe.state.message != "")
        assert watched.probe.state.message.startswith(f"nothing listens on port {port} of 127.0.0.1: ")
        async with running(Program({V2: 200}), bound):
            await watched.ready()
        await watched.starting()
        watched.probe.stop()

    run(body)


def test_one_that_is_busy_stays_what_it_was_for_a_while() -> None:
    """The one answer that is late is late for ever; it is the number of those that counts."""

    async def body() -> None:
        async with running(Program({V2: 200})) as program:
            watched = Watched(program.port, ProbeIntervals(timeout=0.5, ready=0.01, starting=0.01, max_timeouts=3))
            await watched.ready()
            program.asked.clear()
            program.silent = True
            await watched.starting()
            assert len(program.asked) >= 3
            port = program.port
            message = f"it accepts connections on port {port} but does not respond within 0.5 s"
            assert watched.probe.state.message == message
            program.silent = False
            await watched.ready()
            watched.probe.stop()

    run(body)


def test_what_is_no_http_is_no_answer() -> None:
    async def body() -> None:
        async with running(Program(dict.fromkeys(ALL, 0))) as program:
            assert await get_status(program.port, V2, 60) == 0
            watched = Watched(program.port, AT_ONCE)
            await watched.until(lambda probe: f"GET {PING} returned no HTTP response" in probe.state.message)
            watched.probe.stop()

    run(body)

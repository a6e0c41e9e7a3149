"""Services of others: real ones on loopback, asked what they speak."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from mizzen.controllers.graphs import http_check, service_probes
from mizzen.controllers.graphs.facts import ProbeRequest, ProbeResult
from mizzen.controllers.graphs.http_check import check
from mizzen.controllers.graphs.service_probes import MAX_CONCURRENT, ServiceProber
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.text import addresses
from mizzen.kinds.workload import WireProtocol
from tests.support.controllers.graphs import graph
from tests.support.reconcile import virtual


class Service:
    """Answers paths with codes, and notes what it was asked."""

    def __init__(self, codes: Mapping[str, int], *, other: int = 404) -> None:
        self.codes = dict(codes)
        self.other = other
        self.requests: list[str] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        code = self.codes.get(head.split()[1], self.other)
        writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:1/\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    @property
    def paths(self) -> list[str]:
        return [head.split()[1] for head in self.requests]

    def question(self, protocol: WireProtocol | None = None) -> ProbeRequest:
        return ProbeRequest(addresses.parse(f"127.0.0.1:{self.port}"), "scorer", protocol)


@contextlib.asynccontextmanager
async def listening(service: Service) -> AsyncIterator[Service]:
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    async with server:
        yield service


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v2/health/ready", "v2"), ("/v1/models/scorer", "v1"), ("/health/status", "seldon"),
        ("/health/ping", "seldon"), ("/nothing", "v2"),
    ],
)  # fmt: skip
def test_what_it_speaks_is_found_out(path: str, protocol: WireProtocol) -> None:
    async def main() -> None:
        async with listening(Service({path: 200})) as service:
            assert await check(service.question()) == ProbeResult(protocol)
            assert await check(service.question(protocol)) == ProbeResult(protocol)
            assert await check(service.question("v1")) == ProbeResult("v1"), "who says so is believed"

    asyncio.run(main())


def test_it_is_asked_without_credentials_and_redirects_are_not_followed() -> None:
    async def main() -> None:
        async with listening(Service({}, other=307)) as service:
            assert await check(service.question()) == ProbeResult("v2")
            assert service.paths == ["/v2/health/ready", "/v1/models/scorer", "/health/status", "/health/ping"]
            names = {line.partition(":")[0] for head in service.requests for line in head.splitlines()[1:] if line}
            assert names == {"Host", "Connection"}

    asyncio.run(main())


def test_one_that_says_it_is_not_ready_is_not() -> None:
    async def main() -> None:
        async with listening(Service({"/health/status": 503})) as service:
            assert await check(service.question()) == ProbeResult(why="not ready yet: /health/status returned 503")
            assert await check(service.question("v2")) == ProbeResult("v2")
            service.codes = {"/v2/health/ready": 503, "/health/ping": 200}
            assert await check(service.question()) == ProbeResult("seldon")

    asyncio.run(main())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def test_nobody_there() -> None:
    async def main() -> None:
        found = await check(ProbeRequest(addresses.parse(f"127.0.0.1:{free_port()}"), "m"))
        assert found.protocol is None
        assert "refused" in found.why.lower() or "connect call failed" in found.why.lower()

    asyncio.run(main())


@pytest.mark.parametrize(
    "says", [b"", b"\0\1\2\n", b"HTTP/1.1\n", b"HTTP/1.1 two\n", b"HTTP/1.1 " + b"2" * 5000, b"x" * 100_000]
)
def test_whoever_takes_connections_and_tells_nothing_counts_as_there(says: bytes) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await check(ProbeRequest(addresses.parse(f"127.0.0.1:{port}"), "m")) == ProbeResult("v2")

    asyncio.run(main())


def test_one_that_never_answers_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_check, "RESPONSE_TIMEOUT", 0.01)
    ends = asyncio.Event()

    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ends.wait()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(stuck, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await check(ProbeRequest(addresses.parse(f"127.0.0.1:{port}"), "m")) == ProbeResult("v2")
            ends.set()

    asyncio.run(main())


class World:
    """Probes in virtual time, over services that are as the test says."""

    def __init__(self) -> None:
        self.there: dict[str, ProbeResult] = {}
        self.asked: list[tuple[float, str]] = []
        self.at_once = self.most = 0
        self.poked: list[Ref] = []
        self.probes = ServiceProber(self.poked.append, check=self.ask)

    async def ask(self, question: ProbeRequest) -> ProbeResult:
        self.asked.append((asyncio.get_running_loop().time(), question.address.host))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.5)
        self.at_once -= 1
        return self.there.get(question.address.host, ProbeResult(why="refused"))

    def look(self, resource: Resource, *texts: str, **known: WireProtocol) -> dict[str, ProbeResult]:
        questions = {text: ProbeRequest(addresses.parse(text), "m") for text in texts}
        return dict(self.probes.probe(resource, questions, known))


G = graph({})


def test_each_is_asked_until_it_answers_and_never_again() -> None:
    async def main() -> None:
        world = World()
        assert world.look(G, "one", "two") == {"one": ProbeResult(), "two": ProbeResult()}
        world.there["one"] = ProbeResult("v1")
        await asyncio.sleep(1)
        assert world.look(G, "one", "two") == {"one": ProbeResult("v1"), "two": ProbeResult(why="refused")}
        assert world.poked == [G.ref] * 2
        await asyncio.sleep(300)
        times = [time for time, name in world.asked if name == "two"]
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert pauses == sorted(pauses)
        assert pauses[-1] <= service_probes.LONGEST_PAUSE + 1
        assert [name for _, name in world.asked].count("one") == 1
        assert len(world.poked) == 2, "nothing new was heard"
        world.there["two"] = ProbeResult("seldon")
        await asyncio.sleep(60)
        assert world.look(G, "one", "two") == {"one": ProbeResult("v1"), "two": ProbeResult("seldon")}
        count = len(world.asked)
        await asyncio.sleep(600)
        assert len(world.asked) == count
        await world.probes.close()

    virtual.run(main())


def test_another_spec_asks_anew_and_what_is_known_is_not_asked() -> None:
    async def main() -> None:
        world = World()
        world.there["one"] = ProbeResult("v1")
        assert world.look(G, "one", one="seldon") == {"one": ProbeResult("seldon")}
        await asyncio.sleep(5)
        assert world.asked == []
        world.look(G, "one")
        await asyncio.sleep(5)
        later = replace(G, meta=replace(G.meta, generation=2))
        assert world.look(later, "one") == {"one": ProbeResult()}
        await asyncio.sleep(5)
        assert len(world.asked) == 2
        assert world.look(later, "one") == {"one": ProbeResult("v1")}
        await world.probes.close()

    virtual.run(main())


def test_what_nobody_asks_for_any_more_is_not_asked() -> None:
    async def main() -> None:
        world = World()
        world.look(G, "one", "two")
        await asyncio.sleep(0.1)
        world.look(G, "two")
        await asyncio.sleep(1)
        world.poked.clear()
        world.probes.forget(G.ref)
        count = len(world.asked)
        await asyncio.sleep(600)
        assert len(world.asked) == count
        assert world.poked == []
        await world.probes.close()

    virtual.run(main())


def test_a_few_are_asked_at_a_time() -> None:
    async def main() -> None:
        world = World()
        names = [f"s{number}" for number in range(5 * MAX_CONCURRENT)]
        world.there = dict.fromkeys(names, ProbeResult("v2"))
        world.look(G, *names)
        await asyncio.sleep(60)
        assert world.most == MAX_CONCURRENT
        assert set(world.look(G, *names).values()) == {ProbeResult("v2")}
        await world.probes.close()

    virtual.run(main())


def test_closing_ends_what_is_under_way() -> None:
    async def main() -> None:
        world = World()
        world.look(G, "one")
        await asyncio.sleep(0.1)
        await world.probes.close()
        await asyncio.sleep(60)
        assert len(world.asked) == 1
        assert world.poked == []

    virtual.run(main())

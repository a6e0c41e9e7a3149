"""Models are told of feedback that counted: those that ran and want to know, children before parents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mizzen.access.policy import Target
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.replica_connection import ReplicaConnection
from mizzen.gateway.queueing.signature import Hello
from mizzen.gateway.route_table import NamedRoute
from mizzen.gateway.telemetry.counters import Counters
from mizzen.graph.table_types import Server
from mizzen.protocol.frames import framing, msgpack
from tests.support.gateway import virtual
from tests.support.gateway.harness import Runtime, short_folder, until
from tests.support.gateway.judging import World, graph

EAR = Hello(state="ready", feedback=True)


class Listening(virtual.Hand):
    """A replica that notes what it is told, with its name."""

    def __init__(self, name: str, heard: list[tuple[str, Any]], *, takes: bool = True) -> None:
        super().__init__()
        self._name, self._heard, self._takes = name, heard, takes

    def tell(self, feedback: bytes) -> bool:
        if self._takes:
            self._heard.append((self._name, msgpack.unpack(feedback)))
        return self._takes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, graph())
    yield world
    world.log.close()


def serve(world: World, name: str, version: str, queue: Queue) -> None:
    target = Target("default", "Model", name, models=frozenset({name}))
    endpoint = Endpoint(
        "default", name, version, None, target, (queue,), lambda call: None, 10.0, b"", Counters(), bytes, V2
    )
    world.service.routes.names["default", name] = NamedRoute(endpoint, {version: endpoint})


def queue_of(version: str) -> Queue:
    world = virtual.World()
    world.queue.server = Server(id="default/m", model="m", version=version, addresses=("unix:a",))
    return world.queue


def test_those_that_ran_are_told_children_first(world: World) -> None:
    heard: list[tuple[str, Any]] = []
    for name, version in (("first", "1"), ("model-b", "7"), ("model-c", "7")):
        queue = queue_of(version)
        queue.on_ready(Listening(name, heard), EAR)
        serve(world, name, version, queue)
    id_ = world.answered()
    body = {"id": id_, "truth": [1]}
    assert world.post(body)[1]["counted"] is True
    told = {"id": id_, "reward": 1.0, "truth": [1]}
    assert heard == [("model-b", told), ("first", told)]
    assert world.post(body)[1]["counted"] is False
    assert world.post({"id": id_, "reward": 0})[0] == 409
    assert len(heard) == 2, "nobody is told what does not count"
    heard.clear()
    other = world.answered()
    world.post({"id": other, "reward": 0})
    assert heard[0] == ("model-b", {"id": other, "reward": 0.0})


def test_another_version_is_not_told(world: World) -> None:
    heard: list[tuple[str, Any]] = []
    queue = queue_of("8")
    queue.on_ready(Listening("model-b", heard), EAR)
    serve(world, "model-b", "8", queue)
    assert world.post({"id": world.answered(), "reward": 1})[1]["counted"] is True
    assert heard == []


def test_a_truth_that_no_frame_can_carry_counts_all_the_same(world: World, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, Any]] = []
    queue = queue_of("7")
    queue.on_ready(Listening("model-b", heard), EAR)
    serve(world, "model-b", "7", queue)
    answer = world.post({"id": world.answered(), "truth": 10**30})
    assert answer[1]["counted"] is True
    assert heard == []
    assert "models could not be notified of feedback" in caplog.text


def test_one_replica_is_told_if_any_wants_to_know() -> None:
    heard: list[tuple[str, Any]] = []
    queue = queue_of("1")
    assert not queue.tell(b"\xc0")
    queue.on_ready(Listening("deaf", heard, takes=False), EAR)
    assert not queue.tell(b"\xc0")
    for name in ("one", "two"):
        queue.on_ready(Listening(name, heard), EAR)
    assert queue.tell(b"\xc0")
    assert len(heard) == 1


class Ear(Runtime):
    """Notes the FEEDBACK frames that it gets."""

    def __init__(self, path: str, hello: dict[str, Any]) -> None:
        self.heard: list[Any] = []
        super().__init__(path, hello)

    def _take(self, writer: asyncio.StreamWriter, frame: framing.ReceivedFrame) -> None:
        if frame.type == framing.FEEDBACK:
            self.heard.append((frame.flags, msgpack.unpack(frame.body)))
        else:
            super()._take(writer, frame)


@pytest.mark.parametrize("wants", [True, False])
def test_a_replica_gets_frames_only_if_its_hello_asks_for_them(wants: bool) -> None:
    with short_folder() as folder:
        runtime = Ear(str(folder / "r.sock"), {"feedback": True} if wants else {})

        async def run() -> bool:
            ready = asyncio.Event()
            queue = queue_of("1")
            replica = ReplicaConnection(runtime.address, queue, asyncio.get_running_loop(), ready.set)
            assert not replica.tell(b"\x80")
            try:
                await asyncio.wait_for(ready.wait(), 60)
                took = queue.tell(msgpack.pack({"id": "x", "reward": 1.0}))
                if took:
                    await asyncio.to_thread(until, lambda: runtime.heard)
            finally:
                await replica.abort()
            return took

        try:
            assert asyncio.run(run()) is wants
        finally:
            runtime.close()
        assert runtime.heard == ([(framing.LAST, {"id": "x", "reward": 1.0})] if wants else [])

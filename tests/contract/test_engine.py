"""What every Engine promises, over all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from mizzen.blobs.files import FileBlobs
from mizzen.engines.engine import Engine, Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.kinds.meta import Meta, Resource
from mizzen.kinds.workload import WorkloadStatus
from mizzen.protocol import frames
from tests.support.supervised import Supervised, supervised

T = TypeVar("T")

SERVES = """
import os, signal, socket, sys, threading
from mizzen.protocol.frames import DRAIN, HELLO, encode
path, peers = os.environ["MIZZEN_SOCKET"], []
if os.path.exists(path):
    os.unlink(path)
def drain(*_):
    for peer in peers:
        peer.sendall(encode(DRAIN, 0))
        while peer.recv(100):
            pass
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("serving", os.environ.get("WORD", ""), flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(encode(HELLO, 0, b"\\x81\\xa5state\\xa5ready"))
    peers.append(peer)
"""

GIVES_UP = """
import os, sys
with open(os.environ["MIZZEN_TERMINATION_LOG"], "w") as file:
    file.write("the file is no model")
sys.exit(78)
"""


class World(Protocol):
    """A place for engines to act in. Two engines of one world see the same: the second is a plane restarted."""

    def engine(self) -> Engine: ...

    async def close(self) -> None:
        """Ends the engines, not what they run."""

    def artifact(self, path: str, content: bytes) -> dict[str, Any]: ...


class LocalWorld:
    def __init__(self, plane: Supervised) -> None:
        self._plane = plane
        self._blobs = FileBlobs(plane.home.data_dir / "blobs")
        self._engines: list[LocalEngine] = []
        plane.start()

    def engine(self) -> Engine:
        self._engines.append(LocalEngine(self._plane.home, self._blobs, python=sys.executable))
        return self._engines[-1]

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()

    def artifact(self, path: str, content: bytes) -> dict[str, Any]:
        blob = self._blobs.put_bytes(content)
        return {"path": path, "digest": blob.digest, "size": blob.size}


@pytest.fixture(params=["local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with supervised(tmp_path / "d") as plane:
        yield LocalWorld(plane)


def workload(code: str, **spec: Any) -> Resource:
    meta = Meta("iris-1", uid="0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d")
    return Resource("Workload", meta, {"purpose": "serve", "command": ["python", "-c", code], **spec})


def reported(resource: Resource, seen: Observation) -> Resource:
    """As it is stored once a controller has written down what was seen."""
    return resource.with_status(WorkloadStatus(replicas=seen.replicas))


def changed(resource: Resource, **spec: Any) -> Resource:
    return replace(resource, spec={**resource.spec, **spec})


def test_a_replica_becomes_ready_and_says_hello_where_it_is_said_to_be(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        first = await engine.apply(workload(SERVES))
        assert [replica.state for replica in first.replicas] == ["starting"]
        (replica,) = (await ready(engine, workload(SERVES))).replicas
        assert _hello(replica.address) == frames.HELLO
        assert (replica.restarts, replica.exit_code, replica.message) == (0, None, "")

    run(world, body)


def test_apply_is_idempotent(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, workload(SERVES))
        assert await engine.apply(workload(SERVES)) == before

    run(world, body)


def test_another_engine_finds_what_runs_and_reports_it_as_it_is(world: World) -> None:
    async def body() -> None:
        before = await ready(world.engine(), workload(SERVES))
        assert await world.engine().apply(reported(workload(SERVES), before)) == before

    run(world, body)


def test_a_replica_too_busy_to_say_hello_to_another_engine_stays_ready(world: World) -> None:
    busy = workload(SERVES.replace("peers.append(peer)", "import time; time.sleep(600)"))

    async def body() -> None:
        before = await ready(world.engine(), busy)
        after = world.engine()
        for _ in range(20):
            assert await after.apply(reported(busy, before)) == before
            await asyncio.sleep(0.02)
        assert _states(await world.engine().apply(busy)) == {"starting"}, "nobody told that it was ready"
        os.kill(before.replicas[0].pid or 0, signal.SIGKILL)
        seen = await observed(after, reported(busy, before), lambda seen: seen.replicas[0].restarts == 1)
        assert seen.replicas[0].pid != before.replicas[0].pid

    run(world, body)


@pytest.mark.parametrize("count", [1, 3])
def test_with_another_spec_replicas_are_replaced_one_at_a_time_where_they_are(world: World, count: int) -> None:
    given = workload(SERVES, replicas=count)

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        addresses = [replica.address for replica in before.replicas]

        def replaced(seen: Observation) -> bool:
            assert [replica.address for replica in seen.replicas] == addresses
            assert "stopping" not in _states(seen)
            assert sum(replica.state != "ready" for replica in seen.replicas) <= 1
            pids = zip(seen.replicas, before.replicas, strict=True)
            return _states(seen) == {"ready"} and all(now.pid != then.pid for now, then in pids)

        await observed(engine, changed(given, env={"X": "2"}), replaced)

    run(world, body)


def test_a_spec_that_cannot_start_replaces_only_one_of_several_that_serve(world: World) -> None:
    given = workload(SERVES, replicas=2)

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        broken = changed(given, command=["python", "-c", GIVES_UP])
        seen = await observed(engine, broken, lambda seen: "failed" in _states(seen))
        assert seen.replicas[1] == before.replicas[1]
        assert await engine.apply(broken) == seen
        await ready(engine, given)

    run(world, body)


def test_files_that_are_not_there_are_told_as_a_failure(world: World) -> None:
    missing = {"path": "a", "digest": "sha256:" + "0" * 64, "size": 1}

    async def body() -> None:
        engine = world.engine()
        (replica,) = (await engine.apply(workload(SERVES, artifacts=[missing]))).replicas
        assert (replica.state, replica.message) == ("failed", f"no blob {missing['digest']}")
        await ready(engine, workload(SERVES))

    run(world, body)


def test_replicas_are_added_and_removed(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        one = await ready(engine, workload(SERVES))
        three = await ready(engine, workload(SERVES, replicas=3))
        assert [replica.index for replica in three.replicas] == [0, 1, 2]
        assert three.replicas[0] == one.replicas[0]
        assert len({replica.address for replica in three.replicas}) == 3
        back = await observed(engine, workload(SERVES), lambda seen: len(seen.replicas) == 1)
        assert back == one
        none = await observed(engine, workload(SERVES, replicas=0), lambda seen: not seen.replicas)
        assert none == Observation()

    run(world, body)


def test_files_and_environment_reach_the_process_and_a_change_of_either_starts_it_anew(world: World) -> None:
    code = (
        "import os; word = open(os.path.join(os.environ['MIZZEN_ARTIFACTS'], 'a', 'b')).read();"
        "os.environ['WORD'] = word + os.environ['X'];" + SERVES
    )
    given = workload(code, artifacts=[world.artifact("a/b", b"old")], env={"X": "1"})

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        other_env = changed(given, env={"X": "2"})
        after = await observed(engine, other_env, lambda seen: _ready_anew(seen, before))
        other_files = changed(other_env, artifacts=[world.artifact("a/b", b"new")])
        await observed(engine, other_files, lambda seen: _ready_anew(seen, after))
        printed = await _collect(engine, other_files)
        assert printed.split() == b"serving old1 serving old2 serving new2".split()

    run(world, body)


def test_a_crash_is_counted_and_started_again(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        (before,) = (await ready(engine, workload(SERVES))).replicas
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)
        seen = await observed(
            engine, workload(SERVES), lambda seen: seen.replicas[0].restarts == 1 and _states(seen) == {"ready"}
        )
        assert seen.replicas[0].exit_code == 128 + signal.SIGKILL
        assert seen.replicas[0].pid != before.pid

    run(world, body)


def test_what_crashes_again_and_again_waits_with_a_reason(world: World) -> None:
    async def body() -> None:
        engine, broken = world.engine(), workload("raise SystemExit(3)")
        seen = await observed(engine, broken, lambda seen: _states(seen) == {"waiting"})
        assert (seen.replicas[0].message, seen.replicas[0].exit_code) == ("exited with code 3", 3)

    run(world, body)


def test_giving_up_is_final_and_tells_why(world: World) -> None:
    async def body() -> None:
        engine, broken = world.engine(), workload(GIVES_UP)
        seen = await observed(engine, broken, lambda seen: _states(seen) == {"failed"})
        (replica,) = seen.replicas
        assert (replica.message, replica.exit_code, replica.restarts) == ("the file is no model", 78, 0)
        assert await engine.apply(broken) == seen
        await ready(engine, workload(SERVES))

    run(world, body)


def test_restart_never(world: World) -> None:
    async def body() -> None:
        once = workload("raise SystemExit(3)", restart="Never")
        seen = await observed(world.engine(), once, lambda seen: _states(seen) == {"failed"})
        assert seen.replicas[0].message == "exited with code 3"

    run(world, body)


def test_delete_is_true_once_all_is_gone(world: World) -> None:
    async def body() -> None:
        engine, two = world.engine(), workload(SERVES, replicas=2)
        before = await ready(engine, two)
        await until(lambda: engine.delete(two))
        for replica in before.replicas:
            assert replica.pid is not None
            with pytest.raises(ProcessLookupError):
                os.kill(replica.pid, 0)
            assert not os.path.exists(replica.address.removeprefix("unix:"))  # noqa: ASYNC240
        assert await engine.delete(two)
        assert await world.engine().delete(workload(SERVES))

    run(world, body)


def test_a_replica_that_drains_is_stopping_and_ends_although_it_is_watched(world: World) -> None:
    async def body() -> None:
        engine, patient = world.engine(), workload(SERVES, graceSeconds=600)
        await ready(engine, patient)
        await until(lambda: engine.delete(patient))

    run(world, body)


def test_changes_tell_of_readiness_and_of_deaths(world: World) -> None:
    async def body() -> None:
        engine, given = world.engine(), workload(SERVES)
        seen: Observation = await engine.apply(given)
        async for ref in engine.changes():
            assert ref == given.ref
            seen = await engine.apply(given)
            if _states(seen) == {"ready"} and seen.replicas[0].restarts == 0:
                os.kill(seen.replicas[0].pid or 0, signal.SIGKILL)
            elif _states(seen) == {"ready"}:
                return

    run(world, body)


def test_logs(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        talks = workload("print(*range(5), sep='\\n', flush=True); " + "import time; time.sleep(600)")
        await engine.apply(talks)
        await until(lambda: _printed(engine, talks, b"0\n1\n2\n3\n4\n"))
        assert await _collect(engine, talks, tail=2) == b"3\n4\n"
        assert await _collect(engine, talks, tail=0) == b""
        two = changed(talks, replicas=2)
        await engine.apply(two)
        await until(lambda: _printed(engine, two, b"[0] 3\n[0] 4\n[1] 3\n[1] 4\n", tail=2))

    run(world, body)


def test_logs_can_be_followed_until_the_workload_is_gone(world: World) -> None:
    async def body() -> None:
        engine, given = world.engine(), workload(SERVES)
        following = asyncio.create_task(_collect(engine, given, follow=True))
        (replica,) = (await ready(engine, given)).replicas
        os.kill(replica.pid or 0, signal.SIGKILL)
        await observed(engine, given, lambda seen: seen.replicas[0].restarts == 1 and _states(seen) == {"ready"})
        await until(lambda: engine.delete(given))
        assert await following == b"serving \nserving \n"

    run(world, body)


def run(world: World, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(60):
                await body()
        finally:
            await world.close()

    asyncio.run(main())


async def ready(engine: Engine, given: Resource) -> Observation:
    return await observed(engine, given, lambda seen: _states(seen) == {"ready"})


async def observed(engine: Engine, given: Resource, enough: Callable[[Observation], bool]) -> Observation:
    async def look() -> Observation | None:
        seen = await engine.apply(given)
        return seen if enough(seen) else None

    return await until(look)


async def until(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(30):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.02)


async def _printed(engine: Engine, given: Resource, expected: bytes, **options: Any) -> bool:
    return await _collect(engine, given, **options) == expected


async def _collect(engine: Engine, given: Resource, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in engine.logs(given, **options)])


def _states(seen: Observation) -> set[str]:
    return {replica.state for replica in seen.replicas}


def _ready_anew(seen: Observation, before: Observation) -> bool:
    return _states(seen) == {"ready"} and seen.replicas[0].pid != before.replicas[0].pid


def _hello(address: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(address.removeprefix("unix:"))
        (frame,) = frames.Reader().feed(connection.recv(1 << 16))
        return frame.type

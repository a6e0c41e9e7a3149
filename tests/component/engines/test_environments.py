"""Environments built by a real builder under a real supervisor, from wheels made here: no index is asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mizzen.blobs.disk_room import Room
from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.environments.lifecycle import MAX_BUILDS, BuildSettings, Environments, log_of
from mizzen.engines.local.environments.spec import EnvironmentPaths, Recipe, list_removing, list_stored, root_of
from mizzen.engines.local.process_specs import BuiltEnvironment, Obstacle
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import Environment
from mizzen.supervisor.client import Client
from tests.support import wheels
from tests.support.supervised import Supervised, supervised, until

SERVES = """
import os, socket, sys, numpy, thing
from mizzen.protocol.frames.framing import HELLO, encode
print("with", thing.__version__, sys.prefix, os.environ["MIZZEN_ENVIRONMENT"], flush=True)
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["MIZZEN_SOCKET"])
server.listen()
peers = []
while True:
    peers.append(server.accept()[0])
    peers[-1].sendall(encode(HELLO, 0))
"""
# A build of it goes on until the test lets it.
SLOW = "import time, pathlib\nwhile not pathlib.Path({gate!r}).exists():\n    time.sleep(0.02)"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`numpy` is a word here: nothing of these tests computes."""
    folder = tmp_path_factory.mktemp("wheels")
    wheels.make(folder, "numpy", "2.0")
    for version in ("1.0", "2.0"):
        wheels.make(folder, "thing", version)
    return folder


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "d") as running:
        running.start()
        yield running


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        import time

        return time.time() + self.ahead


@contextlib.asynccontextmanager
async def opened(
    plane: Supervised,
    index: Path,
    *,
    tool: str = "auto",
    now: Callable[[], float] | None = None,
    room: Room | None = None,
) -> AsyncIterator[Environments]:
    """As an engine has them."""

    @contextlib.asynccontextmanager
    async def asking() -> AsyncIterator[Client]:
        client = await Client.connect(plane.home)
        try:
            yield client
        finally:
            client.close()

    making = BuildSettings(tool, str(index))
    given: dict[str, Any] = {"now": now} if now is not None else {}
    yield Environments(plane.home, asking, python=sys.executable, build_settings=making, room=room, **given)


def wanting(*lines: str) -> Environment:
    return Environment(requirements=lines)


async def settled(
    environments: Environments, uid: str, wanted: Environment, reason: str = ""
) -> BuiltEnvironment | Obstacle:
    """Until it is there, or cannot be had; with `reason`, until that is said."""
    async with asyncio.timeout(60):
        while True:
            found = await environments.ensure(uid, wanted)
            if isinstance(found, BuiltEnvironment) or found.reason == (reason or "EnvironmentFailed"):
                return found
            await asyncio.sleep(0.02)


def builders(plane: Supervised) -> dict[psutil.Process, str]:
    """With their commands."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environ = process.environ()
            ours = environ.get("MIZZEN_DATA_DIR") == str(plane.home.data_dir)
            if ours and environ.get("MIZZEN_PROCESS_KEY", "").startswith("env-"):
                found[process] = " ".join(process.cmdline())
    return found


def place_of(plane: Supervised, wanted: Environment) -> EnvironmentPaths:
    return EnvironmentPaths(root_of(plane.home.data_dir), Recipe.of(wanted).key)


def test_two_workloads_with_packages_that_exclude_each_other(plane: Supervised, index: Path) -> None:
    def workload(number: int) -> Resource:
        spec = {
            "purpose": "serve", "command": ["python", "-c", SERVES],
            "environment": {"requirements": [f"thing=={number}.0"]},
        }  # fmt: skip
        return Resource("Workload", Meta(f"w-{number}", uid=f"{number}e0f1a2b-3c4d-4e5f-8a6b-9c7d0a1b2c3d"), spec)

    async def body() -> None:
        engine = LocalEngine(
            plane.home,
            FileBlobs(plane.home.data_dir / "blobs"),
            python=sys.executable,
            build_settings=BuildSettings("uv", str(index)),
        )
        try:
            first = await engine.apply(workload(1))
            assert first.replicas[0].reason == "BuildingEnvironment"
            assert first.replicas[0].message.startswith("building its environment: ")
            for number in (1, 2):
                await _ready(engine, workload(number))
                printed = b"".join([chunk async for chunk in engine.logs(workload(number))]).decode()
                environment = workload(number).spec["environment"]
                key = Recipe.of(Environment.model_validate(environment)).key
                assert printed == f"with {number}.0 {root_of(plane.home.data_dir) / key} {key}\n"
                built = b"".join([chunk async for chunk in engine.logs(workload(number), build=True)]).decode()
                assert f"thing=={number}.0" in built
        finally:
            await engine.close()

    asyncio.run(body())


async def _ready(engine: LocalEngine, workload: Resource) -> Observation:
    async with asyncio.timeout(60):
        while True:
            seen = await engine.apply(workload)
            assert not any(replica.state == "failed" for replica in seen.replicas), seen
            if seen.replicas[0].state == "ready":
                return seen
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_what_is_wanted_twice_is_built_once(plane: Supervised, index: Path, tool: str) -> None:
    async def body() -> None:
        async with opened(plane, index, tool=tool) as environments:
            one, other = await asyncio.gather(
                settled(environments, "a", wanting("thing")), settled(environments, "b", wanting("Thing", "numpy"))
            )
            assert isinstance(one, BuiltEnvironment)
            assert one == other
            assert log_of(plane.home, one.key).read_text().count(f"environment {one.key}") == 1
        async with opened(plane, index, tool=tool) as later, connected(plane) as client, asyncio.timeout(60):
            while await client.list("env-"):  # as after a restart of the plane; and who built it is forgotten soon
                assert await later.ensure("a", wanting("thing")) == one
                await asyncio.sleep(0.02)

    asyncio.run(body())


@contextlib.asynccontextmanager
async def connected(plane: Supervised) -> AsyncIterator[Client]:
    client = await Client.connect(plane.home)
    try:
        yield client
    finally:
        client.close()


def test_what_cannot_be_had_is_told_and_tried_again_when_it_is_due(plane: Supervised, tmp_path: Path) -> None:
    folder, clock = tmp_path / "wheels", Clock()
    wheels.make(folder, "numpy", "2.0")

    async def body() -> None:
        async with opened(plane, folder, now=clock) as environments:
            found = await settled(environments, "a", wanting("late"))
            assert isinstance(found, Obstacle)
            assert found.state == "waiting"
            assert "its environment cannot be built: " in found.message
            assert "late" in found.message
            wheels.make(folder, "late")
            again = await environments.ensure("a", wanting("late"))
            assert again == found, "not before it is due"
            clock.ahead += 11
            built = await settled(environments, "a", wanting("late"))
            assert isinstance(built, BuiltEnvironment)
            assert "late" in log_of(plane.home, built.key).read_text().split("environment ")[1], "what failed is kept"

    asyncio.run(body())


def test_whoever_asks_anew_is_tried_at_once(plane: Supervised, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    wheels.make(folder, "numpy", "2.0")

    async def body() -> None:
        async with opened(plane, folder) as environments:
            await settled(environments, "a", wanting("late"))
            await environments.release("a")
            wheels.make(folder, "late")
            assert isinstance(await settled(environments, "b", wanting("late")), BuiltEnvironment)

    asyncio.run(body())


def test_a_package_without_numpy_s_name_is_no_use(plane: Supervised, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    wheels.make(folder, "numpy", "2.0", code="raise ImportError('libfoo.so: not found')")

    async def body() -> None:
        async with opened(plane, folder) as environments:
            found = await settled(environments, "a", wanting())
            assert isinstance(found, Obstacle)
            assert "libfoo.so: not found" in found.message
            assert not place_of(plane, wanting()).folder.exists(), "what failed takes no room"

    asyncio.run(body())


def _slow(folder: Path, gate: Path, *names: str) -> None:
    """Packages whose builds take until there is a file: numpy is imported when all is installed."""
    wheels.make(folder, "numpy", "2.0", code=SLOW.format(gate=str(gate)))
    for name in names:
        wheels.make(folder, name)


async def _building(plane: Supervised, environments: Environments, wanted: Environment) -> psutil.Process:
    """The builder, once all is installed but the stamp."""
    async with asyncio.timeout(60):
        while True:
            await environments.ensure("a", wanted)
            commands = builders(plane)
            if any("import sys, numpy" in command for command in commands.values()):
                return next(process for process, command in commands.items() if "environments.build" in command)
            await asyncio.sleep(0.02)


def test_a_builder_that_is_killed_leaves_nothing_that_is_used(plane: Supervised, tmp_path: Path) -> None:
    gate, clock = tmp_path / "w" / "gate", Clock()
    _slow(tmp_path / "w", gate, "thing")

    async def body() -> None:
        async with opened(plane, tmp_path / "w", now=clock) as environments:
            builder = await _building(plane, environments, wanting("thing"))
            assert place_of(plane, wanting("thing")).python.exists(), "all is there but the stamp"
            os.kill(builder.pid, signal.SIGKILL)
            found = await settled(environments, "a", wanting("thing"))
            assert isinstance(found, Obstacle)
            assert "ended unexpectedly with code 137" in found.message
            assert not place_of(plane, wanting("thing")).folder.exists()
            gate.touch()
            clock.ahead += 11
            assert isinstance(await settled(environments, "a", wanting("thing")), BuiltEnvironment)
            await asyncio.to_thread(until, lambda: not builders(plane))

    asyncio.run(body())


def test_a_build_that_takes_too_long_is_ended(plane: Supervised, tmp_path: Path) -> None:
    gate, clock = tmp_path / "w" / "gate", Clock()
    _slow(tmp_path / "w", gate, "thing")

    async def body() -> None:
        async with opened(plane, tmp_path / "w", now=clock) as environments:
            await _building(plane, environments, wanting("thing"))
            clock.ahead += 1801
            found = await settled(environments, "a", wanting("thing"))
            assert isinstance(found, Obstacle)
            assert "its build took longer than 30 minutes" in found.message
            await asyncio.to_thread(until, lambda: not builders(plane))
            assert not place_of(plane, wanting("thing")).folder.exists()
            gate.touch()
            clock.ahead += 11
            assert isinstance(await settled(environments, "a", wanting("thing")), BuiltEnvironment)

    asyncio.run(body())


def test_without_room_nothing_is_built(plane: Supervised, index: Path) -> None:
    free = [10]

    async def body() -> None:
        async with opened(plane, index, room=Room(plane.home.data_dir, 100, 1, lambda _: free[0])) as environments:
            found = await environments.ensure("a", wanting())
            assert isinstance(found, Obstacle)
            assert (found.state, found.reason) == ("waiting", "NoRoom")
            assert not builders(plane)
            free[0] = 1000
            assert isinstance(await settled(environments, "a", wanting()), BuiltEnvironment)

    asyncio.run(body())


def test_a_build_outlives_the_plane_that_ordered_it(plane: Supervised, tmp_path: Path) -> None:
    gate = tmp_path / "w" / "gate"
    _slow(tmp_path / "w", gate, "thing")

    async def body() -> None:
        async with opened(plane, tmp_path / "w") as environments:
            builder = await _building(plane, environments, wanting("thing"))
        async with opened(plane, tmp_path / "w") as environments:
            found = await environments.ensure("a", wanting("thing"))
            assert isinstance(found, Obstacle)
            assert found.message.startswith("building its environment: checking it")
            assert builder.is_running()
            gate.touch()
            assert isinstance(await settled(environments, "a", wanting("thing")), BuiltEnvironment)

    asyncio.run(body())


def test_what_nobody_wants_any_more_is_not_built(plane: Supervised, tmp_path: Path) -> None:
    _slow(tmp_path / "w", tmp_path / "w" / "gate", "thing", "other")

    async def body() -> None:
        async with opened(plane, tmp_path / "w") as environments:
            await _building(plane, environments, wanting("thing"))
            await environments.ensure("b", wanting("thing"))
            await environments.release("a")
            assert builders(plane), "somebody else wants it"
            await environments.ensure("b", wanting("other"))  # another version: it wants something else now
            process = place_of(plane, wanting("thing")).process
            await asyncio.to_thread(until, lambda: process not in plane.views())
            await environments.release("b")
            # The supervisor forgets a builder only after it has reaped it: until then its files stay.
            await asyncio.to_thread(until, lambda: not builders(plane) and not plane.views())
            assert await environments.clear(unused=3600) != []
            assert not [path for path in root_of(plane.home.data_dir).iterdir() if not path.name.startswith(".")]

    asyncio.run(body())


def test_not_more_than_some_are_built_at_once(plane: Supervised, tmp_path: Path) -> None:
    names = ("one", "two", "three")
    gate = tmp_path / "w" / "gate"
    _slow(tmp_path / "w", gate, *names)

    async def body() -> None:
        async with opened(plane, tmp_path / "w") as environments:
            found = [await environments.ensure(name, wanting(name)) for name in names]
            last = found[-1]
            assert isinstance(last, Obstacle)
            assert (last.reason, last.message) == (
                "BuildingEnvironment", f"its environment waits for {MAX_BUILDS} other builds",
            )  # fmt: skip
            gate.touch()
            for name in names:
                assert isinstance(await settled(environments, name, wanting(name)), BuiltEnvironment)

    asyncio.run(body())


async def _forgotten(plane: Supervised, key: str) -> None:
    """Until a builder that is removed has ended: while it speaks its last words, what it built is kept."""
    async with connected(plane) as client, asyncio.timeout(60):
        while True:
            if not await client.list(f"env-{key}"):
                return
            await asyncio.sleep(0.02)


def test_what_was_not_used_for_long_goes_and_what_is_in_use_stays(plane: Supervised, index: Path) -> None:
    clock = Clock()

    async def body() -> None:
        async with opened(plane, index, now=clock) as environments:
            used = await settled(environments, "a", wanting("thing==1.0"))
            left = await settled(environments, "b", wanting("thing==2.0"))
            assert isinstance(used, BuiltEnvironment)
            assert isinstance(left, BuiltEnvironment)
            await environments.release("b")
            await _forgotten(plane, left.key)
            clock.ahead += 3000
            assert await environments.clear(unused=3600) == []
            clock.ahead += 3000
            assert await environments.clear(unused=3600) == [left.key]
            assert place_of(plane, wanting("thing==2.0")).folder.exists() is False
            assert await environments.ensure("a", wanting("thing==1.0")) == used
            assert isinstance(await settled(environments, "b", wanting("thing==2.0")), BuiltEnvironment), (
                "and is built anew"
            )

    asyncio.run(body())


def test_files_that_take_long_to_go_keep_nobody_waiting(
    plane: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of a builder that was ended, nor those that nobody needed any more."""
    gate, clock, go_on = tmp_path / "w" / "gate", Clock(), threading.Event()
    _slow(tmp_path / "w", gate, "slow")
    for version in ("1.0", "2.0"):
        wheels.make(tmp_path / "w", "thing", version)
    wholly = shutil.rmtree

    def slowly(path: Path, **how: Any) -> None:
        if Path(path).parent == root_of(plane.home.data_dir):
            assert go_on.wait(60)
        wholly(path, **how)

    async def body() -> None:
        async with opened(plane, tmp_path / "w", now=clock) as environments:
            gate.touch()
            other = await settled(environments, "b", wanting("thing==1.0"))
            left = await settled(environments, "c", wanting("thing==2.0"))
            assert isinstance(left, BuiltEnvironment)
            gate.unlink()
            builder = await _building(plane, environments, wanting("slow"))
            monkeypatch.setattr(shutil, "rmtree", slowly)
            os.kill(builder.pid, signal.SIGKILL)
            assert isinstance(await settled(environments, "a", wanting("slow")), Obstacle)
            assert not place_of(plane, wanting("slow")).folder.exists()
            assert await environments.ensure("b", wanting("thing==1.0")) == other

            await environments.release("c")
            await _forgotten(plane, left.key)
            clearing = asyncio.create_task(environments.clear(unused=-1))
            while place_of(plane, wanting("thing==2.0")).folder.exists():  # noqa: ASYNC110 - by and by
                await asyncio.sleep(0.01)
            assert await environments.ensure("b", wanting("thing==1.0")) == other
            assert not clearing.done()
            assert [one.key for one in list_stored(plane.home.data_dir)] == [place_of(plane, wanting("thing==1.0")).key]
            go_on.set()
            assert await clearing == [left.key]
            while list_removing(root_of(plane.home.data_dir)):  # noqa: ASYNC110 - by and by
                await asyncio.sleep(0.01)

    try:
        asyncio.run(body())
    finally:
        go_on.set()


def test_what_a_killed_removal_left_is_not_whole_and_goes(plane: Supervised, index: Path) -> None:
    """Also when the interpreter, for want of which it was removed, has come back meanwhile."""

    async def body() -> None:
        async with opened(plane, index) as environments:
            built = await settled(environments, "a", wanting("thing"))
            assert isinstance(built, BuiltEnvironment)
            place = place_of(plane, wanting("thing"))
            assert place.set_aside() is not None  # and then it is killed
            assert place.set_aside() is None
            assert isinstance(await environments.ensure("a", wanting("thing")), Obstacle)
            assert await settled(environments, "a", wanting("thing")) == built
            assert len(list_removing(place.root)) == 1
            assert await environments.clear(unused=3600) == []
            assert list_removing(place.root) == []
            assert await environments.ensure("a", wanting("thing")) == built

    asyncio.run(body())


def test_one_whose_interpreter_is_gone_is_built_anew(plane: Supervised, index: Path) -> None:
    async def body() -> None:
        async with opened(plane, index) as environments:
            built = await settled(environments, "a", wanting("thing"))
            assert isinstance(built, BuiltEnvironment)
            os.unlink(built.python)
            found = await environments.ensure("a", wanting("thing"))
            assert isinstance(found, Obstacle)
            assert await settled(environments, "a", wanting("thing")) == built

    asyncio.run(body())


def test_without_such_a_python_it_is_said_which_there_are(plane: Supervised, index: Path) -> None:
    async def body() -> None:
        async with opened(plane, index) as environments:
            found = await settled(environments, "a", Environment(python="3.99"))
            assert isinstance(found, Obstacle)
            assert "there is no Python 3.99 on the plane's machine; it has " in found.message

    asyncio.run(body())

"""Other files for processes that run: real runtimes under a real supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.process_specs import WorkloadPaths, artifacts_digest
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.workload import RELOAD_REFUSED, WorkloadSpec
from tests.contract.engines import observed, ready, reported, workload
from tests.support.supervised import Supervised, supervised

MODEL = """
import os


class Model:
    def load(self, path):
        pass

    def reload(self, path):
        refuses = path + "/refuses"
        if os.path.exists(refuses) and open(refuses).read() in os.environ["MIZZEN_SOCKET"]:
            raise RuntimeError("not these")

    def predict(self, inputs):
        return 1
"""


class World:
    def __init__(self, plane: Supervised) -> None:
        self.plane = plane
        self.blobs = FileBlobs(plane.home.data_dir / "blobs")
        self.engine = LocalEngine(plane.home, self.blobs, python=sys.executable)
        plane.start()

    def files(self, **content: str) -> list[dict[str, Any]]:
        blobs = {path: self.blobs.put_bytes(text.encode()) for path, text in {"model.py": MODEL, **content}.items()}
        return [{"path": path, "digest": blob.digest, "size": blob.size} for path, blob in blobs.items()]

    def workload(self, replicas: int = 1, **content: str) -> Resource:
        made = workload("", replicas=replicas, artifacts=self.files(**content))
        command = [
            "python",
            "-m",
            "mizzen.runtime",
            "--framework",
            "python",
            "--entrypoint",
            "model:Model",
            "--trusted",
        ]
        return replace(made, spec={**made.spec, "command": command})

    def moved(self, given: Resource, **content: str) -> Resource:
        """To other data, as the controller does it."""
        began = given.spec.get("began") or digest(given)
        return replace(given, spec={**given.spec, "artifacts": self.files(**content), "began": began})

    def folders(self, given: Resource) -> set[str]:
        return {path.name for path in WorkloadPaths(self.plane.home, given.meta.uid).work.glob("files*")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with supervised(tmp_path) as plane:
        yield World(plane)


def run(world: World, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        try:
            await body()
        finally:
            await world.engine.close()

    asyncio.run(whole())


def digest(given: Resource) -> str:
    return artifacts_digest(WorkloadSpec.of(given))


def pids(seen: Observation) -> list[int | None]:
    return [replica.pid for replica in seen.replicas]


def have(given: Resource) -> Callable[[Observation], bool]:
    wanted = digest(given)
    return lambda seen: all(replica.state == "ready" and replica.files == wanted for replica in seen.replicas)


def test_replicas_take_other_files_where_they_run_and_have_them_after_a_crash(world: World) -> None:
    first = world.workload(replicas=2, value="1")

    async def body() -> None:
        before = await ready(world.engine, first)
        assert all(replica.reloads and replica.files == digest(first) for replica in before.replicas)
        second = world.moved(first, value="2")
        seen = await observed(world.engine, reported(second, before), have(second))
        assert pids(seen) == pids(before)
        await world.engine.apply(reported(second, seen))
        os.kill(seen.replicas[0].pid or 0, signal.SIGKILL)
        again = await observed(world.engine, second, lambda seen: have(second)(seen) and pids(seen) != pids(before))
        assert [replica.restarts for replica in again.replicas] == [1, 0]
        back = world.moved(second, value="1")
        seen = await observed(world.engine, reported(back, again), have(back))
        assert pids(seen) == pids(again)

    run(world, body)


def test_folders_that_nobody_reads_go(world: World) -> None:
    first = world.workload(value="1")

    async def body() -> None:
        seen = await ready(world.engine, first)
        given = first
        for value in ("2", "3", "4"):
            given = world.moved(given, value=value)
            seen = await observed(world.engine, reported(given, seen), have(given))
        third = world.moved(first, value="3")
        assert world.folders(given) == {"files", f"files-{digest(third)}", f"files-{digest(given)}"}

    run(world, body)


def test_what_nobody_takes_is_told_and_changes_nothing(world: World) -> None:
    first = world.workload(replicas=2, value="1")

    async def body() -> None:
        before = await ready(world.engine, first)
        second = world.moved(first, refuses="")
        seen = await observed(world.engine, reported(second, before), lambda seen: bool(seen.replicas[0].reason))
        assert (seen.replicas[0].reason, seen.replicas[0].message) == (RELOAD_REFUSED, "RuntimeError: not these")
        assert have(first)(seen)
        back = world.moved(second, value="1")
        assert (await world.engine.apply(reported(back, seen))).replicas == before.replicas

    run(world, body)


def test_files_that_are_not_there_are_refused(world: World) -> None:
    first = world.workload(value="1")

    async def body() -> None:
        before = await ready(world.engine, first)
        second = world.moved(first, value="2")
        lost = {"path": "value", "digest": "sha256:" + "0" * 64, "size": 1}
        second = replace(second, spec={**second.spec, "artifacts": [lost]})
        (replica,) = (await world.engine.apply(reported(second, before))).replicas
        assert (replica.state, replica.reason) == ("ready", RELOAD_REFUSED)
        assert replica.message == f"no blob {lost['digest']}"

    run(world, body)


def test_one_that_refuses_what_another_has_taken_is_started_anew_with_it(world: World) -> None:
    first = world.workload(replicas=2, value="1")

    async def body() -> None:
        before = await ready(world.engine, first)
        second = world.moved(first, refuses="/1.sock")
        seen = await observed(world.engine, reported(second, before), have(second))
        assert seen.replicas[0].pid == before.replicas[0].pid
        assert seen.replicas[1].pid != before.replicas[1].pid
        assert {replica.reason for replica in seen.replicas} == {""}

    run(world, body)


def test_another_engine_goes_on_with_it(world: World) -> None:
    first = world.workload(value="1")

    async def body() -> None:
        before = await ready(world.engine, first)
        second = world.moved(first, value="2")
        seen = await observed(world.engine, reported(second, before), have(second))
        await world.engine.close()
        world.engine = LocalEngine(world.plane.home, world.blobs, python=sys.executable)
        assert (await world.engine.apply(reported(second, seen))).replicas == seen.replicas
        again = await observed(world.engine, reported(second, seen), have(second))
        assert pids(again) == pids(before)

    run(world, body)

"""What is particular to the local engine: its supervisor may be killed and replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mizzen.blobs.files import FileBlobs
from mizzen.engines.engine import Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.replicas import Place, process_of, split_key, status_of
from mizzen.kinds.meta import Meta, Resource
from mizzen.kinds.workload import WorkloadSpec
from mizzen.supervisor.home import Home
from mizzen.supervisor.launch import launch
from mizzen.supervisor.protocol import ProcessView, State
from tests.support.supervised import Supervised, supervised

UID = "5e0f1a2b-3c4d-4e5f-8a6b-9c7d0a1b2c3d"
HELLO = """
import os, socket
from mizzen.protocol.frames import HELLO, encode
if os.path.exists(os.environ["MIZZEN_SOCKET"]):
    os.unlink(os.environ["MIZZEN_SOCKET"])
server = socket.socket(socket.AF_UNIX)
server.bind(os.environ["MIZZEN_SOCKET"])
server.listen()
peers = []
while True:
    peers.append(server.accept()[0])
    peers[-1].sendall(encode(HELLO, 0))
"""
WORKLOAD = Resource("Workload", Meta("iris-1", uid=UID), {"purpose": "serve", "command": ["python", "-c", HELLO]})


def test_a_supervisor_that_is_replaced_is_no_error(tmp_path: Path) -> None:
    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(_replace_supervisor(plane))


async def _replace_supervisor(plane: Supervised) -> None:
    engine = LocalEngine(plane.home, FileBlobs(plane.home.data_dir / "blobs"), python=sys.executable)
    try:
        before = await _observed(engine, lambda seen: seen.replicas[0].state == "ready")
        plane.kill()
        assert await engine.apply(WORKLOAD) == before
        assert not await engine.delete(WORKLOAD)
        launch(plane.home, python=sys.executable)
        plane.note()
        assert await engine.apply(WORKLOAD) == before
        assert before.replicas[0].pid is not None
        os.kill(before.replicas[0].pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            async for ref in engine.changes():  # the watch, too, goes on with the new supervisor
                assert ref == WORKLOAD.ref
                if (await engine.apply(WORKLOAD)).replicas[0].restarts == 1:
                    break
        await _observed(engine, lambda seen: seen.replicas[0].state == "ready")
    finally:
        await engine.close()


def test_without_any_supervisor_a_replica_waits_for_one(tmp_path: Path) -> None:
    async def body() -> None:
        home = Home.of(tmp_path)
        engine = LocalEngine(home, FileBlobs(tmp_path / "blobs"), python=sys.executable)
        try:
            (replica,) = (await engine.apply(WORKLOAD)).replicas
            assert (replica.state, replica.message) == ("waiting", "waiting for the supervisor")
        finally:
            await engine.close()

    asyncio.run(body())


def test_a_replica_runs_with_what_the_workload_and_the_engine_say() -> None:
    place = Place(Home(Path("/d"), Path("/d/run")), UID)
    spec = WorkloadSpec.of(
        Resource(
            "Workload",
            Meta("x"),
            {
                "purpose": "serve",
                "command": ["python", "-m", "m"],
                "env": {"OMP_NUM_THREADS": "4", "MIZZEN_SOCKET": "elsewhere"},
                "restart": "Never",
                "graceSeconds": 3,
            },
        )
    )
    process = process_of(spec, place, 7, python="/bin/py")
    assert process.argv == ("/bin/py", "-P", "-m", "m")
    assert process.env["MIZZEN_SOCKET"] == "/d/run/w/5e0f1a2b-3c4.7.sock"
    assert (process.env["OMP_NUM_THREADS"], process.env["MKL_NUM_THREADS"]) == ("4", "1")
    assert process.env["MIZZEN_ARTIFACTS"] == f"/d/work/{UID}/files"
    assert (process.restart, process.grace, process.rank) == ("never", 3, 2)
    assert split_key(process.key) == (UID, 7)
    assert process.log == f"/d/logs/{UID}.7.log"
    assert split_key("gateway-0") is None


def test_the_state_of_a_replica_is_that_of_its_process_and_what_it_says() -> None:
    place = Place(Home(Path("/d"), Path("/d/run")), UID)

    def status(state: State, readiness: str, **seen: object) -> tuple[str, str]:
        view = ProcessView.from_json({"key": place.key(0), "state": state, "fingerprint": "", **seen})
        found = status_of(view, readiness, place, 0)  # type: ignore[arg-type]
        return found.state, found.message

    assert status(State.RUNNING, "starting") == ("starting", "")
    assert status(State.RUNNING, "ready", message="old", exit_time=1.0) == ("ready", "")
    assert status(State.RUNNING, "draining") == ("stopping", "")
    assert status(State.STOPPING, "ready") == ("stopping", "")
    assert status(State.WAITING, "starting", exit_time=1.0) == ("waiting", "ended; its exit code is not known")
    assert status(State.FAILED, "starting", exit_time=1.0, exit_code=78) == ("failed", "exited with code 78")
    assert status(State.FAILED, "starting", exit_time=1.0, exit_code=78, message="why") == ("failed", "why")


async def _observed(engine: LocalEngine, enough: Callable[[Observation], bool]) -> Observation:
    async with asyncio.timeout(30):
        while True:
            seen = await engine.apply(WORKLOAD)
            if enough(seen):
                return seen
            await asyncio.sleep(0.02)

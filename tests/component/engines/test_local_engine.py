"""What is particular to the local engine: its supervisor may be killed and replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Observation
from mizzen.engines.local import logs
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.probes.frame_probe import ProbeState, Readiness
from mizzen.engines.local.process_specs import WorkloadPaths, process_of, split_key, status_of
from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import WorkloadSpec, WorkloadStatus
from mizzen.supervisor.data_dir import Home
from mizzen.supervisor.launch import launch
from mizzen.supervisor.protocol import ProcessSpec, ProcessView, State
from tests.support.supervised import Supervised, supervised

UID = "5e0f1a2b-3c4d-4e5f-8a6b-9c7d0a1b2c3d"
HELLO = """
import os, socket
from mizzen.protocol.frames.framing import HELLO, encode
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
        async with asyncio.timeout(60):
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
            assert replica.address == WorkloadPaths(home, UID).address(0)
            served = replica.model_copy(update={"state": "ready", "pid": 1, "message": ""})
            (known,) = (await engine.apply(WORKLOAD.with_status(WorkloadStatus(replicas=(served,))))).replicas
            assert known == served, "what was reported last is all that is known"
        finally:
            await engine.close()

    asyncio.run(body())


def test_many_workers_share_one_connection(tmp_path: Path) -> None:
    async def body(home: Home) -> None:
        engine = LocalEngine(home, FileBlobs(home.data_dir / "blobs"), python=sys.executable)
        before = _descriptors()
        idle = [
            Resource("Workload", Meta(f"w-{number}", uid=f"uid-{number}"), {**WORKLOAD.spec, "replicas": 0})
            for number in range(8)
        ]
        try:
            await asyncio.gather(*map(engine.apply, idle))
            async with asyncio.timeout(60):
                # One for calls, and two that watch.
                while _descriptors() != before + 3:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.02)
        finally:
            await engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane.home))


def test_what_runs_goes_on_when_its_files_are_lost(tmp_path: Path) -> None:
    async def body(home: Home) -> None:
        blobs = FileBlobs(home.data_dir / "blobs")
        blob = blobs.put_bytes(b"model")
        artifact = {"path": "a", "digest": blob.digest, "size": blob.size}
        given = replace(WORKLOAD, spec={**WORKLOAD.spec, "artifacts": [artifact]})
        first, second = (LocalEngine(home, blobs, python=sys.executable) for _ in range(2))
        try:
            before = await _observed(first, lambda seen: seen.replicas[0].state == "ready", given)
            blobs.path(blob.digest).unlink()
            two = replace(given, spec={**given.spec, "replicas": 2}, status={"replicas": [before.replicas[0].wire()]})
            old, new = (await second.apply(two)).replicas
            assert old == before.replicas[0]
            assert (new.state, new.message) == ("failed", f"no blob {blob.digest}")
        finally:
            await first.close()
            await second.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane.home))


def test_the_logs_of_a_deleted_workload_are_kept_for_a_while(tmp_path: Path) -> None:
    async def body(home: Home) -> None:
        engine = LocalEngine(home, FileBlobs(home.data_dir / "blobs"), python=sys.executable)
        old = [home.logs / f"gone-{number}.0.log" for number in range(logs.KEEP)]
        for number, path in enumerate(old):
            path.touch()
            os.utime(path, (number, number))
        try:
            await _observed(engine, lambda seen: seen.replicas[0].state == "ready")
            async with asyncio.timeout(60):
                while not await engine.delete(WORKLOAD):  # noqa: ASYNC110 - asking is what deletes
                    await asyncio.sleep(0.02)
        finally:
            await engine.close()
        assert WorkloadPaths(home, UID).log(0).exists()
        assert [path for path in old if not path.exists()] == old[:1]

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane.home))


def test_a_replica_runs_with_what_the_workload_and_the_engine_say() -> None:
    place = WorkloadPaths(Home(Path("/d"), Path("/d/run")), UID)
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
    assert process.env["MIZZEN_SOCKET"] == "/d/run/w/5e0f1a2b-3c4/7.sock"
    assert (process.env["OMP_NUM_THREADS"], process.varying["MKL_NUM_THREADS"]) == ("4", "1")
    assert process.env["MIZZEN_ARTIFACTS"] == f"/d/work/{UID}/files"
    assert (process.restart, process.grace, process.rank) == ("never", 3, 2)
    assert split_key(process.key) == (UID, 7)
    assert process.log == f"/d/logs/{UID}.7.log"
    assert split_key("gateway-0") is None


SHOWS = """
import os
print("right" if os.environ["TOKEN"][::-1] == "eert-a-ni-eulav-neddih" else "wrong", flush=True)
"""
HIDDEN = "hidden-value-in-a-tree"


def test_a_secret_reaches_the_process_and_nothing_else(tmp_path: Path) -> None:
    secrets: dict[tuple[str, str, str], str] = {}

    async def reveal(namespace: str, name: str, key: str) -> str:
        if (namespace, name, key) not in secrets:
            raise NotFound(f"no secret {name}")
        return secrets[namespace, name, key]

    async def body(home: Home) -> None:
        engine = LocalEngine(home, FileBlobs(home.data_dir / "blobs"), python=sys.executable, reveal=reveal)
        given = replace(
            WORKLOAD,
            spec={
                "purpose": "serve",
                "command": ["python", "-c", SHOWS + HELLO],
                "secretEnv": {"TOKEN": {"name": "hub", "key": "token"}},
            },
        )
        try:
            (replica,) = (await engine.apply(given)).replicas
            assert (replica.state, replica.reason) == ("waiting", "SecretNotFound")
            missing = "TOKEN needs key 'token' of secret 'hub', which does not exist"
            assert replica.message == f"{missing}: mizzen secret set hub token"
            secrets["default", "hub", "token"] = HIDDEN
            seen = await _observed(engine, lambda seen: seen.replicas[0].state == "ready", given)
            assert HIDDEN not in repr(seen)
            chunks = [chunk async for chunk in engine.logs(given)]
            assert b"".join(chunks) == b"right\n"
            secrets.clear()
            assert (await engine.apply(given)).replicas == seen.replicas, "what runs, runs on"
            os.kill(seen.replicas[0].pid or 0, signal.SIGKILL)
            await _observed(engine, lambda now: now.replicas[0].restarts == 1, given)
            await _observed(engine, lambda now: now.replicas[0].state == "ready", given)
        finally:
            await engine.close()
        for folder in (home.data_dir, home.run):
            assert not [path for path in folder.rglob("*") if path.is_file() and HIDDEN.encode() in path.read_bytes()]

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(body(plane.home))


def test_other_references_make_another_process_and_other_values_do_not() -> None:
    place = WorkloadPaths(Home(Path("/d"), Path("/d/run")), UID)

    def process(key: str, value: str) -> ProcessSpec:
        spec = {"purpose": "serve", "command": ["x"], "secretEnv": {"T": {"name": "hub", "key": key}}}
        given = WorkloadSpec.of(Resource("Workload", Meta("x"), spec))
        return process_of(given, place, 0, python="py", secrets={"T": value})

    assert process("a", "1").fingerprint == process("a", "2").fingerprint != process("b", "1").fingerprint


def test_a_secret_that_cannot_be_opened_is_told_without_a_value(tmp_path: Path) -> None:
    async def reveal(namespace: str, name: str, key: str) -> str:
        raise MizzenError("the key file is lost")

    async def body() -> None:
        home = Home.of(tmp_path)
        engine = LocalEngine(home, FileBlobs(tmp_path / "blobs"), python=sys.executable, reveal=reveal)
        spec = {"purpose": "serve", "command": ["x"], "secretEnv": {"T": {"name": "hub", "key": "k"}}}
        try:
            (replica,) = (await engine.apply(replace(WORKLOAD, spec=spec))).replicas
            assert (replica.state, replica.reason) == ("waiting", "SecretUnreadable")
            assert replica.message == "T needs key 'k' of secret 'hub', which cannot be read: the key file is lost"
        finally:
            await engine.close()

    asyncio.run(body())


def test_the_state_of_a_replica_is_that_of_its_process_and_what_it_says() -> None:
    place = WorkloadPaths(Home(Path("/d"), Path("/d/run")), UID)

    def status(state: State, readiness: Readiness, *, wanted: bool = True, **seen: object) -> tuple[str, str]:
        view = ProcessView.from_json({"key": place.key(0), "state": state, "fingerprint": "", **seen})
        found = status_of(view, ProbeState(readiness), place, 0, reported=None, wanted=wanted)
        return found.state, found.message

    assert status(State.RUNNING, "unknown") == ("starting", "")
    assert status(State.RUNNING, "starting") == ("starting", "")
    assert status(State.RUNNING, "ready", message="old", exit_time=1.0) == ("ready", "")
    assert status(State.RUNNING, "draining") == ("starting", "")
    assert status(State.RUNNING, "draining", wanted=False) == ("stopping", "")
    assert status(State.STOPPING, "ready") == ("starting", "stopping, to be restarted")
    assert status(State.STOPPING, "ready", wanted=False) == ("stopping", "")
    assert status(State.WAITING, "starting", exit_time=1.0) == ("waiting", "ended; its exit code is not known")
    assert status(State.FAILED, "starting", exit_time=1.0, exit_code=78) == ("failed", "exited with code 78")
    assert status(State.FAILED, "starting", exit_time=1.0, exit_code=78, message="why") == ("failed", "why")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def _observed(
    engine: LocalEngine, enough: Callable[[Observation], bool], given: Resource = WORKLOAD
) -> Observation:
    async with asyncio.timeout(60):
        while True:
            seen = await engine.apply(given)
            if enough(seen):
                return seen
            await asyncio.sleep(0.02)

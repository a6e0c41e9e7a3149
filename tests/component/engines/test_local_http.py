"""What is particular to the local engine about what answers HTTP: its ports, its folder, and a killed supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.local.confinements import ConfinementPolicy
from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.probes.http_probe import ProbeIntervals
from mizzen.errors import NotFound
from mizzen.kinds.workload import WorkloadStatus
from mizzen.supervisor.launch import launch
from tests.contract.answers import ANSWERS, BY_VARIABLE, answering
from tests.contract.engines import collect, observed, ready, reported, states, until
from tests.support.supervised import Supervised, may_write_notes, supervised

AT_ONCE = ProbeIntervals(grace=0.0)


def local(plane: Supervised, **given: object) -> LocalEngine:
    blobs = FileBlobs(plane.home.data_dir / "blobs")
    named: dict[str, Any] = {"confining": may_write_notes(), **given}
    return LocalEngine(plane.home, blobs, python=sys.executable, **named)


def run(tmp_path: Path, body: Callable[[Supervised, LocalEngine], Awaitable[None]], **given: object) -> None:
    async def main(plane: Supervised) -> None:
        engine = local(plane, **given)
        try:
            async with asyncio.timeout(60):
                await body(plane, engine)
        finally:
            await engine.close()

    with supervised(tmp_path / "d") as plane:
        plane.start()
        asyncio.run(main(plane))


def test_what_answers_outlives_a_supervisor_and_is_adopted_by_the_next(tmp_path: Path) -> None:
    async def body(plane: Supervised, engine: LocalEngine) -> None:
        before = await ready(engine, answering())
        plane.kill()
        assert await engine.apply(answering()) == before
        launch(plane.home, python=sys.executable)
        plane.note()
        assert await engine.apply(answering()) == before
        another = local(plane)
        try:
            assert await another.apply(reported(answering(), before)) == before
        finally:
            await another.close()
        os.kill(before.replicas[0].pid or 0, signal.SIGKILL)
        await observed(engine, answering(), lambda seen: seen.replicas[0].restarts == 1)
        after = await ready(engine, answering())
        assert after.replicas[0].address == before.replicas[0].address

    run(tmp_path, body)


def test_who_finds_its_port_taken_gets_another(tmp_path: Path) -> None:
    """Its first process waits until somebody else has the port, and then ends because of it."""
    own = tmp_path / "own"
    own.mkdir()
    began, go = own / "began", own / "go"
    os.mkfifo(go)
    waits = f"""
if not os.path.exists({str(began)!r}):
    open({str(began)!r}, "w").close()
    open({str(go)!r}).read()
"""
    given = answering("import os; PORT = os.environ['PORT']\n" + waits + ANSWERS)

    async def body(plane: Supervised, engine: LocalEngine) -> None:
        (before,) = (await engine.apply(given)).replicas
        port = int(before.address.rpartition(":")[2])
        with closing(socket.create_server(("127.0.0.1", port))):
            await asyncio.to_thread(go.write_text, "")
            (after,) = (await ready(engine, given)).replicas
        assert after.address.startswith("http://127.0.0.1:")
        assert after.address != before.address
        assert await ready(engine, given) == await engine.apply(given), "and keeps it"

    run(tmp_path, body, confining=ConfinementPolicy(write=(str(own),)))


def test_a_port_that_was_told_and_is_taken_by_now_is_not_used(tmp_path: Path) -> None:
    async def body(plane: Supervised, engine: LocalEngine) -> None:
        before = await ready(engine, answering())
        await until(lambda: engine.delete(answering()))
        port = int(before.replicas[0].address.rpartition(":")[2])
        with closing(socket.create_server(("127.0.0.1", port))):
            after = await ready(engine, reported(answering(), before))
        assert after.replicas[0].address != before.replicas[0].address

    run(tmp_path, body)


def test_one_that_uses_another_port_is_told_so(tmp_path: Path) -> None:
    elsewhere = answering("PORT = 0\n" + ANSWERS)

    async def body(plane: Supervised, engine: LocalEngine) -> None:
        (replica,) = (await observed(engine, elsewhere, lambda seen: seen.replicas[0].message != "")).replicas
        assert (replica.state, replica.protocol) == ("starting", "")
        assert "nothing listens on port" in replica.message
        assert "$(PORT)" in replica.message

    run(tmp_path, body, intervals=AT_ONCE)


def test_one_that_speaks_nothing_known_is_told_what_it_was_asked(tmp_path: Path) -> None:
    stranger = answering(ready="/healthz")

    async def body(plane: Supervised, engine: LocalEngine) -> None:
        asked = "GET /health/ping returned 404"
        seen = await observed(engine, stranger, lambda seen: asked in seen.replicas[0].message)
        assert states(seen) == {"starting"}
        assert "GET /v2/models/scorer/ready returned 404" in seen.replicas[0].message

    run(tmp_path, body, intervals=AT_ONCE)


@pytest.mark.parametrize("there", [True, False])
def test_it_starts_where_it_is_told_to_if_that_is_there(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "app"
    if there:
        folder.mkdir()
        (folder / "beside.py").write_text("import os; print(os.getcwd(), flush=True)")
    code = f"import os; {'import beside' if there else 'print(os.getcwd(), flush=True)'}\n" + BY_VARIABLE
    given = answering(code, workingDir=str(folder))

    async def body(plane: Supervised, engine: LocalEngine) -> None:
        await ready(engine, given)
        expected = folder if there else plane.home.data_dir / "work" / given.meta.uid
        assert (await collect(engine, given)).splitlines()[0].decode() == str(expected)

    run(tmp_path, body)


def test_memory_threads_and_secrets_are_as_for_others(tmp_path: Path) -> None:
    shows = (
        "import os, resource; print(os.environ['TOKEN'][::-1], os.environ['MIZZEN_THREADS'], "
        "resource.getrlimit(resource.RLIMIT_DATA)[0], flush=True)\n"
    )
    waits = "import time\nwhile resource.getrlimit(resource.RLIMIT_DATA)[0] < 0: time.sleep(0.01)\n"
    given = answering(
        "import resource\n" + waits + shows + BY_VARIABLE,
        resources={"memory": "512Mi", "threads": 3},
        secretEnv={"TOKEN": {"name": "hub", "key": "token"}},
    )
    secrets: dict[str, str] = {}

    async def reveal(namespace: str, name: str, key: str) -> str:
        if key not in secrets:
            raise NotFound("no such secret")
        return secrets[key]

    async def body(plane: Supervised, engine: LocalEngine) -> None:
        (replica,) = (await engine.apply(given)).replicas
        assert (replica.state, replica.reason) == ("waiting", "SecretNotFound")
        secrets["token"] = "value-to-hide"
        await ready(engine, given)
        assert (await collect(engine, given)).splitlines()[0] == f"edih-ot-eulav 3 {512 << 20}".encode()

    run(tmp_path, body, reveal=reveal)


def test_without_any_supervisor_it_is_told_where_it_will_be(tmp_path: Path) -> None:
    async def body() -> None:
        plane = Supervised(tmp_path)
        engine = local(plane)
        try:
            (replica,) = (await engine.apply(answering())).replicas
            assert (replica.state, replica.message) == ("waiting", "waiting for the supervisor")
            assert replica.address.startswith("http://127.0.0.1:")
            served = replica.model_copy(update={"state": "ready", "pid": 1, "message": "", "protocol": "v1"})
            known = await engine.apply(replace(answering(), status=WorkloadStatus(replicas=(served,)).wire()))
            assert known.replicas == (served,)
        finally:
            await engine.close()

    asyncio.run(body())

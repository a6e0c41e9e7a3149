"""What is particular to tasks of the local engine: they outlive a supervisor, or it is known that they did not."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.engines.engine import Observation
from mizzen.engines.local.engine import LocalEngine
from mizzen.kinds.schema.resource import Resource
from mizzen.runs import records
from mizzen.runs.checkpoints import CheckpointStore
from mizzen.runs.paths import JobPlace
from mizzen.supervisor.client import ask
from mizzen.supervisor.launch import launch
from mizzen.supervisor.processes import procfs
from tests.contract.engines import observed, ready, reported, states
from tests.contract.tasks import JOB_UID, SLEEPS, only, training
from tests.support.supervised import IGNORES_TERM, Supervised, supervised, until


def run(tmp_path: Path, body: Callable[[Supervised], Coroutine[Any, Any, None]], *, stop_timeout: float = 1.0) -> None:
    async def main(plane: Supervised) -> None:
        async with asyncio.timeout(120):
            await body(plane)

    with supervised(tmp_path / "d") as plane:
        plane.start(stop_timeout=stop_timeout)
        asyncio.run(main(plane))


async def over(plane: Supervised, given: Resource, **options: Any) -> Observation:
    """As an engine sees it that was just started."""
    return await _with(plane, lambda engine: observed(engine, given, lambda seen: states(seen) == {"ended"}), **options)


async def running(plane: Supervised, given: Resource) -> Observation:
    return await _with(plane, lambda engine: ready(engine, given))


async def _with(
    plane: Supervised, act: Callable[[LocalEngine], Coroutine[Any, Any, Observation]], **options: Any
) -> Observation:
    engine = LocalEngine(plane.home, FileBlobs(plane.home.data_dir / "blobs"), python=sys.executable, **options)
    try:
        return await act(engine)
    finally:
        await engine.close()


def anew(plane: Supervised) -> None:
    launch(plane.home, python=sys.executable)
    plane.note()


def left(plane: Supervised, *, leave: bool) -> None:
    pid = plane.note()
    ask(plane.home, "stop", leave=leave)
    until(lambda: procfs.start_of(pid) is None)


def log(plane: Supervised) -> str:
    file = JobPlace(plane.home.data_dir, JOB_UID).replica("worker-0").log(0)
    return file.read_text() if file.exists() else ""


def test_an_end_is_told_without_its_process(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        seen = only(await over(plane, training("raise SystemExit(3)")))
        assert seen.exit_code == 3
        while plane.views():  # its runner may still be ending; then it is forgotten, and nothing shows as failed
            assert only(await over(plane, training("raise SystemExit(3)"))) == seen
        assert only(await over(plane, training("raise SystemExit(3)"))) == seen
        assert plane.views() == {}

    run(tmp_path, body)


def test_one_that_is_left_running_is_adopted(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        before = await running(plane, training(SLEEPS))
        left(plane, leave=True)
        anew(plane)
        assert await running(plane, training(SLEEPS)) == before
        os.kill(only(before).pid or 0, signal.SIGKILL)
        lost = only(await over(plane, training(SLEEPS)))
        assert (lost.exit_code, lost.reason, lost.retry) == (137, "RunnerLost", True), "nobody saw its exit code"

    run(tmp_path, body)


@pytest.mark.parametrize("times", [1, 2])
def test_a_killed_runner_is_started_once_more_to_put_away_what_was_saved(tmp_path: Path, times: int) -> None:
    store = tmp_path / "store"
    saves = (
        "import os, time; from mizzen.training import save_checkpoint\n"
        "go = os.path.join(os.environ['MIZZEN_CHECKPOINT_DIR'], '.go')\n"
        "while not os.path.exists(go): time.sleep(0.02)\n"
        "for step in (1, 2): save_checkpoint(lambda path: path.write_text('w'), name='at', step=step)\n"
        f"print('saved', flush=True)\nopen(go + 'ne', 'w').close()\n{SLEEPS}"
    )

    async def body(plane: Supervised) -> None:
        job, given = JobPlace(plane.home.data_dir, JOB_UID), training(saves)
        where = {"blob_env": {"MIZZEN_BLOB_STORE": f"file://{store}"}} if times == 2 else {}
        pid = only(await _with(plane, lambda engine: ready(engine, given), **where)).pid or 0
        os.kill(pid, signal.SIGSTOP)
        (job.checkpoints / ".go").touch()
        until((job.checkpoints / ".gone").exists)
        if times == 2:  # the store is away, so the second runner has something to wait for
            shutil.rmtree(store, ignore_errors=True)
            store.write_text("no folder")
        os.kill(pid, signal.SIGKILL)
        if times == 2:
            seen = only(await _with(plane, lambda engine: observed(engine, given, put_away), **where))
            assert seen.message.startswith("its runner was killed; ")
            assert seen.pid != pid
            os.kill(seen.pid or 0, signal.SIGKILL)
        lost = only(await over(plane, given, **where))
        assert (lost.exit_code, lost.reason, lost.retry) == (137, "RunnerLost", True)
        if times == 1:
            kept = CheckpointStore(FileBlobs(plane.home.data_dir / "blobs").documents).of_job(
                "default", "iris", "", JOB_UID
            )
            assert sorted(each.name for each in kept) == ["at-1", "at-2"]
        assert log(plane).count("saved") <= 1, "and its command ran once"

    run(tmp_path, body)


def put_away(seen: Observation) -> bool:
    return "was killed" in only(seen).message and bool(only(seen).pid)


def test_one_that_ended_while_nobody_looked_is_known_by_its_record(tmp_path: Path) -> None:
    waits = (
        "import os, time\n"
        "while not os.path.exists(os.environ['MIZZEN_CHECKPOINT_DIR'] + '/.go'): time.sleep(0.02)\n"
        "raise SystemExit(5)"
    )

    async def body(plane: Supervised) -> None:
        before = only(await running(plane, training(waits)))
        left(plane, leave=True)
        [checkpoints] = plane.home.data_dir.glob("training/*/checkpoints")
        (checkpoints / ".go").touch()
        until(lambda: procfs.start_of(before.pid or 0) is None)
        anew(plane)
        seen = only(await over(plane, training(waits)))
        assert (seen.exit_code, seen.reason, seen.started) == (5, "", before.started)

    run(tmp_path, body)


def test_one_that_was_stopped_with_the_plane_goes_on(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        before = only(await running(plane, training(SLEEPS)))
        until(lambda: log(plane).count("pid") == 1)
        left(plane, leave=False)
        anew(plane)
        seen = only(await running(plane, training(SLEEPS)))
        assert (seen.attempt, seen.started) == (0, before.started)
        until(lambda: log(plane).count("pid") == 2)

    run(tmp_path, body)


def test_one_that_does_not_end_in_time_goes_on_all_the_same(tmp_path: Path) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"

    async def body(plane: Supervised) -> None:
        before = only(await running(plane, training(deaf)))
        until(lambda: log(plane).count("pid") == 1)
        left(plane, leave=False)
        assert procfs.start_of(before.pid or 0) is None
        anew(plane)
        assert only(await running(plane, training(deaf))).attempt == 0

    run(tmp_path, body)


def test_while_everything_is_being_stopped_what_was_told_stands(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        before = await running(plane, training(SLEEPS))
        plane.apply(plane.spec("plane", IGNORES_TERM, rank=0, grace=600))
        until(lambda: plane.log("plane"))
        os.kill(plane.note(), signal.SIGTERM)
        until(lambda: procfs.start_of(only(before).pid or 0) is None)
        told = reported(training(SLEEPS), before)
        assert await _with(plane, lambda engine: engine.apply(told)) == before

    run(tmp_path, body, stop_timeout=600)


def test_one_that_went_down_with_everything_was_interrupted(tmp_path: Path) -> None:
    async def body(plane: Supervised) -> None:
        before = only(await running(plane, training(SLEEPS)))
        until(lambda: log(plane))
        command = int(log(plane).split()[1])
        plane.kill()
        for pid in (before.pid or 0, command):
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: procfs.start_of(pid) is None)  # type: ignore[misc]
        anew(plane)
        seen = only(await over(plane, training(SLEEPS)))
        assert (seen.exit_code, seen.reason, seen.retry) == (137, "Interrupted", True)

    run(tmp_path, body)


def test_the_store_of_blobs_is_told_to_the_runner_and_not_to_its_command(tmp_path: Path) -> None:
    says = "import os; print(sorted(name for name in os.environ if 'BLOB' in name), flush=True); raise SystemExit(1)"

    async def body(plane: Supervised) -> None:
        folder = f"file://{tmp_path / 'store'}"
        await over(plane, training(says), blob_secrets={"MIZZEN_BLOB_STORE": folder})
        end = records.read(JobPlace(plane.home.data_dir, JOB_UID).replica("worker-0").exit(0)) or {}
        assert end["last_lines"] == "[]"
        assert [*(tmp_path / "store").rglob("*")], "its log was put there"

    run(tmp_path, body)

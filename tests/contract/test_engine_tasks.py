"""What every Engine promises of tasks: each attempt is begun once, and its end is told as it was."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mizzen.engines.engine import Engine, Observation
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.workload import ReplicaStatus
from tests.contract.engines import World, changed, observed, ready, ready_anew, reported, run, states, until
from tests.contract.tasks import SLEEPS, only, training


async def over(engine: Engine, given: Resource) -> ReplicaStatus:
    return only(await observed(engine, given, lambda seen: states(seen) == {"ended"}))


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("print('done')", 0),
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_an_attempt_ends_as_its_command_did(world: World, code: str, exit_code: int) -> None:
    async def body() -> None:
        engine, given = world.engine(), training(code)
        seen = await over(engine, given)
        assert (seen.exit_code, seen.attempt, seen.reason, seen.retry) == (exit_code, 0, "", False)
        assert seen.message == "", "what it printed is for those only who may read its log"
        assert seen.started is not None
        assert seen.ended is not None
        assert seen.started <= seen.ended

    run(world, body)


def test_the_end_of_an_attempt_is_for_ever_and_the_next_one_is_another(world: World, tmp_path: Path) -> None:
    note = tmp_path / "ran"
    counts = f"open({str(note)!r}, 'a').write(os.environ['MIZZEN_ATTEMPT']); raise SystemExit(3)"

    async def body() -> None:
        engine, given = world.engine(), training(f"import os; {counts}")
        seen = await over(engine, given)
        for later in (engine, world.engine()):
            assert only(await later.apply(given)).exit_code == 3
            told = reported(given, await later.apply(given))
            assert only(await later.apply(told)) == seen
        assert note.read_text() == "0"
        again = reported(training(f"import os; {counts}", attempt=1), await engine.apply(given))
        seen = only(await observed(engine, again, lambda seen: states(seen) == {"ended"}))
        assert (seen.attempt, seen.exit_code) == (1, 3)
        assert note.read_text() == "01"

    run(world, body)


def test_what_trains_is_left_alone_by_the_next_plane_and_by_other_specs(world: World) -> None:
    async def body() -> None:
        given = training(SLEEPS)
        before = only(await ready(world.engine(), given))
        engine = world.engine()
        assert only(await ready(engine, given)) == before
        other = changed(given, env={"A": "1"}, task={**given.spec["task"], "hyperparameters": {"lr": 0.1}})
        assert only(await engine.apply(other)) == before
        await until(lambda: engine.delete(given))

    run(world, body)


def test_one_that_is_deleted_has_not_ended_and_goes_on_when_it_is_wanted_again(world: World, tmp_path: Path) -> None:
    note = tmp_path / "ran"

    async def body() -> None:
        engine = world.engine()
        given = training(f"import os; open({str(note)!r}, 'a').write(os.environ['MIZZEN_ATTEMPT']); {SLEEPS}")
        first = only(await ready(engine, given))
        await until(lambda: _holds(note, "0"))
        await until(lambda: engine.delete(given))
        with pytest.raises(ProcessLookupError):
            os.kill(first.pid or 0, 0)
        second = only(await ready(engine, given))
        assert (second.attempt, second.started) == (0, first.started), "it is the same attempt"
        assert second.pid != first.pid
        await until(lambda: _holds(note, "00"))
        await until(lambda: engine.delete(given))

    run(world, body)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_that_is_killed_is_an_end_and_one_that_is_told_to_stop_begins_anew(
    world: World, how: signal.Signals, tmp_path: Path
) -> None:
    async def body() -> None:
        engine, note = world.engine(), tmp_path / "pid"
        given = training(f"import os; open({str(note)!r}, 'w').write(f'{{os.getpid()}}\\n'); {SLEEPS}")
        before = only(await ready(engine, given))
        await until(lambda: _holds(note, "\n"))
        command = int(note.read_text())
        os.kill(before.pid or 0, how)
        if how is signal.SIGTERM:
            seen = only(await observed(engine, given, lambda seen: ready_anew(seen, Observation((before,)))))
            assert (seen.attempt, seen.started) == (0, before.started)
        else:
            seen = await over(engine, given)
            assert (seen.exit_code, seen.reason, seen.retry) == (137, "RunnerLost", True)
        with pytest.raises(ProcessLookupError):
            os.kill(command, 0)
        await until(lambda: engine.delete(given))

    run(world, body)


def test_a_task_whose_secret_is_missing_waits_for_it(world: World) -> None:
    async def body() -> None:
        engine, given = world.engine(), training(SLEEPS, secretEnv={"KEY": {"name": "s", "key": "k"}})
        seen = only(await engine.apply(given))
        assert (seen.state, seen.reason, seen.attempt) == ("waiting", "SecretNotFound", 0)
        assert await engine.delete(given)

    run(world, body)


def test_the_missing_secret_of_a_dataset_is_told_as_it_was_written(world: World) -> None:
    async def body() -> None:
        secret = {"MIZZEN_DATASET_ACCESS_KEY_ID": {"name": "s", "key": "accessKeyId"}}
        engine, given = world.engine(), training(SLEEPS, secretEnv=secret)
        seen = only(await engine.apply(given))
        assert seen.reason == "SecretNotFound"
        assert seen.message.startswith("the dataset needs key 'accessKeyId' of secret 's', which does not exist: ")
        assert await engine.delete(given)

    run(world, body)


async def _holds(file: Path, text: str) -> bool:
    return await asyncio.to_thread(lambda: file.exists() and text in file.read_text())

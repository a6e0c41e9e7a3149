"""What every Engine promises of replicas that end or are ended, and of what is told and logged meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mizzen.engines.engine import Observation
from tests.contract.engines import (
    GIVES_UP,
    SERVES,
    World,
    changed,
    collect,
    observed,
    printed,
    ready,
    run,
    states,
    until,
    workload,
)


def test_a_crash_is_counted_and_started_again(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        (before,) = (await ready(engine, workload(SERVES))).replicas
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)
        seen = await observed(
            engine, workload(SERVES), lambda seen: seen.replicas[0].restarts == 1 and states(seen) == {"ready"}
        )
        assert seen.replicas[0].exit_code == 128 + signal.SIGKILL
        assert seen.replicas[0].pid != before.pid

    run(world, body)


def test_what_crashes_again_and_again_waits_with_a_reason(world: World) -> None:
    async def body() -> None:
        engine, broken = world.engine(), workload("raise SystemExit(3)")
        seen = await observed(engine, broken, lambda seen: states(seen) == {"waiting"})
        assert (seen.replicas[0].message, seen.replicas[0].exit_code) == ("exited with code 3", 3)

    run(world, body)


def test_giving_up_is_final_and_tells_why(world: World) -> None:
    async def body() -> None:
        engine, broken = world.engine(), workload(GIVES_UP)
        seen = await observed(engine, broken, lambda seen: states(seen) == {"failed"})
        (replica,) = seen.replicas
        assert (replica.message, replica.exit_code, replica.restarts) == ("the file is no model", 78, 0)
        assert await engine.apply(broken) == seen
        await ready(engine, workload(SERVES))

    run(world, body)


def test_restart_never(world: World) -> None:
    async def body() -> None:
        once = workload("raise SystemExit(3)", restart="Never")
        seen = await observed(world.engine(), once, lambda seen: states(seen) == {"failed"})
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
            if states(seen) == {"ready"} and seen.replicas[0].restarts == 0:
                os.kill(seen.replicas[0].pid or 0, signal.SIGKILL)
            elif states(seen) == {"ready"}:
                return

    run(world, body)


def test_logs(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        talks = workload("print(*range(5), sep='\\n', flush=True); " + "import time; time.sleep(600)")
        await engine.apply(talks)
        await until(lambda: printed(engine, talks, b"0\n1\n2\n3\n4\n"))
        assert await collect(engine, talks, tail=2) == b"3\n4\n"
        assert await collect(engine, talks, tail=0) == b""
        places: dict[int, str] = {}
        assert await collect(engine, talks, places=places) == b"0\n1\n2\n3\n4\n"
        assert await collect(world.engine(), talks, places=places) == b""
        assert await collect(engine, talks, places={0: "4-0"}) == b"2\n3\n4\n"
        two = changed(talks, replicas=2)
        await engine.apply(two)
        await until(lambda: printed(engine, two, b"[0] 3\n[0] 4\n[1] 3\n[1] 4\n", tail=2))

    run(world, body)


def test_logs_can_be_followed_until_the_workload_is_gone(world: World) -> None:
    async def body() -> None:
        engine, given = world.engine(), workload(SERVES)
        following = asyncio.create_task(collect(engine, given, follow=True))
        (replica,) = (await ready(engine, given)).replicas
        os.kill(replica.pid or 0, signal.SIGKILL)
        await observed(engine, given, lambda seen: seen.replicas[0].restarts == 1 and states(seen) == {"ready"})
        await until(lambda: engine.delete(given))
        assert await following == b"serving \nserving \n"

    run(world, body)

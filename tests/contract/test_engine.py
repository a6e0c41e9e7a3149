"""What every Engine promises of replicas that start, change and are changed."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mizzen.engines.engine import Observation
from mizzen.protocol.frames import framing
from tests.contract.engines import (
    GIVES_UP,
    SERVES,
    World,
    changed,
    collect,
    hello,
    observed,
    ready,
    ready_anew,
    reported,
    run,
    states,
    workload,
)


def test_a_replica_becomes_ready_and_says_hello_where_it_is_said_to_be(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        first = await engine.apply(workload(SERVES))
        assert [replica.state for replica in first.replicas] == ["starting"]
        (replica,) = (await ready(engine, workload(SERVES))).replicas
        assert hello(replica.address) == framing.HELLO
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
        assert states(await world.engine().apply(busy)) == {"starting"}, "nobody told that it was ready"
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
            assert "stopping" not in states(seen)
            assert sum(replica.state != "ready" for replica in seen.replicas) <= 1
            pids = zip(seen.replicas, before.replicas, strict=True)
            return states(seen) == {"ready"} and all(now.pid != then.pid for now, then in pids)

        await observed(engine, changed(given, env={"X": "2"}), replaced)

    run(world, body)


def test_a_spec_that_cannot_start_replaces_only_one_of_several_that_serve(world: World) -> None:
    given = workload(SERVES, replicas=2)

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        broken = changed(given, command=["python", "-c", GIVES_UP])
        seen = await observed(engine, broken, lambda seen: "failed" in states(seen))
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
        after = await observed(engine, other_env, lambda seen: ready_anew(seen, before))
        other_files = changed(other_env, artifacts=[world.artifact("a/b", b"new")])
        await observed(engine, other_files, lambda seen: ready_anew(seen, after))
        printed = await collect(engine, other_files)
        assert printed.split() == b"serving old1 serving old2 serving new2".split()

    run(world, body)

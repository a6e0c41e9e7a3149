"""What every Engine promises of replicas that answer HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mizzen.engines.engine import Observation
from tests.contract.answers import ANSWERS, BY_ARGUMENT, READY, answering, get
from tests.contract.engines import (
    World,
    changed,
    collect,
    observed,
    ready,
    ready_anew,
    reported,
    run,
    states,
    until,
)


@pytest.mark.parametrize(
    ("protocol", "path"),
    [*READY.items(), ("v2", "/v2/models/scorer/ready"), ("seldon", "/health/ping")],
)
def test_what_it_speaks_is_found_out_and_told(world: World, protocol: str, path: str) -> None:
    async def body() -> None:
        engine, given = world.engine(), answering(ready=path)
        assert states(await engine.apply(given)) == {"starting"}
        (replica,) = (await ready(engine, given)).replicas
        assert (replica.protocol, replica.message, replica.restarts) == (protocol, "", 0)
        assert await asyncio.to_thread(get, replica.address, path) == str(replica.pid).encode()

    run(world, body)


def test_where_it_is_said_what_it_speaks_only_that_is_asked(world: World) -> None:
    async def body() -> None:
        engine, given = world.engine(), answering(ready=" ".join(READY.values()), protocol="seldon")
        assert (await ready(engine, given)).replicas[0].protocol == "seldon"

    run(world, body)


def test_the_port_is_told_by_variables_and_in_the_command(world: World) -> None:
    tells = "import os; print(*(os.environ[name] for name in os.environ['NAMES'].split()), flush=True)\n"
    names = "PORT MIZZEN_PORT PREDICTIVE_UNIT_SERVICE_PORT PREDICTIVE_UNIT_HTTP_SERVICE_PORT"

    async def body() -> None:
        engine = world.engine()
        given = answering(tells + BY_ARGUMENT, "$(PORT)", env={"NAMES": names, "PORT": "1", "WORD": "$(PORT) $$(PORT)"})
        (replica,) = (await ready(engine, given)).replicas
        port = replica.address.rpartition(":")[2]
        assert replica.address == f"http://127.0.0.1:{port}"
        printed = (await collect(engine, given)).decode()
        assert printed == f"{port} {port} {port} {port}\nanswering {port} $(PORT)\n"

    run(world, body)


def test_a_replica_is_ready_only_as_long_as_it_says_so(world: World, tmp_path: Path) -> None:
    unready = tmp_path / "unready"
    given = answering(ready=READY["v1"], env={"UNREADY": str(unready)})

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        unready.touch()
        (seen,) = (await observed(engine, given, lambda seen: states(seen) == {"starting"})).replicas
        assert seen.message.endswith("is not ready: GET /v1/models/scorer returned 404"), (
            "it is not asked what it speaks"
        )
        assert (seen.pid, seen.protocol) == (before.replicas[0].pid, "v1")
        unready.unlink()
        assert await ready(engine, given) == before

    run(world, body)


def test_a_replica_that_starts_slowly_is_waited_for(world: World, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    given = answering(f"import os; PORT = os.environ['PORT']; open({str(go)!r}).read()\n" + ANSWERS)

    async def body() -> None:
        engine = world.engine()
        for _ in range(20):
            seen = await engine.apply(given)
            assert (states(seen), seen.replicas[0].message) == ({"starting"}, "")
            await asyncio.sleep(0.02)
        await asyncio.to_thread(go.write_text, "")
        assert (await ready(engine, given)).replicas[0].restarts == 0

    run(world, body)


def test_another_engine_finds_what_answers_and_where(world: World) -> None:
    async def body() -> None:
        before = await ready(world.engine(), answering(ready=READY["seldon"]))
        assert await world.engine().apply(reported(answering(ready=READY["seldon"]), before)) == before
        assert await ready(world.engine(), answering(ready=READY["seldon"])) == before, "nobody told where it is"

    run(world, body)


def test_a_replica_keeps_its_port_over_a_crash(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        (before,) = (await ready(engine, answering())).replicas
        os.kill(before.pid or 0, signal.SIGKILL)
        seen = await observed(
            engine, answering(), lambda seen: seen.replicas[0].restarts == 1 and states(seen) == {"ready"}
        )
        assert (seen.replicas[0].address, seen.replicas[0].exit_code) == (before.address, 128 + signal.SIGKILL)

    run(world, body)


def test_what_crashes_again_and_again_waits_with_a_reason(world: World) -> None:
    async def body() -> None:
        seen = await observed(
            world.engine(), answering("raise SystemExit(3)"), lambda seen: states(seen) == {"waiting"}
        )
        assert (seen.replicas[0].message, seen.replicas[0].exit_code) == ("exited with code 3", 3)

    run(world, body)


def test_with_another_spec_replicas_are_replaced_one_at_a_time_where_they_are(world: World) -> None:
    given = answering(replicas=2)

    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, given)
        addresses = [replica.address for replica in before.replicas]
        assert len(set(addresses)) == 2

        def replaced(seen: Observation) -> bool:
            assert [replica.address for replica in seen.replicas] == addresses
            assert sum(replica.state != "ready" for replica in seen.replicas) <= 1
            pids = zip(seen.replicas, before.replicas, strict=True)
            return states(seen) == {"ready"} and all(now.pid != then.pid for now, then in pids)

        await observed(engine, changed(given, env={**given.spec["env"], "WORD": "2"}), replaced)

    run(world, body)


def test_with_another_protocol_in_its_place_it_is_asked_anew(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        before = await ready(engine, answering(ready=READY["v1"]))
        other = reported(answering(ready=READY["seldon"]), before)
        after = await observed(engine, other, lambda seen: ready_anew(seen, before))
        assert after.replicas[0].protocol == "seldon"

    run(world, body)


def test_replicas_are_added_and_removed_and_all_is_gone_in_the_end(world: World) -> None:
    async def body() -> None:
        engine = world.engine()
        one = await ready(engine, answering())
        two = await ready(engine, answering(replicas=2))
        assert two.replicas[0] == one.replicas[0]
        assert await observed(engine, answering(), lambda seen: len(seen.replicas) == 1) == one
        await until(lambda: engine.delete(answering()))
        for replica in two.replicas:
            with pytest.raises(ProcessLookupError):
                os.kill(replica.pid or 0, 0)

    run(world, body)


def test_one_that_does_not_mind_the_wish_to_end_is_killed(world: World) -> None:
    deaf = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); PORT = os.environ['PORT']\n" + ANSWERS
    given = answering(deaf, graceSeconds=0.1)

    async def body() -> None:
        engine = world.engine()
        await ready(engine, given)
        await until(lambda: engine.delete(given))

    run(world, body)

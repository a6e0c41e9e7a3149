"""What every Engine promises of tools that show something to people."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mizzen.kinds.schema.resource import Meta, Resource
from tests.contract.answers import BY_ARGUMENT, READY, get
from tests.contract.engines import World, observed, ready, run, states, until


def showing(unready: Path) -> Resource:
    meta = Meta("iris-monitor", uid="3c4d5e6f-7a8b-4c9d-8e0f-1a2b3c4d5e6f")
    env = {"READY": f"/data/ready {READY['v2']}", "UNREADY": str(unready)}
    command = ["python", "-c", BY_ARGUMENT, "$(MIZZEN_PORT)"]
    return Resource("Workload", meta, {"purpose": "show", "command": command, "readyPath": "/data/ready", "env": env})


def test_a_tool_is_ready_once_its_own_path_says_so(world: World, tmp_path: Path) -> None:
    unready = tmp_path / "unready"
    given = showing(unready)

    async def body() -> None:
        engine = world.engine()
        (replica,) = (await ready(engine, given)).replicas
        assert replica.protocol == "", "nobody asks what it speaks"
        assert await asyncio.to_thread(get, replica.address, "/data/ready") == str(replica.pid).encode()
        unready.touch()
        (seen,) = (await observed(engine, given, lambda seen: states(seen) == {"starting"})).replicas
        assert seen.message.endswith("is not ready: GET /data/ready returned 404")
        unready.unlink()
        assert (await ready(engine, given)).replicas[0] == replica
        await until(lambda: engine.delete(given))

    run(world, body)


def test_a_tool_keeps_its_port_over_a_restart_of_the_plane(world: World, tmp_path: Path) -> None:
    given = showing(tmp_path / "unready")

    async def body() -> None:
        before = await ready(world.engine(), given)
        assert (await ready(world.engine(), given)).replicas == before.replicas

    run(world, body)

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mizzen.supervisor.client import Client, Refused, SupervisorGone
from mizzen.supervisor.protocol import State
from tests.support.supervised import Supervised


def test_calls_may_overlap_and_be_cancelled(plane: Supervised) -> None:
    plane.start()

    async def body() -> None:
        client = await Client.connect(plane.home)
        specs = [plane.spec(f"p.{number}") for number in range(3)]
        cancelled = asyncio.create_task(client.info())
        views = asyncio.gather(*(client.apply(spec) for spec in specs))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert [view.key for view in await views] == ["p.0", "p.1", "p.2"]
        assert {view.key for view in await client.list("p.")} == {"p.0", "p.1", "p.2"}
        assert await client.list("q.") == []
        assert await client.remove("q.0") is None
        with pytest.raises(Refused):
            await client.apply(plane.spec("no key"))
        client.close()

    asyncio.run(body())


def test_watch_tells_what_is_there_and_every_change(plane: Supervised) -> None:
    plane.start(plane.spec("one"))

    async def body() -> None:
        client = await Client.connect(plane.home)
        views = client.watch()
        first = await anext(views)
        assert first.state is State.RUNNING
        assert first.pid is not None
        os.kill(first.pid, signal.SIGTERM)
        assert [(await anext(views)).state for _ in range(2)] == [State.WAITING, State.RUNNING]
        await client.remove("one")
        assert [(await anext(views)).state for _ in range(2)] == [State.STOPPING, State.GONE]
        plane.kill()
        with pytest.raises(SupervisorGone):
            await anext(views)
        with pytest.raises(SupervisorGone):
            await client.info()
        assert await client.wait_until_ended() == "gone"
        client.close()
        with pytest.raises(SupervisorGone):
            await Client.connect(plane.home)

    asyncio.run(body())


def test_the_end_on_purpose_is_announced(plane: Supervised) -> None:
    plane.start()

    async def body() -> None:
        client = await Client.connect(plane.home)
        ending = asyncio.create_task(client.wait_until_ended())
        await asyncio.to_thread(plane.stop)
        assert await ending == "stopping"
        client.close()

    asyncio.run(body())

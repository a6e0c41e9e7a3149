"""Many objects: what one change costs, what a start writes, and that falling behind loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from mizzen.controllers.acceptance import KINDS, Acceptance
from mizzen.controllers.graphs.controller import Graphs
from mizzen.controllers.models import Models
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.errors import Expired
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.reconcile.loop import Loop
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Event, Store
from tests.support.controllers.objects import NOBODY, NOW, inference_model, model, version
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import CountingStore
from tests.unit.controllers.engine import ScriptedEngine


class Machine:
    """All controllers over a store; counts their decisions."""

    def __init__(self, store: Store) -> None:
        known = Context()
        serving = (Serving("http://x", known), Graphs("http://x", known))
        working = (Models(known), Versions(known), *serving, Workloads(ScriptedEngine()))
        self.decisions = 0
        self.loop = Loop[Store](store, [*working, *(Acceptance(kind, known, *NOBODY) for kind in KINDS)], now=self._now)

    def _now(self) -> datetime:
        self.decisions += 1
        return NOW

    async def rest(self, decisions: int) -> None:
        """Until so many were made, and no key waits."""
        queues = [lane.queue for lane in self.loop._lanes]
        async with asyncio.timeout(60):
            while self.decisions < decisions or any(queue._queued or queue._working for queue in queues):  # noqa: ASYNC110
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def running(store: Store) -> AsyncIterator[Machine]:
    machine = Machine(store)
    task = asyncio.create_task(machine.loop.run())
    try:
        yield machine
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def families(count: int) -> list[Resource]:
    names = [f"m-{number:03}" for number in range(count)]
    return [one for name in names for one in (model(name), version("1", name), version("2", name))]


async def cost_of_changes(others: int) -> list[tuple[Counter[str], int]]:
    """What was read and how much was written, by each of some changes and all that follows from it."""
    store = CountingStore()
    for resource in families(others):
        await store.create(resource, "ann")
    costs = []
    async with running(store):
        await asyncio.sleep(100)
        for change in (
            store.create(model("iris"), "ann"),
            store.create(version("1"), "ann"),
            store.create(inference_model("s", "1"), "ann"),
            store.delete(Ref("ModelVersion", "iris.1"), "ann"),
            store.delete(Ref("Model", "iris"), "ann"),
        ):
            store.reads.clear()
            written = store.version
            await change
            await asyncio.sleep(9)  # shorter than the time after which a workload is looked at for safety
            costs.append((Counter(store.reads), store.version - written))
    return costs


def test_a_change_costs_the_same_however_many_other_objects_there_are() -> None:
    few, many = virtual.run(cost_of_changes(2)), virtual.run(cost_of_changes(150))
    assert few == many
    assert all(reads["gets"] for reads, _ in few)


@contextlib.asynccontextmanager
async def opened(folder: Path, *, keep_events: int) -> AsyncIterator[SqliteStore]:
    ids = itertools.count()
    path = folder / "mizzen.db"
    store = await SqliteStore.open(path, clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}", keep_events=keep_events)
    try:
        yield store
    finally:
        await store.close()


async def unaccepted(store: SqliteStore) -> int:
    found = [await store.list(kind) for kind in ("Model", "ModelVersion")]
    return sum(Status.of(item).condition("Accepted") is None for listing in found for item in listing.items)


@pytest.mark.parametrize("keep_events", [5, 10_000])
def test_a_first_start_reaches_every_object_and_the_next_one_writes_nothing(tmp_path: Path, keep_events: int) -> None:
    """Also when changes are forgotten faster than they can be followed."""

    async def start() -> str:
        async with opened(tmp_path, keep_events=keep_events) as store:
            async with running(store) as machine:
                await machine.rest(180)
            assert await unaccepted(store) == 0
            return (await store.list("Model", limit=1)).resource_version

    async def main() -> None:
        async with opened(tmp_path, keep_events=keep_events) as store:
            await asyncio.gather(*(store.create(resource, "ann") for resource in families(60)))
        assert await start() == "360", "each of 180 objects was made, and got one status"
        assert await start() == "360"

    asyncio.run(main())


def test_whoever_watched_a_first_start_too_slowly_lists_again_and_has_missed_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, keep_events=20) as store:
            await asyncio.gather(*(store.create(resource, "ann") for resource in families(60)))
            listing = await store.list("ModelVersion")
            slow = store.watch("ModelVersion", listing.resource_version)
            first = asyncio.ensure_future(anext(slow))
            async with running(store) as machine:
                event = await first
                assert Status.of(event.resource).condition("Accepted")
                await machine.rest(180)
            with pytest.raises(Expired):
                await read_on(slow)
            listing = await store.list("ModelVersion")
            assert all(Status.of(item).condition("Accepted") for item in listing.items)
            fresh = store.watch("ModelVersion", listing.resource_version)
            await store.delete(event.resource.ref, "ann")
            assert (await anext(fresh)).type == "DELETED"
            await fresh.aclose()

    asyncio.run(main())


async def read_on(events: AsyncIterator[Event]) -> None:
    async for _ in events:
        pass

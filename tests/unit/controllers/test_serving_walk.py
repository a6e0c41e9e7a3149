"""Apply -> serving -> deleted, with all controllers over the real store; only the processes are played."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

from mizzen.controllers.models import Models
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.table_publisher import TablePublisher
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.graph import table_types
from mizzen.kinds.model import ModelStatus, ModelVersionStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Ref
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.reconcile.controller import find
from mizzen.reconcile.loop import Loop
from mizzen.stores.sqlite.store import SqliteStore
from tests.support.controllers.objects import NOW, inference_model, model, version
from tests.unit.controllers.engine import ScriptedEngine

SERVING, WORKLOAD = Ref("InferenceModel", "iris-1"), Ref("Workload", "iris-1.1")


async def _story(store: SqliteStore, path: Path) -> None:
    engine = ScriptedEngine()
    known = Context()
    controllers = (Models(known), Versions(known), Serving("http://127.0.0.1:1", known), Workloads(engine))
    loop = Loop(store, controllers, now=lambda: NOW)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(loop.run()), tasks.create_task(TablePublisher(store, path).run())]
        for resource in (model(), version("1"), inference_model("iris-1", annotations={"mizzen.dev/actor": "bob"})):
            await store.create(resource, "ann")
        await _eventually(lambda: _truth(engine.running))
        engine.happen("ready", (WORKLOAD.name,), only=frozenset({"starting"}))
        loop.enqueue(WORKLOAD)
        await _eventually(lambda: _has_current(store))
        await _eventually(lambda: _truth(_routes(path) == 2))
        await _check_serving(store)

        await store.delete(SERVING, "ann")
        await _eventually(lambda: _gone(store))
        assert await find(store, WORKLOAD) is None
        assert not engine.running
        for task in running:
            task.cancel()


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - files and processes are looked at, they do not call
        await asyncio.sleep(0.005)


async def _truth(value: object) -> bool:
    return bool(value)


async def _has_current(store: SqliteStore) -> bool:
    return ModelStatus.of(await store.get(Ref("Model", "iris"))).current is not None


async def _gone(store: SqliteStore) -> bool:
    return await find(store, SERVING) is None


def _routes(path: Path) -> int:
    return len(table_types.decode(path.read_bytes()).routes) if path.exists() else 0


async def _check_serving(store: SqliteStore) -> None:
    status = InferenceModelStatus.of(await store.get(SERVING))
    assert (status.serving_version, status.url) == ("1", "http://127.0.0.1:1/v2/models/iris-1")
    current = ModelStatus.of(await store.get(Ref("Model", "iris"))).current
    assert current is not None
    assert (current.version, current.actor) == ("1", "bob")
    last = (await store.history(Ref("Model", "iris")))[-1]
    assert (last.action, last.actor) == ("promoted", "bob")
    servable = ModelVersionStatus.of(await store.get(Ref("ModelVersion", "iris.1"))).condition("Servable")
    assert servable is not None


def test_from_apply_to_serving_to_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(store.close)
            await _story(store, tmp_path / "table.json")

    asyncio.run(main())

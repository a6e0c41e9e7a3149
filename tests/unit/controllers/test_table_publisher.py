"""The publisher over the real store and a real file."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.controllers.table_publisher import KINDS, TablePublisher
from mizzen.errors import Unavailable
from mizzen.graph import table_types
from mizzen.graph.compile.table import compile_table
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Listing, Where
from tests.support.controllers.objects import NOW, inference_model, meta, model, workload
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import EVERYTHING, CountingStore, MemoryStore
from tests.unit.controllers.publishing import eventually, running


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStore]:
    ids = itertools.count()
    store = await SqliteStore.open(folder / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
    try:
        yield store
    finally:
        await store.close()


async def put(store: SqliteStore | MemoryStore, resource: Resource) -> None:
    stored = await store.create(resource, "ann")
    await store.update_status(replace(stored, status=resource.status), "ann")


def graph(name: str, calls: str | None, generation: int) -> Resource:
    """One that answers by a spec of this generation, which calls a container; by none when it is 0."""
    containers = [{"name": "c", "command": ["x"]}]
    node = {"name": "n", "implementation": {"kfservice": calls} if calls else {"name": "c"}}
    spec = {"dag": [node], "custom": [{"spec": {"containers": containers}}]}
    serving = {"generation": generation, "spec": spec, "workloads": {"c": f"{name}.1"}}
    return Resource("MLGraph", meta(name), {}, {"serving": serving} if generation else {})


def read(path: Path) -> table_types.Table:
    return table_types.decode(path.read_bytes())


def names(path: Path) -> list[str]:
    return [route.name for route in read(path).routes] if path.exists() else []


def test_publishes_at_the_start_and_after_every_change(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        async with opened(tmp_path) as store, running(TablePublisher(store, path)):
            await eventually(path.exists)
            assert read(path).routes == ()
            for number in range(5):
                await put(store, inference_model(f"a-{number}", serving="1"))
                await put(store, workload(f"a-{number}.1", "ready"))
            await eventually(lambda: len(names(path)) == 5 and len(read(path).servers) == 5)
            assert read(path).serial <= int((await store.list("Model")).resource_version)
            await store.delete(Ref("InferenceModel", "a-3"), "ann")
            await eventually(lambda: names(path) == ["a-0", "a-1", "a-2", "a-4"])
            assert await store.tally() == {"InferenceModel": 4, "Workload": 5}

    asyncio.run(main())
    assert [entry.name for entry in tmp_path.glob("*table*")] == ["table.json"]


def test_a_graph_is_published_once_a_spec_of_it_answers(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        async with opened(tmp_path) as store, running(TablePublisher(store, path)):
            await put(store, graph("g", "x", 0))
            await put(store, inference_model("a", serving="1"))
            await eventually(lambda: names(path) == ["a"])
            stored = await store.get(Ref("MLGraph", "g"))
            await store.update_status(replace(stored, status=graph("g", None, 3).status), "ann")
            await eventually(lambda: names(path) == ["a", "g"])
            table = read(path)
            found = table.routes[1].plan.graph
            assert found is not None
            assert (table.routes[1].version, found.uid, found.generation) == ("3", stored.meta.uid, 3)
            assert [service.addresses for service in table.services] == [()]
            await put(store, workload("g.1", "ready"))
            await eventually(lambda: [one.addresses for one in read(path).services] == [("unix:/g.1.0",)])
            await store.delete(Ref("MLGraph", "g"), "ann")
            await eventually(lambda: names(path) == ["a"] and read(path).services == ())

    asyncio.run(main())


def test_what_it_stands_on_is_told_to_who_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as store:
            await put(store, inference_model("a-1", serving="1"))
            await put(store, workload("a-1.1", "ready"))
            publisher = TablePublisher(store, tmp_path / "table.json")
            assert publisher.snapshot() == ("", None, [], [])
            await publisher.publish()
            position, table, servers, workloads = publisher.snapshot()
            assert position == (await store.list("Model")).resource_version
            assert table == read(tmp_path / "table.json")
            assert [each.meta.name for each in (*servers, *workloads)] == ["a-1", "a-1.1"]

    asyncio.run(main())


def test_what_says_nothing_new_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        async with opened(tmp_path) as store:
            publisher = TablePublisher(store, path)
            await put(store, inference_model("a", serving="1"))
            await put(store, workload("a.1", "ready"))
            assert await publisher.publish()
            before = path.stat().st_ino
            await store.create(workload("unrelated.1", "ready"), "ann")
            assert not await publisher.publish()
            assert path.stat().st_ino == before

    asyncio.run(main())


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_file_that_somebody_broke_is_written_again(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "table.json"

    def break_it() -> None:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    async def main() -> None:
        async with opened(tmp_path) as store:
            await put(store, inference_model("a", serving="1"))
            async with running(TablePublisher(store, path)):
                await eventually(lambda: names(path) == ["a"])
            good = path.read_bytes()
            break_it()
            async with running(TablePublisher(store, path, check_interval=0.01)):
                await eventually(lambda: path.exists() and path.read_bytes() == good)
                break_it()
                await eventually(lambda: path.exists() and path.read_bytes() == good)

    asyncio.run(main())


class TroubledStore(MemoryStore):
    """Fails when it is told to, and moves between two reads."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False
        self.on_move: Callable[[], Awaitable[None]] | None = None

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        if self.failing:
            raise Unavailable("the disk is away")
        if kind == "Workload" and self.on_move is not None:
            await self.on_move()
        return await super().list(kind, where, limit=limit, after=after)


def test_an_error_never_empties_the_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        store = TroubledStore()
        await put(store, inference_model("a", serving="1"))
        await put(store, workload("a.1", "ready"))
        publisher = TablePublisher(store, path)
        assert await publisher.publish()
        good = path.read_bytes()
        store.failing = True
        async with running(publisher):
            await eventually(lambda: len(caplog.records) >= 4)
            assert path.read_bytes() == good
            store.failing = False
            await put(store, inference_model("b", serving="1"))
            await eventually(lambda: names(path) == ["a", "b"])

    asyncio.run(main())


def test_a_table_is_of_one_moment_however_fast_the_store_changes(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        store = TroubledStore()
        await put(store, inference_model("a", serving="1"))
        await put(store, workload("a.1", "ready"))

        async def switch() -> None:
            """Between the listing of InferenceModels and that of Workloads, `a` goes from version 1 to 2."""
            await put(store, workload("a.2", "ready"))
            stored = await store.get(Ref("InferenceModel", "a"))
            await store.update_status(replace(stored, status={"servingVersion": "2"}), "ann")
            await store.delete(Ref("Workload", "a.1"), "ann")

        publisher = TablePublisher(store, path)
        store.on_move = switch
        await publisher.publish()
        assert [(server.version, len(server.addresses)) for server in read(path).servers] == [("1", 1)]
        store.on_move = None
        await publisher.publish()
        assert [(server.version, len(server.addresses)) for server in read(path).servers] == [("2", 1)]

    asyncio.run(main())


def test_once_it_follows_no_change_makes_it_read_the_store(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    async def main() -> None:
        store = CountingStore()
        for number in range(1200):
            await put(store, model(f"quiet-{number:04}"))
        await put(store, model("iris", current="1"))
        publisher = TablePublisher(store, path)
        async with running(publisher):
            await eventually(lambda: names(path) == ["iris"])
            assert store.reads["lists"] == 6, "models in pages, and the other kinds"
            assert [ref.name for ref in publisher._resources] == ["iris"], "those that tell nothing are not kept"
            await put(store, inference_model("a", serving="1"))
            await put(store, workload("a.1", "ready"))
            await eventually(lambda: names(path) == ["a", "iris"] and len(read(path).servers) == 1)
            await store.delete(Ref("InferenceModel", "a"), "ann")
            await store.delete(Ref("Model", "iris"), "ann")
            await eventually(lambda: names(path) == [])
            assert store.reads["lists"] == 6

    asyncio.run(main())


CURRENT = st.sampled_from((None, "1", "2"))
WRITES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(("a", "b")), CURRENT, CURRENT),
        st.just(None),
    ),
    max_size=12,
)


def told(kind: str, name: str, first: str | None, second: str | None) -> Resource:
    match kind:
        case "Model":
            resource = model(name, current=first)
            return replace(resource, status={**resource.status, "aliasOf": "b:1"} if second else resource.status)
        case "InferenceModel":
            return inference_model(name, first or "1", serving=second, model_name="a")
        case "MLGraph":
            return graph(name, first, int(second or 0))
        case _:
            return workload(f"{name}.{first or 1}", *(["ready"] * int(second or 0)))


@given(WRITES)
def test_what_it_keeps_gives_the_table_of_the_whole_store(
    writes: list[tuple[str, str, str | None, str | None] | None],
) -> None:
    """However writes, deletions and falling behind are mixed."""

    async def main() -> None:
        store = MemoryStore()
        publisher = TablePublisher(store, Path("never-written"))
        following = asyncio.create_task(publisher._follow())
        for write in writes:
            if write is None:
                store.expire()
                continue
            wanted = told(*write)
            if wanted.ref in store.objects:
                await store.delete(wanted.ref, "ann")
            else:
                await put(store, wanted)
        await asyncio.sleep(1)
        kept = publisher._compile()
        following.cancel()
        models, servers, workloads, graphs = [(await store.list(kind)).items for kind in KINDS]
        assert kept == compile_table(models, servers, workloads, kept.serial, graphs=graphs)

    virtual.run(main())

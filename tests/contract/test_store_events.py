"""What every store promises about Events: kept and found like all objects, told to who asks for them, no history."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.store import Store, Where
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, take, watching


def event(name: str, kind: str = "Model", involved: str = "iris", **spec: object) -> Resource:
    told = {"involvedObject": {"kind": kind, "name": involved, "uid": f"uid-{involved}"}, "type": "Normal"}
    return Resource("Event", Meta(name), told | spec)


@on_every_store
async def test_nothing_of_them_is_in_history(store: Store) -> None:
    made = await store.create(event("e.1", count=1), "system")
    again = await store.update(replace(made, spec=event("e.1", count=2).spec), "system")
    assert (again.spec["count"], again.meta.generation) == (2, 2)
    await store.update_status(replace(again, status={"a": 1}), "system", decision="decided")
    position = store.position("Revision")
    await store.delete(made.ref, "system")
    assert await store.history(made.ref) == ()
    assert (await store.list("Revision")).items == ()
    assert store.position("Revision") == position
    await store.create(model("iris"), "ann")
    async with aclosing(watching(store, "Revision", "0")) as watch:
        assert [one.resource.meta.name for one in await take(watch, 1)] == ["model.iris.1"]


@on_every_store
async def test_they_are_found_by_what_they_happened_to(store: Store) -> None:
    for name, kind, involved in (("a", "Model", "iris"), ("b", "InferenceModel", "iris"), ("c", "Model", "rose")):
        await store.create(event(name, kind, involved), "system")
    for fields, names in (
        ({"spec.involvedObject.name": "iris"}, "ab"),
        ({"spec.involvedObject.name": "iris", "spec.involvedObject.kind": "Model"}, "a"),
        ({"spec.involvedObject.uid": "uid-rose"}, "c"),
        ({"spec.type": "Normal"}, "abc"),
    ):
        found = await store.list("Event", Where(fields=fields))
        assert "".join(item.meta.name for item in found.items) == names


@on_every_store
async def test_only_who_watches_them_is_told(store: Store) -> None:
    async with aclosing(watching(store, None, "0")) as all_, aclosing(watching(store, "Event", "0")) as some:
        waiting = asyncio.create_task(take(all_, 2))
        for number in range(5):
            await store.create(event(f"e.{number}"), "system")
        await store.create(model("iris"), "ann")
        await asyncio.gather(*(store.create(one, "system") for one in (event("e.5"), model("rose"), event("e.6"))))
        assert [one.resource.meta.name for one in await waiting] == ["iris", "rose"]
        assert len(await take(some, 7)) == 7
    async with aclosing(watching(store, None, "0")) as late:
        assert [one.resource.meta.name for one in await take(late, 2)] == ["iris", "rose"]


@every_store
def test_however_many_there_are_nobody_else_falls_behind(opener: Opener, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(opener, tmp_path, keep_events=5) as store, aclosing(watching(store, None, "0")) as watch:
            waiting = asyncio.create_task(take(watch, 1))
            await asyncio.sleep(0.01)
            for number in range(20):
                await store.create(event(f"e.{number}"), "system")
            await store.create(model("iris"), "ann")
            assert [one.resource.meta.name for one in await waiting] == ["iris"]

    asyncio.run(main())

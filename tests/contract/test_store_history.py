"""What every store promises about history."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.store import Revision, Store
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, version, with_meta


@on_every_store
async def test_history_tells_who_did_what(store: Store) -> None:
    made = await store.create(with_meta(model("iris", n=1), finalizers=("a/1",)), "ann")
    made = await store.update(replace(made, spec={"n": 2}), "bob")
    made = await store.update(with_meta(made, labels={"a": "b"}), "labeller")
    made = await store.update_status(replace(made, status={"seen": 1}), "controller")
    made = await store.update_status(replace(made, status={"current": 7}), "cy", decision="promoted")
    await store.delete(made.ref, "dan")
    await store.delete(made.ref, "dan again")
    marked = await store.get(made.ref)
    await store.update(with_meta(marked, finalizers=()), "controller")
    again = await store.create(model("iris", n=3), "eve")

    history = await store.history(made.ref)
    assert [(r.number, r.action, r.actor, r.before, r.after) for r in history] == [
        (1, "created", "ann", None, {"n": 1}),
        (2, "updated", "bob", {"n": 1}, {"n": 2}),
        (3, "promoted", "cy", {"seen": 1}, {"current": 7}),
        (4, "deleted", "dan", {"n": 2}, None),
        (5, "created", "eve", None, {"n": 3}),
    ]
    assert {r.uid for r in history[:4]} == {made.meta.uid}
    assert history[4].uid == again.meta.uid
    assert history[0].time == made.meta.created
    assert [r.time for r in history] == sorted(r.time for r in history)
    assert await store.history(Ref("Model", "iris", "other")) == ()


async def make_families(store: Store) -> None:
    """Two models whose versions and servers come and go."""
    for name in ("iris", "rose"):
        await store.create(model(name), "ann")
        for number in "12":
            await store.create(version(name, number), "bob")
    server = await store.create(Resource("InferenceModel", Meta("any-name"), {"modelName": "iris"}), "cy")
    await store.create(model("iris", "other"), "ann")
    await store.create(Resource("Workload", Meta("iris"), {"modelName": "iris"}), "controller")
    await store.update_status(replace(server, status={"ok": 1}), "controller", decision="noted")
    await store.delete(Ref("ModelVersion", "iris.1"), "dan")
    await store.delete(Ref("InferenceModel", "any-name"), "dan")
    await store.delete(Ref("Model", "iris"), "dan")


IRIS = [
    ("Model", "iris", "created"), ("ModelVersion", "iris.1", "created"), ("ModelVersion", "iris.2", "created"),
    ("InferenceModel", "any-name", "created"), ("InferenceModel", "any-name", "noted"),
    ("ModelVersion", "iris.1", "deleted"), ("InferenceModel", "any-name", "deleted"), ("Model", "iris", "deleted"),
]  # fmt: skip


def told(revisions: tuple[Revision, ...]) -> list[tuple[str, str, str]]:
    return [(one.ref.kind, one.ref.name, one.action) for one in revisions]


@on_every_store
async def test_the_history_of_a_family_is_that_of_all_that_belongs_to_a_model(store: Store) -> None:
    await make_families(store)
    entries, after = await store.family_history(Ref("Model", "iris"))
    assert (told(entries), after) == (IRIS, None)
    assert tuple(one for one in entries if one.ref.name == "iris.1") == await store.history(
        Ref("ModelVersion", "iris.1")
    )
    assert told((await store.family_history(Ref("Model", "iris", "other")))[0]) == [("Model", "iris", "created")]
    assert await store.family_history(Ref("Model", "nobody")) == ((), None)
    async with store.snapshot() as moment:
        assert await moment.last_change(Ref("Model", "iris")) == entries[-1]
        assert await moment.last_change(Ref("Model", "nobody")) is None


@pytest.mark.parametrize("limit", [1, 3, 8, 9])
@every_store
def test_a_family_is_read_in_pages(opener: Opener, tmp_path: Path, limit: int) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            await make_families(store)
            iris = Ref("Model", "iris")
            entries, after = await store.family_history(iris, limit=limit)
            seen = told(entries)
            while after is not None:
                with pytest.raises(BadRequest):
                    await store.family_history(Ref("Model", "rose"), after=after)
                entries, after = await store.family_history(iris, limit=limit, after=after)
                assert 0 < len(entries) <= limit
                seen += told(entries)
            assert seen == IRIS
            for limit_, garbage in ((0, None), (1, "x"), (1, "e30")):
                with pytest.raises(BadRequest):
                    await store.family_history(iris, limit=limit_, after=garbage)

    asyncio.run(body())


@on_every_store
async def test_an_object_belongs_to_the_model_that_its_spec_names_now(store: Store) -> None:
    made = await store.create(Resource("TrainingJob", Meta("job"), {"modelName": "iris"}), "ann")
    moved = await store.update(replace(made, spec={"modelName": "rose"}), "ann")
    await store.update(replace(moved, spec={"modelName": ["no", "text"]}), "ann")
    assert [one.number for one in (await store.family_history(Ref("Model", "iris")))[0]] == [1]
    assert [one.number for one in (await store.family_history(Ref("Model", "rose")))[0]] == [2]


@every_store
def test_history_outlives_compaction_and_restart(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=1) as store:
            made = await store.create(model("iris", n=0), "ann")
            for n in range(1, 10):
                made = await store.update(replace(made, spec={"n": n}), "ann")
        async with opened(opener, tmp_path, keep_events=1) as store:
            assert [r.after for r in await store.history(made.ref)] == [{"n": n} for n in range(10)]
            assert await store.get(made.ref) == made

    asyncio.run(body())

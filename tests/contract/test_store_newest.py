"""What every store promises about the newest objects of a model, and their number: neither costs what there is."""

from __future__ import annotations

from dataclasses import replace

from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.store import Store
from tests.contract.stores import model, on_every_store, version

IRIS = Ref("Model", "iris")


async def asked(store: Store, kind: str = "ModelVersion", of: Ref = IRIS, most: int = 3) -> tuple[list[str], int]:
    """Names of the newest, and the number of all."""
    found: list[tuple[list[str], int]] = []
    async with store.snapshot() as moment:
        await moment.check(
            lambda now: found.append(([one.meta.name for one in now.newest(kind, of, most)], now.count(kind, of)))
        )
    return found[0]


@on_every_store
async def test_the_newest_are_those_that_were_made_last(store: Store) -> None:
    assert await asked(store) == ([], 0)
    for number in ("9", "10", "2", "b", "1"):
        await store.create(version("iris", number), "ann")
    assert await asked(store) == (["iris.1", "iris.b", "iris.2"], 5)
    assert await asked(store, most=100) == (["iris.1", "iris.b", "iris.2", "iris.10", "iris.9"], 5)


@on_every_store
async def test_only_those_of_the_model_count(store: Store) -> None:
    await store.create(model("iris"), "ann")
    await store.create(version("iris", "1"), "ann")
    await store.create(version("rose", "1"), "ann")
    await store.create(version("iris", "1", namespace="other"), "ann")
    await store.create(Resource("TrainingJob", Meta("job"), {"modelName": "iris"}), "ann")
    assert await asked(store) == (["iris.1"], 1)
    assert await asked(store, "TrainingJob") == (["job"], 1)
    assert await asked(store, "Monitor") == ([], 0)


@on_every_store
async def test_a_change_makes_nothing_newer(store: Store) -> None:
    first = await store.create(version("iris", "1"), "ann")
    await store.create(version("iris", "2"), "ann")
    changed = await store.update_status(replace(first, status={"a": 1}), "ann")
    await store.update(replace(changed, spec={**changed.spec, "image": "a"}), "ann")
    assert await asked(store) == (["iris.2", "iris.1"], 2)


@on_every_store
async def test_what_is_deleted_is_gone_and_made_anew_is_new(store: Store) -> None:
    for number in ("1", "2", "3"):
        await store.create(version("iris", number), "ann")
    await store.delete(Ref("ModelVersion", "iris.3"), "ann")
    await store.delete(Ref("ModelVersion", "iris.1"), "ann")
    assert await asked(store) == (["iris.2"], 1)
    await store.create(version("iris", "1"), "ann")
    assert await asked(store) == (["iris.1", "iris.2"], 2)


@on_every_store
async def test_what_changes_its_model_is_found_with_the_new_one(store: Store) -> None:
    job = await store.create(Resource("TrainingJob", Meta("job"), {"modelName": "iris"}), "ann")
    await store.update(replace(job, spec={"modelName": "rose"}), "ann")
    assert await asked(store, "TrainingJob") == ([], 0)
    assert await asked(store, "TrainingJob", Ref("Model", "rose")) == (["job"], 1)

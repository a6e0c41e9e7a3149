"""What every store promises about single objects: what is written is what is read, and nothing gets lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.errors import AlreadyExists, Conflict, Invalid, NotFound
from mizzen.kinds.schema.resource import OwnerReference, Ref, Resource
from mizzen.stores.store import Store
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, with_meta


@on_every_store
async def test_create_fills_in_what_the_store_owns(store: Store) -> None:
    before = datetime.now(UTC)
    made = await store.create(model("iris", track="latest"), "ann")
    assert made.meta.uid
    assert made.meta.generation == 1
    assert made.meta.resource_version == "1"
    assert made.meta.created is not None
    assert before - timedelta(seconds=1) <= made.meta.created <= datetime.now(UTC)
    assert made.meta.deleted is None
    assert await store.get(made.ref) == made


@on_every_store
async def test_create_ignores_what_a_caller_claims(store: Store) -> None:
    claimed = with_meta(model("iris"), uid="mine", generation=9, deleted=datetime.now(UTC), resource_version="77")
    made = await store.create(claimed, "ann")
    assert made.meta.uid != "mine"
    assert (made.meta.generation, made.meta.resource_version, made.deleting) == (1, "1", False)


@on_every_store
async def test_a_name_is_taken_once_for_each_kind_and_namespace(store: Store) -> None:
    await store.create(model("iris"), "ann")
    await store.create(model("iris", "other"), "ann")
    await store.create(replace(model("iris"), kind="Workload"), "ann")
    with pytest.raises(AlreadyExists):
        await store.create(model("iris"), "bob")
    assert (await store.list("Model")).resource_version == "3", "a refused write takes no version"


@on_every_store
async def test_everything_written_is_read_back_exactly(store: Store) -> None:
    spec = {"text": "naïve ∑ \u2028 \x00", "big": 2**70, "float": 1.0, "deep": [{"a": [None, True, -0.5]}], "": {}}
    resource = replace(
        with_meta(
            model("iris"),
            labels={"a.b/c": "d"},
            annotations={"note": 'a "quoted" note'},
            owners=(OwnerReference("Model", "m", "uid-1"),),
            finalizers=("x/y",),
        ),
        spec=spec,
        status={"conditions": []},
    )
    made = await store.create(resource, "ann")
    assert made.spec == spec
    assert type(made.spec["float"]) is float
    assert made.status == {"conditions": []}
    assert (made.meta.labels, made.meta.annotations) == (resource.meta.labels, resource.meta.annotations)
    assert (made.meta.owners, made.meta.finalizers) == (resource.meta.owners, resource.meta.finalizers)
    assert await store.get(made.ref) == made


@on_every_store
async def test_what_a_caller_does_to_their_data_later_does_not_matter(store: Store) -> None:
    spec: dict[str, object] = {"nested": {"a": 1}}
    made = await store.create(replace(model("iris"), spec=spec), "ann")
    spec["nested"] = "changed"
    assert made.spec == {"nested": {"a": 1}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}, datetime.now(UTC), b"x"])
@every_store
def test_what_json_cannot_hold_is_refused(opener: Opener, tmp_path: Path, value: object) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            with pytest.raises(Invalid):
                await store.create(model("iris", value=value), "ann")
            made = await store.create(model("iris", value=None), "ann")
            with pytest.raises(Invalid):
                await store.update(replace(made, spec={"value": value}), "ann")
            with pytest.raises(Invalid):
                await store.update_status(replace(made, status={"value": value}), "ann")
            assert await store.get(made.ref) == made
            assert made.meta.resource_version == "1", "a refused write takes no version"

    asyncio.run(body())


@on_every_store
async def test_what_is_not_there(store: Store) -> None:
    ref = Ref("Model", "none")
    with pytest.raises(NotFound):
        await store.get(ref)
    with pytest.raises(NotFound):
        await store.update(model("none"), "ann")
    with pytest.raises(NotFound):
        await store.update_status(model("none"), "ann")
    with pytest.raises(NotFound):
        await store.delete(ref, "ann")
    assert await store.history(ref) == ()
    assert (await store.list("Model")).items == ()


@on_every_store
async def test_generation_moves_with_the_spec_only(store: Store) -> None:
    made = await store.create(model("iris", a=1), "ann")
    labelled = await store.update(with_meta(made, labels={"team": "x"}), "ann")
    assert (labelled.meta.generation, labelled.meta.resource_version) == (1, "2")
    changed = await store.update(replace(labelled, spec={"a": 2}), "ann")
    assert (changed.meta.generation, changed.meta.resource_version) == (2, "3")
    reported = await store.update_status(replace(changed, status={"ok": True}), "ann")
    assert (reported.meta.generation, reported.meta.resource_version) == (2, "4")


@on_every_store
async def test_update_writes_neither_status_nor_what_the_store_owns(store: Store) -> None:
    made = await store.create(replace(model("iris", a=1), status={"kept": 1}), "ann")
    asked = replace(with_meta(made, generation=40, created=None, deleted=datetime.now(UTC)), spec={"a": 2}, status={})
    changed = await store.update(asked, "ann")
    assert changed.status == {"kept": 1}
    assert (changed.meta.uid, changed.meta.created, changed.meta.deleted) == (made.meta.uid, made.meta.created, None)
    assert changed.meta.generation == 2


@on_every_store
async def test_update_status_writes_nothing_else_but_who_owns_it(store: Store) -> None:
    made = await store.create(model("iris", a=1), "ann")
    owners = ({"manager": "ann", "subresource": "status"},)
    moved = with_meta(made, labels={"a": "b"}, finalizers=("x/y",), managed=owners)
    changed = await store.update_status(replace(moved, spec={"a": 2}, status={"n": 1}), "ann")
    assert changed == with_meta(replace(made, status={"n": 1}), resource_version="2", managed=owners)


@on_every_store
async def test_a_stale_write_is_a_conflict(store: Store) -> None:
    made = await store.create(model("iris", n=1), "ann")
    newer = await store.update(replace(made, spec={"n": 2}), "ann")
    with pytest.raises(Conflict):
        await store.update(replace(made, spec={"n": 3}), "bob")
    with pytest.raises(Conflict):
        await store.update_status(replace(made, status={"n": 3}), "bob")
    unchecked = await store.update(with_meta(replace(made, spec={"n": 4}), resource_version=""), "bob")
    assert unchecked.meta.resource_version == "3"
    assert await store.get(newer.ref) == unchecked


@on_every_store
async def test_a_write_to_an_object_made_anew_is_a_conflict(store: Store) -> None:
    first = await store.create(model("iris", n=1), "ann")
    await store.delete(first.ref, "ann")
    await store.create(model("iris", n=2), "ann")
    with pytest.raises(Conflict):
        await store.update_status(with_meta(replace(first, status={"n": 1}), resource_version=""), "ann")
    with pytest.raises(Conflict):
        await store.delete(first.ref, "ann", uid=first.meta.uid)


@on_every_store
async def test_a_write_that_changes_nothing_takes_no_version(store: Store) -> None:
    made = await store.create(replace(model("iris", a=1, b={"c": 2, "d": 3}), status={"s": [1]}), "ann")
    assert await store.update(replace(made, spec={"b": {"d": 3, "c": 2}, "a": 1}), "bob") == made
    assert await store.update_status(made, "bob", decision="promoted") == made
    assert (await store.list("Model")).resource_version == "1"
    assert len(await store.history(made.ref)) == 1


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), (None, {}), ("1", 1)])
@every_store
def test_values_that_python_confuses_are_changes(opener: Opener, tmp_path: Path, old: object, new: object) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            made = await store.create(model("iris", value=old), "ann")
            changed = await store.update(replace(made, spec={"value": new}), "ann")
            assert changed.meta.generation == 2
            assert type(changed.spec["value"]) is type(new)

    asyncio.run(body())


@on_every_store
async def test_every_acknowledged_increment_counts(store: Store) -> None:
    """Many read-change-write loops on one object: compare-and-set loses none of them."""
    made = await store.create(replace(model("iris"), status={"n": 0}), "ann")

    async def increment() -> None:
        while True:
            now = await store.get(made.ref)
            try:
                await store.update_status(replace(now, status={"n": now.status["n"] + 1}), "ann", decision="counted")
            except Conflict:
                continue
            return

    async def worker() -> None:
        for _ in range(10):
            await increment()

    await asyncio.gather(*(worker() for _ in range(20)))
    assert (await store.get(made.ref)).status == {"n": 200}
    assert [revision.after for revision in (await store.history(made.ref))[1:]] == [{"n": n + 1} for n in range(200)]


@on_every_store
async def test_refused_writes_leave_their_neighbours_alone(store: Store) -> None:
    """Good and bad writes at the same moment: the good ones are all there, without a hole in the versions."""
    await store.create(model("taken"), "ann")
    names = [f"m{i}" if i % 3 else "taken" for i in range(60)]
    results = await asyncio.gather(*(store.create(model(name), "ann") for name in names), return_exceptions=True)
    made = [result for result in results if isinstance(result, Resource)]
    assert len(made) == 40
    assert all(isinstance(result, AlreadyExists) for result in results if not isinstance(result, Resource))
    assert sorted(int(one.meta.resource_version) for one in made) == list(range(2, 42))
    assert len((await store.list("Model")).items) == 41


@on_every_store
async def test_a_read_after_a_write_sees_it(store: Store) -> None:
    made = await store.create(model("iris", n=0), "ann")
    for n in range(1, 30):
        made = await store.update(replace(made, spec={"n": n}), "ann")
        assert await store.get(made.ref) == made
        assert (await store.list("Model")).items == (made,)

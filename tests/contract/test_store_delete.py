"""What every store promises about the end: of objects with and without finalizers, and of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import Conflict, NotFound, Unavailable
from mizzen.stores.store import Store
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, with_meta


@on_every_store
async def test_without_finalizers_an_object_is_gone_at_once(store: Store) -> None:
    made = await store.create(model("iris"), "ann")
    assert await store.delete(made.ref, "bob", uid=made.meta.uid) is None
    with pytest.raises(NotFound):
        await store.get(made.ref)


@on_every_store
async def test_finalizers_hold_an_object_until_the_last_is_taken_off(store: Store) -> None:
    made = await store.create(with_meta(model("iris"), finalizers=("a/1", "b/2")), "ann")
    marked = await store.delete(made.ref, "bob")
    assert marked is not None
    assert marked.deleting
    assert marked.meta.resource_version == "2"
    assert marked.meta.generation == 1
    assert await store.delete(made.ref, "bob") == marked, "idempotent while marked"

    reported = await store.update_status(replace(marked, status={"still": "here"}), "ann")
    held = await store.update(with_meta(reported, finalizers=("b/2",)), "ann")
    assert held.deleting
    assert await store.get(made.ref) == held

    last = await store.update(with_meta(held, finalizers=()), "ann")
    assert last.meta.resource_version == "5"
    with pytest.raises(NotFound):
        await store.get(made.ref)


@on_every_store
async def test_a_marked_object_takes_no_new_finalizers(store: Store) -> None:
    made = await store.create(with_meta(model("iris"), finalizers=("a/1",)), "ann")
    marked = await store.delete(made.ref, "bob")
    assert marked is not None
    with pytest.raises(Conflict):
        await store.update(with_meta(marked, finalizers=("a/1", "b/2")), "ann")
    with pytest.raises(Conflict):
        await store.update(with_meta(marked, finalizers=("b/2",)), "ann")
    assert await store.get(made.ref) == marked


@on_every_store
async def test_a_name_can_be_used_again_and_versions_go_on(store: Store) -> None:
    first = await store.create(model("iris"), "ann")
    await store.delete(first.ref, "ann")
    second = await store.create(model("iris"), "ann")
    assert second.meta.uid != first.meta.uid
    assert (second.meta.resource_version, second.meta.generation) == ("3", 1)


@every_store
def test_versions_go_on_after_a_restart_and_compaction(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=1) as store:
            for name in "abc":
                made = await store.create(model(name), "ann")
                await store.delete(made.ref, "ann")
        async with opened(opener, tmp_path, keep_events=1) as store:
            assert (await store.list("Model")).resource_version == "6"
            assert (await store.create(model("d"), "ann")).meta.resource_version == "7"

    asyncio.run(body())


@every_store
def test_a_closed_store_refuses(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        store = await opener(tmp_path)
        made = await store.create(model("iris"), "ann")
        await store.close()
        await store.close()
        with pytest.raises(Unavailable):
            await store.get(made.ref)
        with pytest.raises(Unavailable):
            await store.list("Model")
        with pytest.raises(Unavailable):
            await store.create(model("other"), "ann")

    asyncio.run(body())


@every_store
def test_closing_finishes_what_was_asked_for(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        store = await opener(tmp_path)
        writes = [asyncio.create_task(store.create(model(f"m{i}"), "ann")) for i in range(50)]
        await asyncio.sleep(0)
        await store.close()
        made = await asyncio.gather(*writes)
        async with opened(opener, tmp_path) as again:
            assert (await again.list("Model")).items == tuple(sorted(made, key=lambda one: one.meta.name))

    asyncio.run(body())

"""What every store promises about guards: asked within the write, and what they refuse leaves no trace."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from mizzen.errors import AlreadyExists, Conflict, Forbidden, NotFound
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores.store import Guard, Present, Store, Where
from tests.contract.stores import model, on_every_store


def refuse(_now: Present) -> None:
    raise Forbidden("not now")


@on_every_store
async def test_a_guard_refuses_a_write_and_leaves_no_trace(store: Store) -> None:
    made = await store.create(model("iris"), "ann")
    for write in (
        store.create(model("rose"), "ann", guard=refuse),
        store.update(replace(made, spec={"a": 1}), "ann", guard=refuse),
        store.update_status(replace(made, status={"a": 1}), "ann", decision="promoted", guard=refuse),
        store.delete(made.ref, "ann", guard=refuse),
    ):
        with pytest.raises(Forbidden):
            await write
    listing = await store.list("Model")
    assert (listing.items, listing.resource_version) == ((made,), made.meta.resource_version)
    assert len((await store.list("Revision")).items) == 1


@on_every_store
async def test_a_guard_can_be_asked_about_a_snapshot(store: Store) -> None:
    iris = Ref("Model", "iris")
    async with store.snapshot() as before:
        made = await store.create(model("iris"), "ann")
        with pytest.raises(NotFound):
            await before.check(lambda now: _same(now.get(iris), made))
    async with store.snapshot() as after:
        await after.check(lambda now: _same(now.get(iris), made))


def _same(one: Resource, other: Resource) -> None:
    assert one == other


@on_every_store
async def test_a_guard_is_asked_last_and_only_of_a_change(store: Store) -> None:
    iris = model("iris")
    made = await store.create(replace(iris, meta=replace(iris.meta, finalizers=("a/1",))), "ann")
    assert await store.update_status(made, "ann", guard=refuse) == made
    assert await store.update(made, "ann", guard=refuse) == made
    marked = await store.delete(made.ref, "ann")
    assert await store.delete(made.ref, "ann", guard=refuse) == marked
    with pytest.raises(AlreadyExists):
        await store.create(model("iris"), "ann", guard=refuse)
    with pytest.raises(Conflict):
        await store.update_status(replace(made, status={"a": 1}), "ann", guard=refuse)
    with pytest.raises(Conflict):
        await store.update(replace(made, spec={"a": 1}), "ann", guard=refuse)
    with pytest.raises(NotFound):
        await store.delete(Ref("Model", "rose"), "ann", guard=refuse)


@on_every_store
async def test_a_guard_sees_the_store_as_its_write_finds_it(store: Store) -> None:
    """Of many pairs at once, each wanting to be without the other, exactly one of each is made."""

    def without(name: str) -> Guard:
        def guard(now: Present) -> None:
            if name in {item.meta.name for item in now.list("Model", Where(namespace="default"))}:
                raise Conflict(f"{name} is there")
            with pytest.raises(NotFound):
                now.get(Ref("Model", name))

        return guard

    pairs = [(f"{one}{i}", f"{other}{i}") for i in range(25) for one, other in ("ab", "ba")]
    done = await asyncio.gather(
        *(store.create(model(name), "ann", guard=without(other)) for name, other in pairs), return_exceptions=True
    )
    assert Counter(type(result) for result in done) == {Resource: 25, Conflict: 25}
    assert len({item.meta.name[1:] for item in (await store.list("Model")).items}) == 25

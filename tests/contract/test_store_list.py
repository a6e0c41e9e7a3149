"""What every store promises about listings: ordered, filtered, in pages."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import BadRequest, Expired
from mizzen.kinds.schema.resource import OwnerReference, Ref, Resource
from mizzen.kinds.text.selectors import equal
from mizzen.stores.store import Store, Where
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, with_meta


@on_every_store
async def test_a_listing_is_ordered_and_filtered(store: Store) -> None:
    owner = await store.create(model("owner"), "ann")
    for namespace, name, label in (("b", "x", "1"), ("a", "z", "1"), ("a", "y", "2"), ("b", "a", "1")):
        child = with_meta(model(name, namespace), labels={"l": label, "n": name}, owners=(owner.as_owner,))
        await store.create(replace(child, kind="Workload"), "ann")

    async def names(where: Where) -> list[str]:
        listing = await store.list("Workload", where)
        assert (listing.resource_version, listing.next) == ("5", None)
        return [f"{item.meta.namespace}/{item.meta.name}" for item in listing.items]

    assert await names(Where()) == ["a/y", "a/z", "b/a", "b/x"]
    assert await names(Where(namespace="b")) == ["b/a", "b/x"]
    assert await names(Where(labels=equal({"l": "1"}))) == ["a/z", "b/a", "b/x"]
    assert await names(Where(labels=equal({"l": "1", "n": "x"}))) == ["b/x"]
    assert await names(Where(labels=equal({"none": ""}))) == []
    assert await names(Where(owner=owner.meta.uid)) == ["a/y", "a/z", "b/a", "b/x"]
    assert await names(Where(namespace="a", owner=owner.meta.uid, labels=equal({"l": "2"}))) == ["a/y"]
    assert await names(Where(owner="nobody")) == []


@on_every_store
async def test_owners_are_followed_through_updates_and_deletion(store: Store) -> None:
    one, two = OwnerReference("Model", "one", "uid-1"), OwnerReference("Model", "two", "uid-2")

    async def owned(uid: str) -> int:
        return len((await store.list("Model", Where(owner=uid))).items)

    made = await store.create(with_meta(model("child"), owners=(one, one)), "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (1, 0)
    made = await store.update(with_meta(made, owners=(two,)), "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (0, 1)
    await store.delete(made.ref, "ann")
    assert (await owned("uid-1"), await owned("uid-2")) == (0, 0)
    await store.create(with_meta(model("child"), owners=(two,)), "ann")
    assert await owned("uid-2") == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@every_store
def test_pages_together_are_the_whole(opener: Opener, tmp_path: Path, limit: int) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            for i in range(7):
                labels = {"even": str(i % 2 == 0)}
                await store.create(with_meta(model(f"m{i}", f"ns{i % 3}"), labels=labels), "ann")
            for where in (Where(), Where(namespace="ns0"), Where(labels=equal({"even": "True"}))):
                whole = (await store.list("Model", where)).items
                pages: list[Resource] = []
                after: str | None = None
                while True:
                    listing = await store.list("Model", where, limit=limit, after=after)
                    assert 0 < len(listing.items) <= limit
                    pages += listing.items
                    after = listing.next
                    if after is None:
                        break
                    assert set(after) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
                assert tuple(pages) == whole

    asyncio.run(body())


@on_every_store
async def test_pages_neither_skip_nor_repeat_while_others_write(store: Store) -> None:
    for i in range(10):
        await store.create(model(f"m{i}"), "ann")
    seen: Counter[str] = Counter()
    page = await store.list("Model", limit=3)
    first_version = page.resource_version
    while True:
        seen.update(item.meta.name for item in page.items)
        last = page.items[-1].meta.name
        await store.delete(Ref("Model", last), "ann")  # the very place the token stands at
        await store.create(model(f"a-{last}"), "ann")
        if page.next is None:
            break
        page = await store.list("Model", limit=3, after=page.next)
        assert page.resource_version == first_version, "a watch from any page must show what changed in between"
    assert all(seen[f"m{i}"] == 1 for i in range(10))


@on_every_store
async def test_a_token_that_is_none_is_refused(store: Store) -> None:
    for name in "ab":
        await store.create(model(name), "ann")
        await store.create(replace(model(name), kind="Workload"), "ann")
    good = (await store.list("Model", limit=1)).next
    assert good is not None
    for garbage in ("", "x", "!!!", "é", "bm9uc2Vuc2U", good[:-4], "e30", "W10"):
        with pytest.raises(BadRequest):
            await store.list("Model", limit=1, after=garbage)
    with pytest.raises(BadRequest):
        await store.list("Workload", limit=1, after=good)
    with pytest.raises(BadRequest):
        await store.list("Model", Where(namespace="other"), limit=1, after=good)
    with pytest.raises(BadRequest):
        await store.list("Model", limit=0)


@every_store
def test_a_token_from_before_the_horizon_is_expired(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=3) as store:
            for name in "abc":
                await store.create(model(name), "ann")
            token = (await store.list("Model", limit=1)).next
            for name in "def":
                await store.create(model(name), "ann")
            assert len((await store.list("Model", after=token)).items) == 5
            await store.create(model("g"), "ann")
            with pytest.raises(Expired):
                await store.list("Model", after=token)

    asyncio.run(body())

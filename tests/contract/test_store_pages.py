"""Pages end at a number of bytes as well as of objects: nothing is left out, and nothing comes twice."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from contextlib import AsyncExitStack, aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.all_pages import each, whole
from mizzen.stores.pages import PAGE_BYTES, Unread, fill_page
from mizzen.stores.store import Event, Reads, Store, Where
from tests.contract.stores import OPENERS, Opener, every_store, on_every_store, opened, take, watching

MB = 1 << 20
SIZES = st.lists(st.sampled_from([10, MB, 3 * MB, PAGE_BYTES + 1]), max_size=4)
LIMITS = st.none() | st.integers(1, 7)


def version(name: str, size: int) -> Resource:
    return Resource("ModelVersion", Meta(name), {"modelName": "iris", "notes": "x" * size})


@given(st.lists(st.integers(0, 30)), LIMITS, st.integers(1, 40))
def test_a_page_holds_what_fits_and_one_in_any_case(sizes: list[int], limit: int | None, most: int) -> None:
    decoded: list[int] = []

    def decode(index: int) -> int:
        decoded.append(index)
        return index

    left = list(enumerate(sizes))
    while left:
        decoded.clear()
        page, more = fill_page((Unread(size, partial(decode, index)) for index, size in left), limit, most)
        assert page == [index for index, _ in left[: len(page)]]
        assert decoded == page, "what is not on the page is not decoded"
        assert page
        assert len(page) <= (limit or len(sizes))
        assert len(page) == 1 or sum(sizes[index] for index in page) <= most
        left = left[len(page) :]
        assert more == bool(left)
        if more and len(page) != limit:
            assert sum(sizes[index] for index in page) + left[0][1] > most, "it would have fitted"
    assert fill_page([], limit, most) == ([], False)


async def walked(store: Store, kind: str, limit: int | None) -> list[Resource]:
    found: list[Resource] = []
    after: str | None = None
    for pages in count(1):
        page = await store.list(kind, limit=limit, after=after)
        assert len(page.items) == 1 or sum(map(size_of, page.items)) <= PAGE_BYTES
        assert page.items or (pages == 1 and page.next is None)
        found += page.items
        after = page.next
        if after is None:
            break
    return found


def size_of(resource: Resource) -> int:
    return len(resource.spec["notes"] if resource.kind == "ModelVersion" else resource.spec["after"]["notes"])


@settings(max_examples=8, deadline=None)
@given(SIZES, LIMITS)
def test_all_pages_together_are_all_objects_in_order(sizes: list[int], limit: int | None) -> None:
    async def body(opener: Opener, folder: Path) -> None:
        async with opened(opener, folder) as store:
            for index, size in enumerate(sizes):
                await store.create(version(f"iris.{index}", size), "ann")
            names = [f"iris.{index}" for index in range(len(sizes))]
            assert [one.meta.name for one in await walked(store, "ModelVersion", limit)] == names
            assert [one.spec["name"] for one in await walked(store, "Revision", limit)] == names
            assert [one.meta.name for one in await whole(store, "ModelVersion")] == names
            async with store.snapshot() as moment:
                assert [one.meta.name async for one in each(moment, "ModelVersion", limit=limit)] == names
            told: list[str] = []
            after: str | None = None
            while not told or after is not None:
                entries, after = await store.family_history(Ref("Model", "iris"), limit=limit, after=after)
                assert len(entries) <= 1 or sum(len((one.after or {})["notes"]) for one in entries) <= PAGE_BYTES
                told += [one.ref.name for one in entries]
                if not sizes:
                    break
            assert told == names
            for kind in (None, "ModelVersion", "Revision"):
                async with aclosing(watching(store, kind, "0")) as events:
                    seen = [one.resource.meta.resource_version for one in await take(events, len(names))]
                assert seen == [str(index + 1) for index in range(len(sizes))]

    for opener in OPENERS.values():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(body(opener, Path(folder)))


@on_every_store
async def test_of_large_ones_fewer_are_told_as_newest(store: Store) -> None:
    for index in range(6):
        await store.create(version(f"iris.{index}", MB), "ann")
    found: list[str] = []
    iris = Ref("Model", "iris")
    async with store.snapshot() as moment:
        await moment.check(lambda now: found.extend(one.meta.name for one in now.newest("ModelVersion", iris, 5)))
    assert found == ["iris.5", "iris.4", "iris.3"]


@on_every_store
async def test_a_guard_sees_all_of_them(store: Store) -> None:
    for index in range(6):
        await store.create(version(f"iris.{index}", MB), "ann")
    async with store.snapshot() as moment:
        found: list[int] = []
        await moment.check(lambda now: found.append(len(now.list("ModelVersion", Where(namespace="default")))))
    assert found == [6]


@on_every_store
async def test_which_of_some_objects_there_are(store: Store) -> None:
    await store.create(version("iris.1", MB), "ann")
    there, revision = Ref("ModelVersion", "iris.1"), Ref("Revision", "modelversion.iris.1.1")
    absent = {Ref("ModelVersion", "iris.2"), Ref("Model", "iris.1"), Ref("ModelVersion", "iris.1", "other")}
    async with store.snapshot() as moment:
        for reads in (cast(Reads, store), moment):
            assert await reads.among([there, *absent, there, revision]) == {there, revision}
            assert await reads.among(()) == frozenset()


@every_store
def test_large_changes_are_not_kept_for_those_who_are_slow_to_take_them(opener: Opener, tmp_path: Path) -> None:
    def held() -> int:
        gc.collect()
        return sum(one.size for one in gc.get_objects() if isinstance(one, Event))

    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            before = held()
            for index in range(20):
                await store.create(version(f"iris.{index}", MB // 2), "ann")
            shared = held() - before
            assert shared <= 5 * MB
            async with AsyncExitStack() as opened_watches:
                for kind in (None, "ModelVersion", "Revision") * 3:
                    events = await opened_watches.enter_async_context(aclosing(watching(store, kind, "0")))
                    await take(events, 1)
                assert held() - before - shared <= 9 * MB

    asyncio.run(body())

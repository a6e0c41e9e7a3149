"""What every store promises about watching: in order, without gaps, resumable, and never without bound."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import BadRequest, Expired
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.store import Event, Store, Traits
from tests.contract.stores import Opener, every_store, model, on_every_store, opened, take, version, watching


def told(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.type, event.resource.meta.name, event.resource.meta.resource_version) for event in events]


@on_every_store
async def test_a_watch_tells_a_whole_life(store: Store) -> None:
    made = await store.create(replace(model("iris"), meta=replace(model("iris").meta, finalizers=("a/1",))), "ann")
    changed = await store.update(replace(made, spec={"n": 1}), "ann")
    reported = await store.update_status(replace(changed, status={"s": 1}), "ann")
    marked = await store.delete(made.ref, "ann")
    assert marked is not None
    last = await store.update(replace(marked, meta=replace(marked.meta, finalizers=())), "ann")
    await store.create(model("plain"), "ann")
    await store.delete(model("plain").ref, "ann")
    async with aclosing(watching(store, "Model", "0")) as watch:
        events = await take(watch, 7)
    assert [event.type for event in events] == [
        "ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED", "ADDED", "DELETED",
    ]  # fmt: skip
    assert [event.resource for event in events[:5]] == [made, changed, reported, marked, last]
    assert told(events[5:]) == [("ADDED", "plain", "6"), ("DELETED", "plain", "7")]


@every_store
def test_a_change_tells_what_selectors_saw_before_it(opener: Opener, tmp_path: Path) -> None:
    """Only when they see something else now; also of one that is deleted, and after a restart."""
    expected = [
        ("ADDED", None),
        ("MODIFIED", Traits({"tier": "gold"}, {})),
        ("MODIFIED", None),
        ("MODIFIED", Traits({"tier": "lead"}, {"spec.aliasOf": "a", catalog.ALIASED_MODEL: "a"})),
        ("MODIFIED", None),
        ("DELETED", Traits({"tier": "lead"}, {})),
    ]

    def meta(**labels: str) -> Meta:
        return Meta("iris", labels=labels, finalizers=("a/1",))

    async def body() -> None:
        async with opened(opener, tmp_path) as store, aclosing(watching(store, "Model", "0")) as watch:
            first = asyncio.create_task(take(watch, 6))
            made = await store.create(Resource("Model", meta(tier="gold")), "ann")
            await store.update(Resource("Model", meta(tier="lead"), {"aliasOf": "a"}), "ann")
            await store.update_status(Resource("Model", meta(), {}, {"s": 1}), "ann")
            await store.update(Resource("Model", meta(tier="lead"), {}), "ann")
            await store.delete(made.ref, "ann")
            await store.update(Resource("Model", Meta("iris", labels={"tier": "tin"})), "ann")
            assert [(event.type, event.before) for event in await first] == expected
        async with opened(opener, tmp_path) as store, aclosing(watching(store, "Model", "0")) as watch:
            assert [(event.type, event.before) for event in await take(watch, 6)] == expected

    asyncio.run(body())


@on_every_store
async def test_a_waiting_watch_is_woken(store: Store) -> None:
    async with aclosing(watching(store, "Model", "0")) as watch:
        for i in range(5):
            waiting = asyncio.create_task(take(watch, 1))
            await asyncio.sleep(0.01)
            await store.create(model(f"m{i}"), "ann")
            assert told(await waiting) == [("ADDED", f"m{i}", str(i + 1))]


@on_every_store
async def test_a_watch_sees_its_kind_only(store: Store) -> None:
    for i in range(10):
        await store.create(replace(model(f"m{i}"), kind="Model" if i % 2 else "Workload"), "ann")
    async with aclosing(watching(store, "Workload", "0")) as some, aclosing(watching(store, None, "0")) as all_:
        assert [name for _, name, _ in told(await take(some, 5))] == ["m0", "m2", "m4", "m6", "m8"]
        assert len(await take(all_, 10)) == 10


@pytest.mark.parametrize("count", [30, 700])
@every_store
def test_resuming_from_any_point_gives_the_same_rest(opener: Opener, tmp_path: Path, count: int) -> None:
    """Also over several pages, from the table and from what is kept in memory, before and after a restart."""

    async def rests(store: Store, whole: list[Event]) -> None:
        for since in range(0, count, max(1, count // 20)):
            async with aclosing(watching(store, None, str(since))) as watch:
                assert await take(watch, count - since) == whole[since:]

    async def body() -> None:
        async with opened(opener, tmp_path) as store:
            await asyncio.gather(*(store.create(model(f"m{i}"), "ann") for i in range(count)))
            async with aclosing(watching(store, None, "0")) as watch:
                whole = await take(watch, count)
            assert [event.resource.meta.resource_version for event in whole] == [str(i + 1) for i in range(count)]
            await rests(store, whole)
        async with opened(opener, tmp_path) as store:
            await rests(store, whole)

    asyncio.run(body())


@on_every_store
async def test_list_then_watch_misses_nothing(store: Store) -> None:
    """Whatever is written around the list, the listing and the watch from it add up to the present state."""

    async def write() -> None:
        for i in range(60):
            await store.create(model(f"m{i}"), "ann")

    async def follow() -> set[str]:
        listing = await store.list("Model")
        names = {item.meta.name for item in listing.items}
        async with aclosing(watching(store, "Model", listing.resource_version)) as watch:
            for event in await take(watch, 60 - len(names)):
                assert event.resource.meta.name not in names
                names.add(event.resource.meta.name)
        return names

    writing = asyncio.create_task(write())
    followers: list[asyncio.Task[set[str]]] = []
    while not writing.done():
        if len(followers) < 20:
            followers.append(asyncio.create_task(follow()))
        await asyncio.sleep(0.002)
    for names in await asyncio.gather(*followers):
        assert names == {f"m{i}" for i in range(60)}


@on_every_store
async def test_fifty_watchers_see_everything(store: Store) -> None:
    async def follow() -> list[tuple[str, str, str]]:
        async with aclosing(watching(store, "Model", "0")) as watch:
            return told(await take(watch, 200))

    watchers = [asyncio.create_task(follow()) for _ in range(50)]
    for start in range(0, 200, 20):
        await asyncio.gather(*(store.create(model(f"m{start + i}"), "ann") for i in range(20)))
    seen = await asyncio.gather(*watchers)
    assert [version for _, _, version in seen[0]] == [str(i + 1) for i in range(200)]
    assert all(one == seen[0] for one in seen)


@every_store
def test_a_version_that_is_not_kept_is_expired(opener: Opener, tmp_path: Path) -> None:
    async def check(store: Store, *, kept: int) -> None:
        for since in ("0", "4"):
            with pytest.raises(Expired):
                await anext(store.watch("Model", since))
        async with aclosing(watching(store, "Model", "5")) as watch:
            assert len(await take(watch, kept)) == kept
        with pytest.raises(Expired):  # from another life of this store
            await anext(store.watch("Model", str(5 + kept + 1)))

    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=5) as store:
            for i in range(10):
                await store.create(model(f"m{i}"), "ann")
            await check(store, kept=5)
        async with opened(opener, tmp_path, keep_events=500) as store:  # more is kept from now on, not from before
            await check(store, kept=5)
            await store.create(model("one-more"), "ann")
            await check(store, kept=6)

    asyncio.run(body())


@on_every_store
async def test_a_version_that_is_none_is_refused(store: Store) -> None:
    for garbage in ("", "x", "-1", "1.5", " 1", "²", "9" * 5000):
        with pytest.raises(BadRequest):
            await anext(store.watch("Model", garbage))


@every_store
def test_a_slow_watcher_is_expired_and_never_skips(opener: Opener, tmp_path: Path) -> None:
    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=10) as store:
            await store.create(model("first"), "ann")
            watch = store.watch("Model", "0")
            seen = told(await take(watch, 1))
            for i in range(40):
                await store.create(model(f"m{i}"), "ann")
            with pytest.raises(Expired):  # noqa: PT012 - how many it still gets is not promised
                while True:
                    seen += told(await take(watch, 1))
            assert [version for _, _, version in seen] == [str(i + 1) for i in range(len(seen))]

    asyncio.run(body())


@every_store
def test_a_watcher_that_missed_nothing_is_not_expired(opener: Opener, tmp_path: Path) -> None:
    """However much happens to other kinds while it waits or is busy."""

    async def body() -> None:
        async with opened(opener, tmp_path, keep_events=5) as store:
            waiting = store.watch("Model", "0")
            next_event = asyncio.create_task(take(waiting, 1))
            for i in range(20):
                await store.create(replace(model(f"w{i}"), kind="Workload"), "ann")
            await store.create(model("iris"), "ann")
            assert told(await next_event) == [("ADDED", "iris", "21")]
            for i in range(20, 40):
                await store.create(replace(model(f"w{i}"), kind="Workload"), "ann")
            await store.create(model("rose"), "ann")
            with pytest.raises(Expired):  # iris to rose is more than is kept, and it was not waiting
                await take(waiting, 1)

    asyncio.run(body())


@on_every_store
async def test_cancelling_or_closing_a_watch_leaves_the_others(store: Store) -> None:
    cancelled = asyncio.create_task(take(store.watch("Model", "0"), 1))
    closed = watching(store, "Model", "0")
    kept = asyncio.create_task(take(store.watch("Model", "0"), 2))
    await asyncio.sleep(0.01)
    cancelled.cancel()
    await store.create(model("a"), "ann")
    assert len(await take(closed, 1)) == 1
    await closed.aclose()
    await store.create(model("b"), "ann")
    assert len(await kept) == 2
    assert isinstance((await asyncio.gather(cancelled, return_exceptions=True))[0], asyncio.CancelledError)
    with pytest.raises(StopAsyncIteration):
        await anext(closed)


@every_store
def test_closing_the_store_ends_every_watch(opener: Opener, tmp_path: Path) -> None:
    async def follow(store: Store, since: str, seen: list[Event]) -> None:
        async for event in store.watch("Model", since):
            seen.append(event)  # noqa: PERF401 - what has come so far is looked at

    async def body() -> None:
        store = await opener(tmp_path)
        await store.create(model("iris"), "ann")
        unread = store.watch("Model", "0")
        await anext(unread)
        seen: list[list[Event]] = [[] for _ in range(10)]
        watchers = [asyncio.create_task(follow(store, str(i % 2), events)) for i, events in enumerate(seen)]
        async with asyncio.timeout(60):
            while sum(map(len, seen)) < 5:  # noqa: ASYNC110 - an event would have to be set by each of them
                await asyncio.sleep(0.01)
            await store.close()
            await asyncio.gather(*watchers)
            assert [len(events) for events in seen] == [1, 0] * 5
            with pytest.raises(StopAsyncIteration):
                await anext(unread)

    asyncio.run(body())


@on_every_store
async def test_a_quiet_watcher_is_told_how_far_it_has_missed_nothing(store: Store) -> None:
    async with aclosing(watching(store, "Model", "0", quiet=0.01)) as events:
        first = await anext(events)
        assert (first.type, first.resource.meta.resource_version) == ("BOOKMARK", "0")
        for number in range(3):
            await store.create(version("m", str(number)), "ann")
        while (bookmark := await anext(events)).resource.meta.resource_version != "3":
            assert bookmark.type == "BOOKMARK"
        await store.create(model("iris"), "ann")
        while (event := await anext(events)).type == "BOOKMARK":
            assert event.resource.meta.resource_version == "3"
        assert (event.type, event.resource.meta.name) == ("ADDED", "iris")
    async with aclosing(watching(store, "Model", bookmark.resource.meta.resource_version)) as events:
        assert (await anext(events)).resource.meta.name == "iris"


@on_every_store
async def test_a_bookmark_never_passes_a_change(store: Store) -> None:
    """Whoever resumes at any bookmark gets all that came after it, and nothing twice."""

    async def write() -> None:
        for number in range(60):
            await store.create(model(f"m{number}"), "ann")
            await asyncio.sleep(0.001 * (number % 3))

    writing = asyncio.create_task(write())
    seen: list[str] = []
    behind: list[int] = []
    async with aclosing(watching(store, "Model", "0", quiet=0.001)) as events:
        while len(seen) < 60:
            event = await anext(events)
            if event.type == "BOOKMARK":
                behind.append(int(event.resource.meta.resource_version))
            else:
                assert all(mark < int(event.resource.meta.resource_version) for mark in behind)
                seen.append(event.resource.meta.name)
    await writing
    assert seen == [f"m{number}" for number in range(60)]

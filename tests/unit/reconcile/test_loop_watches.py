"""How the loop learns what there is and what changed: pages, watches, gaps in them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import uuid
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.errors import Expired
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.reconcile.loop import Loop
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Event, Listing, Where
from tests.support.reconcile.memory import EVERYTHING, MemoryStore
from tests.unit.reconcile.letters import NOW, Letters, Present, in_virtual_time, model, running


def test_a_watched_object_that_tells_nothing_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters()
        async with running(Loop(store, [letters], now=lambda: NOW)):
            await asyncio.sleep(1)
            await store.create(Resource("ModelVersion", Meta("odd")), "ann")
            await store.create(Resource("ModelVersion", Meta("fine"), spec={"model": "a"}), "ann")
            await asyncio.sleep(1)
        assert len(letters.times("a")) == 1
        assert "ModelVersion/odd" in caplog.text

    in_virtual_time(body)


def test_both_the_key_named_before_and_the_one_named_now_are_woken() -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters()
        async with running(Loop(store, [letters], now=lambda: NOW)):
            await asyncio.sleep(1)
            named = await store.create(Resource("ModelVersion", Meta("v"), spec={"model": "a"}), "ann")
            await asyncio.sleep(1)
            await store.update(replace(named, spec={"model": "b"}), "ann")
            await asyncio.sleep(1)
        assert (len(letters.times("a")), len(letters.times("b"))) == (2, 1)

    in_virtual_time(body)


def test_what_was_deleted_behind_an_expired_watch_is_noticed() -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters()
        await store.create(model("a", "x"), "ann")
        async with running(Loop(store, [letters], now=lambda: NOW)):
            await asyncio.sleep(1)
            work = await store.get(Ref("Workload", "a.x"))
            looks = len(letters.looks)
            # Removed behind the machine's back, as if the event had been compacted away.
            del store.objects[work.ref]
            store.expire()
            await asyncio.sleep(1)
            assert len(letters.looks) > looks
            assert (await store.get(work.ref)).meta.uid != work.meta.uid

    in_virtual_time(body)


def test_of_what_matters_by_its_presence_no_status_wakes_anybody() -> None:
    async def body() -> None:
        store, present = MemoryStore(), Present()
        await store.create(model("a", ""), "ann")
        ref = Ref("ModelVersion", "v")

        async def looks(change: Awaitable[object]) -> int:
            before = len(present.looks)
            await change
            await asyncio.sleep(1)
            return len(present.looks) - before

        async with running(Loop(store, [present], now=lambda: NOW)):
            await asyncio.sleep(1)
            meta = Meta("v", finalizers=("stay",))
            assert await looks(store.create(Resource("ModelVersion", meta, spec={"model": "a"}), "ann")) == 1
            stored = await store.get(ref)
            assert await looks(store.update_status(replace(stored, status={"seen": True}), "ann")) == 0
            stored = await store.get(ref)
            assert await looks(store.update(replace(stored, spec={"model": "a", "trusted": True}), "ann")) == 1
            assert await looks(store.delete(ref, "ann")) == 1
            stored = await store.get(ref)
            assert await looks(store.update(replace(stored, meta=replace(stored.meta, finalizers=())), "ann")) == 1

    in_virtual_time(body)


def test_presence_is_told_after_a_gap_too() -> None:
    async def body() -> None:
        store, present = MemoryStore(), Present()
        await store.create(model("a", ""), "ann")
        gone = await store.create(Resource("ModelVersion", Meta("v"), spec={"model": "a"}), "ann")
        async with running(Loop(store, [present], now=lambda: NOW)):
            await asyncio.sleep(1)
            looks = len(present.looks)
            del store.objects[gone.ref]
            store.expire()
            await asyncio.sleep(1)
            assert len(present.looks) > looks

    in_virtual_time(body)


class PagedStore(MemoryStore):
    """Counts what lists return, and cuts off a listing that goes on for too long."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.too_old = 0

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        if after is not None and self.too_old:
            self.too_old -= 1
            raise Expired("too old to go on from")
        page = await super().list(kind, where, limit=limit, after=after)
        self.largest = max(self.largest, len(page.items))
        return page


@pytest.mark.parametrize("too_old", [0, 2])
def test_objects_are_read_in_pages_and_none_is_left_out(monkeypatch: pytest.MonkeyPatch, too_old: int) -> None:
    monkeypatch.setattr("mizzen.reconcile.loop.PAGE", 3)

    async def body() -> None:
        store, present = PagedStore(), Present()
        names = [f"m{number:02}" for number in range(20)]
        for name in names:
            await store.create(model(name, ""), "ann")
        store.too_old = too_old
        async with running(Loop(store, [present], now=lambda: NOW)):
            await asyncio.sleep(1)
            assert {name for _, name in present.looks} == set(names)
            assert too_old or len(present.looks) == len(names), "each of them once"
            assert store.largest == (20 if too_old else 3)

    in_virtual_time(body)


def test_no_object_is_kept(tmp_path: Path) -> None:
    """Over the real store, opened anew: its own memory of late changes is empty then."""

    def objects() -> int:
        gc.collect()
        return sum(type(one) is Resource for one in gc.get_objects())

    async def main() -> None:
        async with opened(tmp_path) as store:
            versions = [Resource("ModelVersion", Meta(f"v{n}"), spec={"model": f"m{n}"}) for n in range(300)]
            models = [model(f"m{n}", "") for n in range(300)]
            await asyncio.gather(*(store.create(resource, "ann") for resource in (*models, *versions)))
            del models, versions
        async with opened(tmp_path) as store:
            before = objects()
            present = Present()
            async with running(Loop(store, [present], now=lambda: NOW)):
                async with asyncio.timeout(60):
                    while len(present.looks) < 300:  # noqa: ASYNC110 - nobody tells how many there were
                        await asyncio.sleep(0.005)
                    # Those in the hands of workers, at most.
                    while objects() > before + 8:  # noqa: ASYNC110
                        await asyncio.sleep(0.005)

    asyncio.run(main())


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(folder / "mizzen.db", clock=lambda: NOW, new_id=lambda: uuid.uuid4().hex)
    try:
        yield store
    finally:
        await store.close()


class EndingStore(MemoryStore):
    async def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncIterator[Event]:
        await asyncio.sleep(1)
        for event in self.events[self.version :]:
            yield event


def test_a_watch_that_ends_by_itself_ends_the_loop_loudly() -> None:
    async def body() -> None:
        with pytest.raises(ExceptionGroup) as raised:
            await Loop(EndingStore(), [Letters()], now=lambda: NOW).run()
        assert raised.group_contains(RuntimeError, match="ended by itself")

    in_virtual_time(body)

"""The loop with a toy controller: a Model wants one Workload per letter of `spec.letters`. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mizzen.errors import Expired, Unavailable
from mizzen.kinds.meta import CHILDREN_FINALIZER, Meta, Ref, Resource
from mizzen.reconcile.controller import Decision, Presence, find, owners
from mizzen.reconcile.loop import Loop
from mizzen.stores.sqlite import SqliteStore
from mizzen.stores.store import Event, Listing, Store, Where
from tests.unit.reconcile import virtual
from tests.unit.reconcile.memory import EVERYTHING, MemoryStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG = 1000.0


@dataclass(frozen=True, slots=True)
class LetterFacts:
    resource: Resource
    children: tuple[Resource, ...]


class Letters:
    kind = "Model"
    watches: tuple[str | Presence, ...] = ("Workload", "ModelVersion")

    def __init__(self, *, again: float | None = None) -> None:
        self.again = again
        self.looks: list[tuple[float, str]] = []
        self.failing: dict[str, Exception] = {}
        self.busy: set[str] = set()

    def keys(self, resource: Resource) -> Iterable[Ref]:
        if resource.kind == "Workload":
            return owners(resource, self.kind)
        return (Ref(self.kind, resource.spec["model"]),)

    async def load(self, store: Store, ref: Ref) -> LetterFacts | None:
        assert ref.name not in self.busy, "one key in two hands"
        self.busy.add(ref.name)
        try:
            self.looks.append((asyncio.get_running_loop().time(), ref.name))
            await asyncio.sleep(0.001)
            if ref.name in self.failing:
                raise self.failing[ref.name]
            resource = await find(store, ref)
            if resource is None:
                return None
            children = await store.list("Workload", Where(owner=resource.meta.uid))
            return LetterFacts(resource, children.items)
        finally:
            self.busy.discard(ref.name)

    def decide(self, facts: LetterFacts, now: datetime) -> Decision:
        name = facts.resource.meta.name
        children = tuple(Resource("Workload", Meta(f"{name}.{letter}")) for letter in facts.resource.spec["letters"])
        return Decision(children=children, again=self.again)

    def times(self, name: str) -> list[float]:
        return [time for time, looked in self.looks if looked == name]


@contextlib.asynccontextmanager
async def running(loop: Loop[Any]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def model(name: str, letters: str) -> Resource:
    return Resource("Model", Meta(name), spec={"letters": letters})


def workloads(store: MemoryStore) -> list[str]:
    return [ref.name for ref, item in sorted(store.objects.items()) if ref.kind == "Workload" and not item.deleting]


def in_virtual_time(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    virtual.run(main())


def test_existing_objects_are_looked_at_and_changes_followed() -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters()
        await store.create(model("a", "xy"), "ann")
        async with running(Loop(store, [letters], now=lambda: NOW)):
            await asyncio.sleep(1)
            assert workloads(store) == ["a.x", "a.y"]
            await store.create(model("b", "z"), "ann")
            stored = await store.get(Ref("Model", "a"))
            await store.update(replace(stored, spec={"letters": "y"}), "ann")
            await asyncio.sleep(1)
            assert workloads(store) == ["a.y", "b.z"]
            settled = store.version
            await asyncio.sleep(LONG)
            assert store.version == settled

    in_virtual_time(body)


class Blind(Letters):
    """Sees no children at the first look, as if they had been created just after it. No event tells it better."""

    watches: tuple[str | Presence, ...] = ()

    async def load(self, store: Store, ref: Ref) -> LetterFacts | None:
        facts = await super().load(store, ref)
        return replace(facts, children=()) if facts and len(self.looks) == 1 else facts


def test_old_facts_are_gathered_again_at_once() -> None:
    async def body() -> None:
        store, blind = MemoryStore(), Blind()
        stored = await store.create(model("a", "xy"), "ann")
        held = replace(stored, meta=replace(stored.meta, finalizers=(CHILDREN_FINALIZER,)))
        owner = await store.update(held, "ann")
        await store.create(Resource("Workload", Meta("a.x", owners=(owner.as_owner,))), "ann")
        loop = Loop(store, [blind], now=lambda: NOW, workers=1)
        async with running(loop):
            await asyncio.sleep(0.04)
            assert workloads(store) == ["a.x", "a.y"]

    in_virtual_time(body)


@pytest.mark.parametrize("error", [Unavailable("the engine is away"), ZeroDivisionError("a bug")])
def test_a_failing_key_backs_off_and_leaves_the_others_alone(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters()
        letters.failing["bad"] = error
        await store.create(model("bad", "x"), "ann")
        await store.create(model("good", "x"), "ann")
        async with running(Loop(store, [letters], now=lambda: NOW, workers=1)):
            await asyncio.sleep(200)
            assert workloads(store) == ["good.x"]
            gaps = [later - earlier for earlier, later in itertools.pairwise(letters.times("bad"))]
            assert gaps[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4], abs=0.01)
            assert gaps[-1] == pytest.approx(30, abs=0.01)
            assert len(caplog.records) == len(letters.times("bad"))
            assert "Model/bad" in caplog.messages[0]
            del letters.failing["bad"]
            await asyncio.sleep(31)
            assert workloads(store) == ["bad.x", "good.x"]

    with caplog.at_level(logging.WARNING):
        in_virtual_time(body)


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


def test_again_and_poke() -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters(again=10)
        await store.create(model("a", ""), "ann")
        loop = Loop(store, [letters], now=lambda: NOW)
        async with running(loop):
            await asyncio.sleep(25)
            assert letters.times("a") == pytest.approx([0, 10, 20], abs=0.1)
            loop.poke(Ref("Model", "a"))
            loop.poke(Ref("Workload", "a"))
            await asyncio.sleep(1)
            assert letters.times("a")[-1] == pytest.approx(25, abs=0.1)
            assert len(letters.looks) == 4

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


class Present(Letters):
    """Of ModelVersions it matters only whether they are there."""

    watches: tuple[str | Presence, ...] = (Presence("ModelVersion"),)

    def decide(self, facts: LetterFacts, now: datetime) -> Decision:
        return Decision()


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


def test_a_change_does_not_wait_for_all_that_is_due_at_the_start() -> None:
    async def body() -> None:
        store, present = MemoryStore(), Present()
        for number in range(100):
            await store.create(model(f"m{number:02}", ""), "ann")
        async with running(Loop(store, [present], now=lambda: NOW, workers=1)):
            await asyncio.sleep(0.02)
            began = len(present.looks)
            assert 0 < began < 90
            await store.create(model("new", ""), "ann")
            await asyncio.sleep(1)
        order = [name for _, name in present.looks]
        assert order.index("new") <= began + 3
        assert len(order) == 101

    in_virtual_time(body)


class Busy(Present):
    """Its looks wait for nothing."""

    async def load(self, store: Store, ref: Ref) -> LetterFacts | None:
        self.looks.append((0.0, ref.name))
        return LetterFacts(Resource("Model", Meta(ref.name)), ())


def test_looks_that_wait_for_nothing_let_others_have_their_turns() -> None:
    async def body() -> None:
        store, busy = MemoryStore(), Busy()
        for number in range(200):
            await store.create(model(f"m{number:03}", ""), "ann")
        seen = [0]
        async with running(Loop(store, [busy], now=lambda: NOW)):
            while seen[-1] < 200:
                await asyncio.sleep(0)
                seen.append(len(busy.looks))
        assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= 4, "one for each worker"

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
                async with asyncio.timeout(30):
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
    async def watch(self, kind: str | None, since: str) -> AsyncIterator[Event]:
        await asyncio.sleep(1)
        for event in self.events[self.version :]:
            yield event


def test_a_watch_that_ends_by_itself_ends_the_loop_loudly() -> None:
    async def body() -> None:
        with pytest.raises(ExceptionGroup) as raised:
            await Loop(EndingStore(), [Letters()], now=lambda: NOW).run()
        assert raised.group_contains(RuntimeError, match="ended by itself")

    in_virtual_time(body)


def test_cancellation_leaves_no_task_behind() -> None:
    async def body() -> None:
        store = MemoryStore()
        await store.create(model("a", "x"), "ann")
        async with running(Loop(store, [Letters(again=0.01)], now=lambda: NOW)):
            await asyncio.sleep(0.0105)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_virtual_time(body)

"""The loop with a toy controller: a Model wants one Workload per letter of `spec.letters`. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mizzen.errors import Unavailable
from mizzen.kinds.meta import CHILDREN_FINALIZER, Meta, Ref, Resource
from mizzen.reconcile.controller import Decision, find, owners
from mizzen.reconcile.loop import Loop
from mizzen.stores.store import Event, Store, Where
from tests.unit.reconcile import virtual
from tests.unit.reconcile.memory import MemoryStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG = 1000.0


@dataclass(frozen=True, slots=True)
class LetterFacts:
    resource: Resource
    children: tuple[Resource, ...]


class Letters:
    kind = "Model"
    watches: tuple[str, ...] = ("Workload", "ModelVersion")

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

    watches: tuple[str, ...] = ()

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

"""The loop with a toy controller: which key is looked at when."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import replace

import pytest

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import CHILDREN_FINALIZER, Meta, Ref, Resource
from mizzen.reconcile.controller import Presence
from mizzen.reconcile.loop import ControllerBacklog, Loop
from mizzen.stores.store import Store
from tests.support.reconcile.memory import MemoryStore
from tests.unit.reconcile.letters import NOW, LetterFacts, Letters, Present, in_virtual_time, model, running, workloads

LONG = 1000.0


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
        loop = Loop(store, [letters], now=lambda: NOW, workers=1)
        async with running(loop):
            await asyncio.sleep(200)
            assert workloads(store) == ["good.x"]
            assert loop.list_backlogs() == [ControllerBacklog("Model", 0, failing=1, errors=len(letters.times("bad")))]
            gaps = [later - earlier for earlier, later in itertools.pairwise(letters.times("bad"))]
            assert gaps[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4], abs=0.01)
            assert gaps[-1] == pytest.approx(30, abs=0.01)
            assert len(caplog.records) == len(letters.times("bad"))
            assert "Model/bad" in caplog.messages[0]
            del letters.failing["bad"]
            await asyncio.sleep(31)
            assert workloads(store) == ["bad.x", "good.x"]
            assert loop.list_backlogs()[0].failing == 0

    with caplog.at_level(logging.WARNING):
        in_virtual_time(body)


def test_again_and_poke() -> None:
    async def body() -> None:
        store, letters = MemoryStore(), Letters(again=10)
        await store.create(model("a", ""), "ann")
        loop = Loop(store, [letters], now=lambda: NOW)
        async with running(loop):
            await asyncio.sleep(25)
            assert letters.times("a") == pytest.approx([0, 10, 20], abs=0.1)
            loop.enqueue(Ref("Model", "a"))
            loop.enqueue(Ref("Workload", "a"))
            await asyncio.sleep(1)
            assert letters.times("a")[-1] == pytest.approx(25, abs=0.1)
            assert len(letters.looks) == 4

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


def test_cancellation_leaves_no_task_behind() -> None:
    async def body() -> None:
        store = MemoryStore()
        await store.create(model("a", "x"), "ann")
        async with running(Loop(store, [Letters(again=0.01)], now=lambda: NOW)):
            await asyncio.sleep(0.0105)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_virtual_time(body)

"""Over the real store, and over the one in memory that other tests rely on."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mizzen.errors import AlreadyExists, NotFound
from mizzen.kinds.model import Current, ModelStatus
from mizzen.kinds.schema.resource import CHILDREN_FINALIZER, ENGINE_FINALIZER, Condition, Meta, Ref, Resource
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.reconcile.apply import apply
from mizzen.reconcile.controller import Decision
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Store, Where
from tests.support.reconcile.memory import MemoryStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OWNER = Ref("InferenceModel", "iris")

Body = Callable[[Store], Awaitable[None]]
Check = Callable[[Body], None]


@dataclass(frozen=True, slots=True)
class Facts:
    resource: Resource
    children: tuple[Resource, ...] = ()


@pytest.fixture(params=["sqlite", "memory"])
def on_store(request: pytest.FixtureRequest, tmp_path: Path) -> Check:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Store]:
        if request.param == "memory":
            yield MemoryStore()
            return
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
        try:
            yield store
        finally:
            await store.close()

    def check(body: Body) -> None:
        async def main() -> None:
            async with opened() as store:
                await body(store)

        asyncio.run(main())

    return check


async def owner(store: Store, ref: Ref = OWNER) -> Resource:
    return await store.create(Resource(ref.kind, Meta(ref.name), spec={"replicas": 1}), "ann")


def child(name: str, **spec: Any) -> Resource:
    return Resource("Workload", Meta(name), spec={"purpose": "serve", "command": ["x"], **spec})


async def facts(store: Store, ref: Ref = OWNER) -> Facts:
    resource = await store.get(ref)
    children = await store.list("Workload", Where(owner=resource.meta.uid))
    return Facts(resource, children.items)


async def settle(store: Store, decision: Decision, now: datetime = NOW) -> None:
    assert await apply(store, await facts(store), decision, now)


async def version(store: Store) -> str:
    return (await store.list("Workload")).resource_version


def test_children_are_created_updated_and_pruned(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        await settle(store, Decision(children=(child("iris.1"), child("iris.2"))))
        found = await facts(store)
        assert [item.meta.name for item in found.children] == ["iris.1", "iris.2"]
        assert all(item.is_owned_by(found.resource) for item in found.children)
        assert all(item.meta.finalizers == (ENGINE_FINALIZER,) for item in found.children)

        labelled = replace(child("iris.1"), meta=Meta("iris.1", labels={"a": "b"}))
        await settle(store, Decision(children=(labelled, child("iris.2", replicas=3))))
        first, second = (await facts(store)).children
        assert (first.meta.labels, first.meta.generation) == ({"a": "b"}, 1)
        assert (second.spec["replicas"], second.meta.generation) == (3, 2)
        assert first.is_owned_by(found.resource)

        await settle(store, Decision(children=(child("iris.2", replicas=3),)))
        first, second = (await facts(store)).children
        assert (first.deleting, second.deleting) == (True, False)

    on_store(body)


def test_an_owner_is_held_before_it_has_children(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        await settle(store, Decision(children=(child("iris.1"),)))
        assert (await store.get(OWNER)).meta.finalizers == (CHILDREN_FINALIZER,)

    on_store(body)


def test_nothing_is_written_when_nothing_changed(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        ready = Condition(type="Ready", status="False", reason="Starting")
        status = InferenceModelStatus(conditions=(ready,), url=None, serving_version=None)
        decision = Decision(children=(child("iris.1"),), status=status)
        await settle(store, decision)
        before = await version(store)
        await settle(store, decision, NOW + timedelta(hours=1))
        assert await version(store) == before

    on_store(body)


def test_a_condition_keeps_its_time_until_its_status_moves(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        for number, (word, reason) in enumerate([("False", "Starting"), ("False", "CrashLoop"), ("True", "Serving")]):
            ready = Condition.model_validate({"type": "Ready", "status": word, "reason": reason})
            status = InferenceModelStatus(conditions=(ready,), url=None, serving_version=None)
            await settle(store, Decision(status=status), NOW + timedelta(minutes=number))
            seen = InferenceModelStatus.of(await store.get(OWNER))
            assert seen.observed_generation == 1
            found = seen.condition("Ready")
            assert found is not None
            assert (found.reason, found.observed_generation) == (reason, 1)
            minute = 0 if word == "False" else 2
            assert found.last_transition_time == f"2026-03-01T00:0{minute}:00.000000Z"

    on_store(body)


def test_a_recorded_decision_is_in_history_with_its_actor(on_store: Check) -> None:
    async def body(store: Store) -> None:
        ref = Ref("Model", "iris")
        await owner(store, ref)
        current = Current(version="1", actor="ann", time="")
        status = ModelStatus(highest_version=3, current=current, previous=None)
        decision = Decision(status=status, decision="promoted", actor="ann")
        assert await apply(store, await facts(store, ref), decision, NOW)
        last = (await store.history(ref))[-1]
        assert (last.action, last.actor) == ("promoted", "ann")
        assert last.after is not None

    on_store(body)


def test_a_deleted_owner_goes_after_its_children(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        wanted = Decision(children=(child("iris.1"),))
        await settle(store, wanted)
        await store.delete(OWNER, "ann")

        await settle(store, wanted)
        found = await facts(store)
        assert [item.deleting for item in found.children] == [True]
        assert found.resource.meta.finalizers == (CHILDREN_FINALIZER,)

        work = found.children[0]
        assert await apply(store, Facts(work), Decision(drop_finalizers=frozenset({ENGINE_FINALIZER})), NOW)
        await settle(store, wanted)
        with pytest.raises(NotFound):
            await store.get(OWNER)

    on_store(body)


def test_an_object_whose_time_is_over_is_told_of_once_more_and_goes_with_its_children(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        await settle(store, Decision(children=(child("a"),)))
        last = InferenceModelStatus(restarts=7)
        await settle(store, Decision(children=(child("a"),), status=last, remove=True))
        left = await store.get(OWNER)
        assert left.deleting
        assert left.status["restarts"] == 7
        await settle(store, Decision())
        workload = await store.get(Ref("Workload", "a"))
        await store.update(replace(workload, meta=replace(workload.meta, finalizers=())), "engine")
        await settle(store, Decision())
        with pytest.raises(NotFound):
            await store.get(OWNER)

    on_store(body)


def test_a_child_being_deleted_is_created_anew_only_when_it_is_gone(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        wanted = Decision(children=(child("iris.1"),))
        await settle(store, wanted)
        [old] = (await facts(store)).children
        await store.delete(old.ref, "ann")
        await settle(store, Decision(children=(child("iris.1", replicas=2),)))
        [going] = (await facts(store)).children
        assert going.deleting
        assert "replicas" not in going.spec

        await apply(store, Facts(going), Decision(drop_finalizers=frozenset({ENGINE_FINALIZER})), NOW)
        await settle(store, wanted)
        [new] = (await facts(store)).children
        assert new.meta.uid != old.meta.uid

    on_store(body)


def test_old_facts_are_a_reason_to_look_again(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        wanted = Decision(children=(child("iris.1"),))
        await settle(store, wanted)
        held = await facts(store)

        blind = Facts(held.resource)
        assert not await apply(store, blind, wanted, NOW), "AlreadyExists, and it is its own"

        await store.update(replace(held.resource, spec={"replicas": 2}), "ann")
        status = InferenceModelStatus(url="u", serving_version=None)
        assert not await apply(store, held, Decision(children=wanted.children, status=status), NOW), "Conflict"

        [work] = held.children
        await store.update(replace(work, meta=replace(work.meta, finalizers=())), "ann")
        await store.delete(work.ref, "ann")
        assert not await apply(store, held, Decision(), NOW), "NotFound"

    on_store(body)


def test_a_name_taken_by_another_owner_is_an_error(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        await store.create(child("iris.1"), "ann")
        with pytest.raises(AlreadyExists):
            await apply(store, await facts(store), Decision(children=(child("iris.1"),)), NOW)

    on_store(body)


def test_a_successor_of_the_same_name_is_not_deleted_in_place_of_the_child(on_store: Check) -> None:
    async def body(store: Store) -> None:
        await owner(store)
        await settle(store, Decision(children=(child("iris.1"),)))
        held = await facts(store)
        [old] = held.children
        await store.update(replace(old, meta=replace(old.meta, finalizers=())), "ann")
        await store.delete(old.ref, "ann")
        other = await store.create(child("iris.1"), "ann")
        assert not await apply(store, held, Decision(), NOW)
        assert (await store.get(other.ref)).meta.uid == other.meta.uid

    on_store(body)

"""The recorder of Events: bounded, merging, pruning, and never in anybody's way. In virtual time, but for the last."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mizzen.controllers import events as controllers_events
from mizzen.controllers.events import EventRecorder
from mizzen.controllers.models import Models
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.errors import Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.events_and_namespaces import EventSpec
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource, Status
from mizzen.reconcile.loop import Loop
from mizzen.reconcile.recorder import EventNote
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Guard, Store
from tests.support.controllers.objects import NOW, inference_model, model, version, workload
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore
from tests.unit.controllers.engine import ScriptedEngine

IRIS = inference_model("iris-1")
DONE = controllers_events.PAUSE * 2


def now() -> datetime:
    return NOW + timedelta(seconds=asyncio.get_running_loop().time())


@contextlib.asynccontextmanager
async def recording(store: Store) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(store, lambda resource: catalog.model_of(resource) or "", now=now)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    try:
        yield recorder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def events(store: Store) -> list[EventSpec]:
    return [EventSpec.of(item) for item in (await store.list("Event")).items]


def condition(status: str, reason: str, message: str = "") -> Condition:
    return Condition.model_validate({"type": "Ready", "status": status, "reason": reason, "message": message})


def test_an_event_says_what_happened_to_what() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            recorder.record_created(IRIS, workload("iris-1.1"))
            await asyncio.sleep(DONE)
            [stored] = (await store.list("Event")).items
        spec = EventSpec.of(stored)
        assert stored.meta.name.startswith("iris-1.")
        assert (stored.meta.namespace, stored.meta.labels) == ("default", {"mizzen.dev/model": "iris"})
        involved = spec.involved_object
        assert (involved.api_version, involved.kind) == ("mizzen.dev/v1alpha1", "InferenceModel")
        assert (involved.namespace, involved.name) == ("default", "iris-1")
        assert (involved.uid, involved.resource_version) == ("uid-iris-1", "1")
        assert (spec.type, spec.reason, spec.message) == ("Normal", "Created", "created Workload iris-1.1")
        assert (spec.source.component, spec.reporting_component, spec.count) == ("mizzen", "mizzen", 1)
        assert spec.first_timestamp == spec.last_timestamp == "2026-03-01T00:00:00.000000Z"

    virtual.run(main())


@pytest.mark.parametrize(
    ("status", "reason", "type_"),
    [
        ("True", "Serving", "Normal"), ("False", "Starting", "Normal"), ("False", "NoReplicas", "Normal"),
        ("Unknown", "NotServedYet", "Normal"), ("False", "LoadFailed", "Warning"), ("False", "BackOff", "Warning"),
        ("False", "VersionNotFound", "Warning"), ("Unknown", "NodeNotReady", "Warning"),
    ],
)  # fmt: skip
def test_a_failure_is_a_warning(status: str, reason: str, type_: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            recorder.record_condition(IRIS, condition(status, reason))
            recorder.record_note(IRIS, EventNote("ReplicaEnded", "it ended", warning=True))
            await asyncio.sleep(DONE)
            found = {spec.reason: spec for spec in await events(store)}
        assert found[reason].type == type_
        assert found[reason].message, "in words, also when the condition has none"
        assert found["ReplicaEnded"].type == "Warning"

    virtual.run(main())


@pytest.mark.parametrize(("phase", "type_"), [("Failed", "Warning"), ("Restarting", "Warning"), ("Running", "Normal")])
def test_of_some_conditions_it_is_a_warning_that_they_hold(phase: str, type_: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            recorder.record_condition(IRIS, condition("True", "ReplicaFailed").model_copy(update={"type": phase}))
            await asyncio.sleep(DONE)
            assert [spec.type for spec in await events(store)] == [type_]

    virtual.run(main())


def test_the_same_again_counts_up() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            for _ in range(3):
                recorder.record_condition(IRIS, condition("False", "Starting", "wait"))
            await asyncio.sleep(10)
            recorder.record_condition(IRIS, condition("False", "Starting", "wait"))
            recorder.record_condition(IRIS, condition("False", "Starting", "otherwise"))
            await asyncio.sleep(10)
        once, often = sorted(await events(store), key=lambda spec: spec.count)
        assert (once.message, once.count) == ("otherwise", 1)
        assert (often.message, often.count) == ("wait", 4)
        assert (often.first_timestamp, often.last_timestamp) == (
            "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:10.000000Z",
        )  # fmt: skip

    virtual.run(main())


def test_nothing_is_told_in_a_namespace_that_is_going() -> None:
    """Its Events have been deleted with all that is in it: what came later would stay behind for an hour."""
    where = {"gone": None, "going": Meta("going", "", finalizers=("kubernetes",)), "there": Meta("there", "")}

    async def main() -> None:
        store = MemoryStore()
        for meta in filter(None, where.values()):
            await store.create(Resource("Namespace", meta), "ann")
        await store.delete(Ref("Namespace", "going", ""), "ann")
        async with recording(store) as recorder:
            for name in where:
                recorder.record_note(
                    replace(IRIS, meta=replace(IRIS.meta, namespace=name)), EventNote("Ended", "it ended")
                )
            await asyncio.sleep(DONE)
        assert [item.meta.namespace for item in (await store.list("Event")).items] == ["there"]

    virtual.run(main())


def test_a_name_that_is_used_again_has_events_of_its_own() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            for name in ("iris-1", "iris-2"):
                recorder.record_condition(inference_model(name), condition("False", "Starting"))
            await asyncio.sleep(DONE)
        assert [spec.count for spec in await events(store)] == [1, 1]

    virtual.run(main())


def test_what_waits_is_bounded_and_what_is_dropped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            for number in range(controllers_events.MAX_PENDING + 7):
                recorder.record_note(IRIS, EventNote("Promoted", f"version {number}"))
            recorder.record_note(IRIS, EventNote("Promoted", "version 0"))
            await asyncio.sleep(controllers_events.PAUSE)
            assert len(await events(store)) <= controllers_events.BATCH, "a few at a time"
            await asyncio.sleep(60)
        found = await events(store)
        assert len(found) == controllers_events.MAX_PENDING
        assert sum(spec.count for spec in found) == controllers_events.MAX_PENDING + 1, (
            "one that waits can be counted up"
        )

    virtual.run(main())
    assert "7 events were dropped" in caplog.text


def test_they_are_kept_for_an_hour_also_by_the_next_plane() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            recorder.record_note(IRIS, EventNote("Promoted", "old"))
            recorder.record_note(IRIS, EventNote("Promoted", "again and again"))
            await asyncio.sleep(1800)
            recorder.record_note(IRIS, EventNote("Promoted", "again and again"))
            await asyncio.sleep(DONE)
        async with recording(store):
            await asyncio.sleep(1700)
            assert len(await events(store)) == 2
            await asyncio.sleep(200)
            assert [spec.message for spec in await events(store)] == ["again and again"]
            await asyncio.sleep(1800)
            assert await events(store) == []

    virtual.run(main())


def test_of_too_many_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers_events, "MAX_EVENTS", 20)

    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            for number in range(30):
                recorder.record_note(IRIS, EventNote("Promoted", f"version {number}"))
                await asyncio.sleep(1)
        async with recording(store):
            await asyncio.sleep(1)
            kept = {spec.message for spec in await events(store)}
        assert kept == {f"version {number}" for number in range(10, 30)}

    virtual.run(main())


class Broken(MemoryStore):
    broken = True

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        if self.broken and "broken" in new.spec["message"]:
            raise Unavailable("the disk is full")
        return await super().create(new, by, guard=guard)


def test_what_cannot_be_written_is_left_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Broken()
        async with recording(store) as recorder:
            for message in ("broken", "fine"):
                recorder.record_note(IRIS, EventNote("Promoted", message))
            await asyncio.sleep(DONE)
            assert [spec.message for spec in await events(store)] == ["fine"]
            store.broken = False
            recorder.record_note(IRIS, EventNote("Promoted", "broken"))
            await asyncio.sleep(DONE)
        assert sorted((spec.message, spec.count) for spec in await events(store)) == [("broken", 1), ("fine", 1)]

    virtual.run(main())
    assert "the disk is full" in caplog.text


def test_events_that_somebody_else_deleted_are_no_trouble() -> None:
    async def main() -> None:
        store = MemoryStore()
        async with recording(store) as recorder:
            recorder.record_note(IRIS, EventNote("Promoted", "gone"))
            await asyncio.sleep(DONE)
            for item in (await store.list("Event")).items:
                await store.delete(item.ref, "ann")
            await asyncio.sleep(4000)
            recorder.record_note(IRIS, EventNote("Promoted", "gone"))
            await asyncio.sleep(DONE)
        assert [spec.count for spec in await events(store)] == [1]

    virtual.run(main())


def all_controllers(store: Store, engine: ScriptedEngine, recorder: EventRecorder) -> Loop[Store]:
    known = Context()
    working = (Models(known), Versions(known), Serving("http://x", known), Workloads(engine))
    return Loop[Store](store, working, now=now, recorder=recorder)


def test_controllers_tell_the_story_of_a_switch_and_of_a_crash() -> None:
    async def main() -> None:
        store, engine = MemoryStore(), ScriptedEngine()
        for resource in (model(), version("1"), version("2"), inference_model("iris-1", replicas=2)):
            await store.create(resource, "ann")
        async with recording(store) as recorder:
            task = asyncio.create_task(all_controllers(store, engine, recorder).run())
            await asyncio.sleep(5)
            engine.happen("ready", ("iris-1.1",), only=frozenset({"starting"}))
            await asyncio.sleep(5)
            server = await store.get(Ref("InferenceModel", "iris-1"))
            await store.update(
                Resource("InferenceModel", server.meta, {**server.spec, "targetVersion": "2", "replicas": 2}), "ann"
            )
            await asyncio.sleep(5)
            engine.happen("ready", ("iris-1.2",), only=frozenset({"starting"}))
            await asyncio.sleep(5)
            [(uid, replicas)] = engine.running.items()
            engine.running[uid][1] = replicas[1].model_copy(update={"state": "waiting", "message": "exit 1"})
            await asyncio.sleep(60)
            task.cancel()
        found = await events(store)
        told = {(spec.involved_object.kind, spec.reason, spec.message) for spec in found}
        for kind, reason, message in (
            ("InferenceModel", "Created", "created Workload iris-1.1"),
            ("InferenceModel", "Serving", "version 1 is serving"),
            ("Model", "Promoted", "version 1 became current"),
            ("ModelVersion", "Served", "InferenceModel/iris-1 served it"),
            ("InferenceModel", "Switched", "switched from version 1 to version 2"),
            ("InferenceModel", "Deleted", "deleted Workload iris-1.1"),
            ("Workload", "ReplicaEnded", "replica 1: exit 1"),
        ):
            assert (kind, reason, message) in told
        assert {spec.reason for spec in found if spec.type == "Warning"} == {"ReplicaEnded"}

    virtual.run(main())


def test_a_first_start_over_many_models_tells_nothing(tmp_path: Path) -> None:
    """Over the real store: nothing happened to them."""

    async def main() -> None:
        ids = itertools.count()
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: f"id-{next(ids)}")
        names = [f"m-{number}" for number in range(250)]
        await asyncio.gather(*(store.create(one, "ann") for name in names for one in (model(name), version("1", name))))
        recorder = EventRecorder(store, lambda _: "", now=lambda: NOW)
        loop = all_controllers(store, ScriptedEngine(), recorder)
        loop._now = lambda: NOW
        tasks = [asyncio.create_task(work) for work in (loop.run(), recorder.run())]
        try:
            async with asyncio.timeout(120):
                while not await all_accepted(store):  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
            await recorder.write()
            assert (await store.list("Event")).items == ()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    asyncio.run(main())


async def all_accepted(store: SqliteStore) -> bool:
    found = [item for kind in ("Model", "ModelVersion") for item in (await store.list(kind)).items]
    return all(Status.of(item).condition("Accepted") for item in found)

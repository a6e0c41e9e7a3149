"""Whatever users and processes did, the controllers come to rest, and at the right place.

Random sequences of writes, process events, pauses and restarts of the plane, in virtual time. Version 3 cannot load.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mizzen.controllers.models import Models
from mizzen.controllers.serving.controller import Serving
from mizzen.controllers.versions import Versions
from mizzen.controllers.workloads import Workloads
from mizzen.errors import AlreadyExists, Conflict, NotFound
from mizzen.graph.compile.table import compile_table
from mizzen.kinds.model import ModelSpec, ModelStatus, ModelVersionStatus
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import CHILDREN_FINALIZER, Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.reconcile.loop import Loop
from mizzen.stores.store import Store
from tests.support.controllers.objects import NOW, inference_model, model, version
from tests.support.examples import examples
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore
from tests.unit.controllers.engine import ScriptedEngine

NAMES = ("a", "b")
VERSIONS = ("1", "2", "3")
BROKEN = "3"
WORKLOADS = tuple(f"{name}.{number}" for name in NAMES for number in VERSIONS)
GOOD = tuple(name for name in WORKLOADS if not name.endswith(BROKEN))
BAD = tuple(name for name in WORKLOADS if name.endswith(BROKEN))
UP = frozenset({"starting", "waiting"})


def now() -> datetime:
    return NOW + timedelta(seconds=asyncio.get_running_loop().time())


class World:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.engine = ScriptedEngine()
        self.loop = self.new_loop()
        self.task: asyncio.Task[None] | None = None

    def new_loop(self) -> Loop[Store]:
        known = Context()
        controllers = (Models(known), Versions(known), Serving("http://x", known), Workloads(self.engine))
        return Loop[Store](self.store, controllers, now=now)

    async def restart(self) -> None:
        """A new plane: all it knew is what the store holds."""
        await self.stop()
        self.loop = self.new_loop()
        self.task = asyncio.create_task(self.loop.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task

    def all(self, kind: str) -> list[Resource]:
        return [item for ref, item in sorted(self.store.objects.items()) if ref.kind == kind]


Step = Callable[[World], Awaitable[None]]


def user(action: Callable[[Store], Awaitable[object]]) -> Step:
    async def step(world: World) -> None:
        with contextlib.suppress(AlreadyExists, Conflict, NotFound):  # the user is told, and leaves it at that
            await action(world.store)

    return step


def create(resource: Resource) -> Step:
    finalizers = (CHILDREN_FINALIZER,) if resource.kind == "InferenceModel" else ()
    new = replace(resource, meta=replace(resource.meta, finalizers=finalizers))
    return user(lambda store: store.create(new, "ann"))


def change(name: str, **spec: object) -> Step:
    async def action(store: Store) -> None:
        stored = await store.get(Ref("InferenceModel", name))
        await store.update(replace(stored, spec=dict(stored.spec) | spec), "ann")

    return user(action)


def point(**aliases: str) -> Step:
    async def action(store: Store) -> None:
        stored = await store.get(Ref("Model", "iris"))
        await store.update(replace(stored, spec={**stored.spec, "aliases": aliases}), "ann")

    return user(action)


def delete(kind: str, name: str) -> Step:
    return user(lambda store: store.delete(Ref(kind, name), "ann"))


def process(name: str, state: str, only: frozenset[str], *, hint: bool) -> Step:
    async def step(world: World) -> None:
        world.engine.happen(state, (name,), only=only)
        if hint:
            for each in world.engine.called((name,)):
                world.loop.enqueue(Ref("Workload", each))

    return step


async def come_up(world: World) -> None:
    """The plane has the time to start processes; those that can answer do; and it has the time to see that."""
    await asyncio.sleep(1)
    world.engine.happen("ready", GOOD, only=UP)
    world.engine.happen("failed", BAD, only=UP)
    await asyncio.sleep(31)


def pause(seconds: float) -> Step:
    async def step(world: World) -> None:
        await asyncio.sleep(seconds)

    return step


names, versions, replicas = st.sampled_from(NAMES), st.sampled_from(VERSIONS), st.integers(0, 2)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda name, number: create(inference_model(name, number)), names, versions),
    st.builds(lambda number: create(version(number)), versions),
    st.builds(lambda track: create(model(track=track)), st.sampled_from(("manual", "latest"))),
    st.just(delete("Model", "iris")),
    st.builds(lambda number: point(prod=number), versions),
    st.just(point()),
    st.builds(lambda target: create(model("lily", aliasOf=target)), st.sampled_from(("iris", "iris:1", "iris:2"))),
    st.builds(lambda name, number: change(name, targetVersion=number), names, versions),
    st.builds(lambda name, count: change(name, replicas=count), names, replicas),
    st.builds(lambda name, mode: change(name, env=[{"name": "MODE", "value": mode}]), names, st.sampled_from("xyz")),
    st.builds(lambda name: delete("InferenceModel", name), names),
    st.builds(lambda number: delete("ModelVersion", f"iris.{number}"), versions),
    st.builds(lambda name: delete("Workload", name), st.sampled_from(WORKLOADS)),
    st.builds(lambda name, hint: process(name, "ready", UP, hint=hint), st.sampled_from(GOOD), st.booleans()),
    st.builds(
        lambda name, hint: process(name, "waiting", UP | {"ready"}, hint=hint), st.sampled_from(GOOD), st.booleans()
    ),
    st.builds(pause, st.sampled_from((0.0, 0.3))),
    st.just(come_up),
    st.just(World.restart),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=8, max_size=30))
def test_controllers_come_to_rest_at_the_right_place(steps: list[Step]) -> None:
    virtual.run(_story(steps))


async def _story(steps: list[Step]) -> None:
    async with _world() as world:
        for step in steps:
            await step(world)
        for _ in range(5):
            await come_up(world)
        settled = world.store.version
        await asyncio.sleep(100)
        assert world.store.version == settled, "something still writes, with nothing left to do"
        _check(world)


@contextlib.asynccontextmanager
async def _world() -> AsyncIterator[World]:
    world = World()
    for resource in (model(), version("1"), version(BROKEN), *(inference_model(name, "1") for name in NAMES)):
        await create(resource)(world)
    await world.restart()
    await come_up(world)
    try:
        yield world
    finally:
        await world.stop()


def _check(world: World) -> None:
    assert not any(item.deleting for item in world.store.objects.values()), "what was deleted is gone"
    owners = {item.meta.uid: item for item in world.all("InferenceModel")}
    children: dict[str, set[str]] = {uid: set() for uid in owners}
    for work in world.all("Workload"):
        [reference] = work.meta.owners
        children[reference.uid].add(work.meta.name.partition("-")[0])
    uids = {work.meta.uid for work in world.all("Workload")}
    assert world.engine.running.keys() == uids, "the engine runs what the store holds, no more and no less"

    existing = {str(item.spec["version"]) for item in world.all("ModelVersion")}
    for uid, owner in owners.items():
        _check_inference_model(owner, children[uid], existing)
    _check_consequences(world)


def _check_inference_model(owner: Resource, children: set[str], existing: set[str]) -> None:
    spec, status = InferenceModelSpec.of(owner), InferenceModelStatus.of(owner)
    name, target, serving = owner.meta.name, spec.target_version, status.serving_version
    accepted, ready = status.condition("Accepted"), status.condition("Ready")
    assert accepted is not None
    assert ready is not None
    assert accepted.observed_generation == ready.observed_generation == owner.meta.generation
    assert (status.url is None) == (serving is None)
    if target not in existing:
        assert (accepted.status, accepted.reason) == ("False", "VersionNotFound")
        return
    assert accepted.true
    if spec.replicas == 0:
        assert ready.reason == "NoReplicas"
        assert children == {f"{name}.{target}"}
    elif target == BROKEN:
        assert ready.reason == "LoadFailed"
        assert serving != BROKEN
        assert children == {f"{name}.{target}"} | ({f"{name}.{serving}"} if serving else set())
    else:
        assert ready.true
        assert serving == target
        assert children == {f"{name}.{target}"}
        assert status.ready_replicas == status.replicas == spec.replicas


def _check_consequences(world: World) -> None:
    answering = []
    for owner in world.all("InferenceModel"):
        ready = InferenceModelStatus.of(owner).condition("Ready")
        if ready is not None and ready.true:
            answering.append(owner)
    for item in world.all("ModelVersion"):
        servable = ModelVersionStatus.of(item).condition("Servable")
        assert servable is not None
        if any(owner.spec["targetVersion"] == item.spec["version"] for owner in answering):
            assert servable.true
    answers = {str(owner.spec["targetVersion"]) for owner in answering}
    for item in world.all("Model"):
        spec, status = ModelSpec.of(item), ModelStatus.of(item)
        assert status.observed_generation == item.meta.generation
        if spec.alias_of is None and answering:
            assert status.current is not None
        assert status.aliases.keys() <= spec.aliases.keys()
        assert {alias for alias, number in spec.aliases.items() if number in answers} <= status.aliases.keys()
        for alias, number in status.aliases.items():
            assert number == spec.aliases[alias] or spec.aliases[alias] not in answers
    table = compile_table(world.all("Model"), world.all("InferenceModel"), world.all("Workload"), 1)
    servers = {server.id: server for server in table.servers}
    for owner in answering:
        assert len(servers[f"default/{owner.meta.name}"].addresses) == InferenceModelSpec.of(owner).replicas

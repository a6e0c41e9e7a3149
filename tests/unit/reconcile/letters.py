"""A toy controller: a Model wants one Workload per letter of `spec.letters`. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.reconcile.controller import Decision, Presence, find, find_owners
from mizzen.reconcile.loop import Loop
from mizzen.stores.store import Store, Where
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import MemoryStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)


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
            return find_owners(resource, self.kind)
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
        return Decision(children=children, requeue_after=self.again)

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


class Present(Letters):
    """Of ModelVersions it matters only whether they are there."""

    watches: tuple[str | Presence, ...] = (Presence("ModelVersion"),)

    def decide(self, facts: LetterFacts, now: datetime) -> Decision:
        return Decision()

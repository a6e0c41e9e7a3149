"""The loop: changes of the store become keys, and keys are loaded, decided and applied.

Every object is looked at once at the start, then after each change that may concern it, and when its controller asked
for it. A failure with one key delays that key alone. Nothing is remembered that a restart would lose.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic

from mizzen.errors import Expired, MizzenError
from mizzen.kinds.meta import Ref, Resource
from mizzen.reconcile.apply import apply
from mizzen.reconcile.controller import Controller, StoreT
from mizzen.reconcile.queue import KeyedQueue, LoopTimer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Lane(Generic[StoreT]):
    """A controller and the keys that wait for it."""

    controller: Controller[StoreT, Any]
    queue: KeyedQueue = field(default_factory=lambda: KeyedQueue(LoopTimer()))

    def changed(self, resource: Resource) -> None:
        if resource.kind == self.controller.kind:
            self.queue.add(resource.ref)
        if resource.kind in self.controller.watches:
            try:
                keys = tuple(self.controller.keys(resource))
            except Exception:  # one odd object must not end the watch of its kind
                log.exception("%s: cannot tell which %s it concerns", resource.ref, self.controller.kind)
            else:
                for key in keys:
                    self.queue.add(key)


class Loop(Generic[StoreT]):
    def __init__(
        self,
        store: StoreT,
        controllers: Sequence[Controller[StoreT, Any]],
        *,
        now: Callable[[], datetime],
        workers: int = 4,
    ) -> None:
        self._store = store
        self._lanes = tuple(_Lane(controller) for controller in controllers)
        self._now = now
        self._workers = workers

    async def run(self) -> None:
        """Until cancelled. Raises when watching the store fails: without it, this would be a loop that sleeps."""
        kinds = {kind for lane in self._lanes for kind in (lane.controller.kind, *lane.controller.watches)}
        async with asyncio.TaskGroup() as tasks:
            for kind in sorted(kinds):
                tasks.create_task(self._follow(kind), name=f"follow {kind}")
            for lane in self._lanes:
                for number in range(self._workers):
                    tasks.create_task(self._work(lane), name=f"reconcile {lane.controller.kind} {number}")

    def poke(self, ref: Ref) -> None:
        """A hint from outside that this object is worth a look."""
        for lane in self._lanes:
            if lane.controller.kind == ref.kind:
                lane.queue.add(ref)

    async def _follow(self, kind: str) -> None:
        seen: dict[Ref, Resource] = {}
        while True:
            listing = await self._store.list(kind)
            found = {resource.ref: resource for resource in listing.items}
            for ref in seen.keys() | found.keys():
                self._changed(seen.get(ref), found.get(ref))
            seen = found
            try:
                async for event in self._store.watch(kind, listing.resource_version):
                    resource = event.resource
                    self._changed(seen.pop(resource.ref, None), resource)
                    if event.type != "DELETED":
                        seen[resource.ref] = resource
            except Expired:
                log.info("the watch of %s fell behind; listing again", kind)
            else:
                raise RuntimeError(f"the watch of {kind} ended by itself")

    def _changed(self, before: Resource | None, after: Resource | None) -> None:
        # Both states count: an object that now names another key no longer concerns the one it named before.
        for resource in (before, after):
            if resource is not None:
                for lane in self._lanes:
                    lane.changed(resource)

    async def _work(self, lane: _Lane[StoreT]) -> None:
        while True:
            key = await lane.queue.take()
            try:
                await self._reconcile(lane, key)
            except (MizzenError, OSError) as error:
                delay = lane.queue.retry(key)
                log.warning("%s: %s: %s; again in %.2f s", key, type(error).__name__, error, delay)
            except Exception:  # a bug met by one object must not stop the others
                delay = lane.queue.retry(key)
                log.exception("%s: unexpected; again in %.2f s", key, delay)
            finally:
                lane.queue.done(key)

    async def _reconcile(self, lane: _Lane[StoreT], key: Ref) -> None:
        facts = await lane.controller.load(self._store, key)
        if facts is None:
            lane.queue.forget(key)
            return
        now = self._now()
        decision = lane.controller.decide(facts, now)
        if not await apply(self._store, facts, decision, now):
            lane.queue.add(key)
            return
        lane.queue.forget(key)
        if decision.again is not None:
            lane.queue.add_after(key, decision.again)

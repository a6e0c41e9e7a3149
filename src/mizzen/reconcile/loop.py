"""The reconciliation loop: changes in the store become keys, and each key is loaded, decided and applied.

Every object is reconciled once at the start, then after each change that may affect it, and when its controller has
asked for it. A failure of one key delays only that key. The loop keeps no state that a restart would lose.

Objects are read in pages and not kept in memory. For a watched object, only the keys of other objects that it affects
are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic

from mizzen.errors import Expired, MizzenError
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.reconcile.apply import apply
from mizzen.reconcile.controller import ChangeEvent, Controller, Presence, StoreT
from mizzen.reconcile.queue import KeyedQueue, LoopTimer
from mizzen.reconcile.recorder import NULL_RECORDER, EventSink

PAGE = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerBacklog:
    """The backlog of one controller."""

    controller: str
    """The kind that it reconciles."""
    waiting: int
    failing: int
    """Objects whose last reconciliation failed; each is retried."""
    errors: int
    """Failed reconciliations since the start."""


class _Lane(Generic[StoreT]):
    """A controller, its queue of keys, and the keys that watched objects affect."""

    def __init__(self, controller: Controller[StoreT, Any]) -> None:
        self.controller = controller
        self.queue = KeyedQueue(LoopTimer())
        self.errors = 0
        self.remembers = frozenset(watched for watched in controller.watches if isinstance(watched, str))
        self.watches = self.remembers | {one.kind for one in controller.watches if isinstance(one, Presence)}
        self._named: dict[Ref, tuple[Ref, ...]] = {}
        """For each watched object, the other keys that it affects."""

    @property
    def kinds(self) -> frozenset[str]:
        return self.watches | {self.controller.kind}

    def on_listed(self, resource: Resource) -> None:
        """The object exists, whether new or old: enqueue its own key."""
        if resource.kind == self.controller.kind:
            self.queue.add_low_priority(resource.ref)
        if resource.kind in self.remembers:
            self._remember(resource, self._keys(resource))

    def on_event(self, event: ChangeEvent) -> None:
        resource = event.resource
        if resource.kind == self.controller.kind:
            self.queue.add(resource.ref)
        gone = event.type == "DELETED"
        if resource.kind in self.remembers:
            keys = self._keys(resource)
            # Both states count: an object that moves from one key to another affects both.
            for key in (*self._named.get(resource.ref, ()), *keys):
                self.queue.add(key)
            self._remember(resource, () if gone else keys)
        elif resource.kind in self.watches and (gone or event.type == "ADDED" or _is_deleting_or_edited(resource)):
            for key in self._keys(resource):
                self.queue.add(key)

    def on_failure(self, key: Ref) -> float:
        """Schedule a retry. Returns the seconds until then."""
        self.errors += 1
        return self.queue.retry(key)

    def forget(self, kind: str) -> None:
        self._named = {ref: keys for ref, keys in self._named.items() if ref.kind != kind}

    def _remember(self, resource: Resource, keys: tuple[Ref, ...]) -> None:
        others = tuple(key for key in keys if key != resource.ref)
        if others:
            self._named[resource.ref] = others
        else:
            self._named.pop(resource.ref, None)

    def _keys(self, resource: Resource) -> tuple[Ref, ...]:
        try:
            return tuple(self.controller.keys(resource))
        except Exception:  # one invalid object must not end the watch of its kind
            log.exception("%s: cannot determine which %s it affects", resource.ref, self.controller.kind)
            return ()


def _is_deleting_or_edited(resource: Resource) -> bool:
    """Is it being deleted, or was its spec edited since its creation? An event does not say what changed."""
    return resource.deleting or resource.meta.generation > 1


class Loop(Generic[StoreT]):
    def __init__(
        self,
        store: StoreT,
        controllers: Sequence[Controller[StoreT, Any]],
        *,
        now: Callable[[], datetime],
        workers: int = 4,
        recorder: EventSink = NULL_RECORDER,
    ) -> None:
        """`recorder` records events of objects."""
        self._store = store
        self._lanes = tuple(_Lane[StoreT](controller) for controller in controllers)
        self._now = now
        self._workers = workers
        self._recorder = recorder

    async def run(self) -> None:
        """Until cancelled. Raises when watching the store fails: without a watch, the loop would do nothing."""
        kinds = sorted({kind for lane in self._lanes for kind in lane.kinds})
        remembered = [kind for kind in kinds if any(kind in lane.remembers for lane in self._lanes)]
        # The watch starts before the first object is read, so that every later change is an event.
        since = await self._position(kinds[0])
        # The affected keys are known before that, so that an object that moves to another key wakes both.
        for kind in remembered:
            await self._enqueue_all(kind)
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                tasks.create_task(self._watch(kind, since), name=f"follow {kind}")
            for lane in self._lanes:
                for number in range(self._workers):
                    tasks.create_task(self._work(lane), name=f"reconcile {lane.controller.kind} {number}")
            for kind in kinds:
                if kind not in remembered:
                    tasks.create_task(self._enqueue_all(kind), name=f"list every {kind}")

    def list_backlogs(self) -> list[ControllerBacklog]:
        return [
            ControllerBacklog(lane.controller.kind, len(lane.queue), lane.queue.failing, lane.errors)
            for lane in self._lanes
        ]

    def enqueue(self, ref: Ref) -> None:
        """Reconcile this object, because of a change outside the store."""
        for lane in self._lanes:
            if lane.controller.kind == ref.kind:
                lane.queue.add(ref)

    async def _watch(self, kind: str, since: str) -> None:
        concerned = self._lanes_for(kind)
        while True:
            try:
                async for event in self._store.watch(kind, since):
                    for lane in concerned:
                        lane.on_event(event)
            except Expired:
                log.info("the watch of %s fell behind; listing all objects again", kind)
            else:
                raise RuntimeError(f"the watch of {kind} ended by itself")
            since = await self._position(kind)
            await self._resync(kind)

    async def _resync(self, kind: str) -> None:
        """After a gap in the watch: enqueue every object of the kind, and every key that one of them, existing or
        deleted, may affect."""
        for lane in self._lanes_for(kind):
            lane.forget(kind)
        await self._enqueue_all(kind)
        for lane in self._lanes_for(kind):
            if kind in lane.watches:
                async for resource in self._all(lane.controller.kind):
                    lane.queue.add_low_priority(resource.ref)

    async def _enqueue_all(self, kind: str) -> None:
        concerned = self._lanes_for(kind)
        async for resource in self._all(kind):
            for lane in concerned:
                lane.on_listed(resource)

    async def _all(self, kind: str) -> AsyncIterator[Resource]:
        """All objects, read in pages. Some may come twice, if the store changes so fast that a page expires."""
        limit, after = PAGE, None
        while True:
            try:
                page = await self._store.list(kind, limit=limit, after=after)
            except Expired:
                limit, after = 8 * limit, None  # larger each time, so that it eventually finishes
                continue
            for resource in page.items:
                yield resource
            after = page.next
            if after is None:
                return

    def _lanes_for(self, kind: str) -> list[_Lane[StoreT]]:
        return [lane for lane in self._lanes if kind in lane.kinds]

    async def _position(self, kind: str) -> str:
        return (await self._store.list(kind, limit=1)).resource_version

    async def _work(self, lane: _Lane[StoreT]) -> None:
        while True:
            key = await lane.queue.take()
            try:
                await self._reconcile(lane, key)
            except (MizzenError, OSError) as error:
                delay = lane.on_failure(key)
                log.warning("%s: %s: %s; retrying in %.2f s", key, type(error).__name__, error, delay)
            except Exception:  # a bug that one object triggers must not stop the others
                delay = lane.on_failure(key)
                log.exception("%s: unexpected error; retrying in %.2f s", key, delay)
            finally:
                lane.queue.done(key)
            # A reconciliation may never have yielded. Thousands of them would then block the event loop.
            await asyncio.sleep(0)

    async def _reconcile(self, lane: _Lane[StoreT], key: Ref) -> None:
        facts = await lane.controller.load(self._store, key)
        if facts is None:
            lane.queue.forget(key)
            return
        now = self._now()
        decision = lane.controller.decide(facts, now)
        if not await apply(self._store, facts, decision, now, self._recorder):
            lane.queue.add(key)
            return
        lane.queue.forget(key)
        if decision.requeue_after is not None:
            lane.queue.add_after(key, decision.requeue_after)

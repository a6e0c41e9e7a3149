"""The loop: changes of the store become keys, and keys are loaded, decided and applied.

Every object is looked at once at the start, then after each change that may concern it, and when its controller asked
for it. A failure with one key delays that key alone. Nothing is remembered that a restart would lose.

Objects are read in pages and not kept: of a watched one, the keys it concerns, if there are any besides itself.
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
from mizzen.reconcile.controller import Controller, Event, Presence, StoreT
from mizzen.reconcile.queue import KeyedQueue, LoopTimer
from mizzen.reconcile.recorder import NOBODY, Recorder

PAGE = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How a controller keeps up."""

    controller: str
    """The kind it works on."""
    waiting: int
    failing: int
    """Objects whose last look failed; each is looked at again."""
    errors: int
    """Looks that failed since the start."""


class _Lane(Generic[StoreT]):
    """A controller, the keys that wait for it, and what is remembered for it of the kinds it watches."""

    def __init__(self, controller: Controller[StoreT, Any]) -> None:
        self.controller = controller
        self.queue = KeyedQueue(LoopTimer())
        self.errors = 0
        self.remembers = frozenset(watched for watched in controller.watches if isinstance(watched, str))
        self.watches = self.remembers | {one.kind for one in controller.watches if isinstance(one, Presence)}
        self._named: dict[Ref, tuple[Ref, ...]] = {}
        """Other keys that an object concerns."""

    @property
    def kinds(self) -> frozenset[str]:
        return self.watches | {self.controller.kind}

    def found(self, resource: Resource) -> None:
        """It is there, since whenever: its own key is due."""
        if resource.kind == self.controller.kind:
            self.queue.add_behind(resource.ref)
        if resource.kind in self.remembers:
            self._name(resource, self._keys(resource))

    def changed(self, event: Event) -> None:
        resource = event.resource
        if resource.kind == self.controller.kind:
            self.queue.add(resource.ref)
        gone = event.type == "DELETED"
        if resource.kind in self.remembers:
            keys = self._keys(resource)
            # Both states count: an object that now names another key no longer concerns the one it named before.
            for key in (*self._named.get(resource.ref, ()), *keys):
                self.queue.add(key)
            self._name(resource, () if gone else keys)
        elif resource.kind in self.watches and (gone or event.type == "ADDED" or _touched(resource)):
            for key in self._keys(resource):
                self.queue.add(key)

    def failed(self, key: Ref) -> float:
        """Seconds until the next look."""
        self.errors += 1
        return self.queue.retry(key)

    def forget(self, kind: str) -> None:
        self._named = {ref: keys for ref, keys in self._named.items() if ref.kind != kind}

    def _name(self, resource: Resource, keys: tuple[Ref, ...]) -> None:
        others = tuple(key for key in keys if key != resource.ref)
        if others:
            self._named[resource.ref] = others
        else:
            self._named.pop(resource.ref, None)

    def _keys(self, resource: Resource) -> tuple[Ref, ...]:
        try:
            return tuple(self.controller.keys(resource))
        except Exception:  # one odd object must not end the watch of its kind
            log.exception("%s: cannot tell which %s it concerns", resource.ref, self.controller.kind)
            return ()


def _touched(resource: Resource) -> bool:
    """Is it being deleted, or has its spec changed since it was made? An event does not tell what of it is new."""
    return resource.deleting or resource.meta.generation > 1


class Loop(Generic[StoreT]):
    def __init__(
        self,
        store: StoreT,
        controllers: Sequence[Controller[StoreT, Any]],
        *,
        now: Callable[[], datetime],
        workers: int = 4,
        recorder: Recorder = NOBODY,
    ) -> None:
        """`recorder` is told what happened to objects."""
        self._store = store
        self._lanes = tuple(_Lane[StoreT](controller) for controller in controllers)
        self._now = now
        self._workers = workers
        self._recorder = recorder

    async def run(self) -> None:
        """Until cancelled. Raises when watching the store fails: without it, this would be a loop that sleeps."""
        kinds = sorted({kind for lane in self._lanes for kind in lane.kinds})
        remembered = [kind for kind in kinds if any(kind in lane.remembers for lane in self._lanes)]
        # Watched from before the first look at anything: whatever changes after that look is an event.
        since = await self._position(kinds[0])
        # And what an object concerned is known before that, so that it is known when it moves to another key.
        for kind in remembered:
            await self._look_at_all(kind)
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                tasks.create_task(self._follow(kind, since), name=f"follow {kind}")
            for lane in self._lanes:
                for number in range(self._workers):
                    tasks.create_task(self._work(lane), name=f"reconcile {lane.controller.kind} {number}")
            for kind in kinds:
                if kind not in remembered:
                    tasks.create_task(self._look_at_all(kind), name=f"look at every {kind}")

    def backlogs(self) -> list[Backlog]:
        return [Backlog(lane.controller.kind, len(lane.queue), lane.queue.failing, lane.errors) for lane in self._lanes]

    def poke(self, ref: Ref) -> None:
        """A hint from outside that this object is worth a look."""
        for lane in self._lanes:
            if lane.controller.kind == ref.kind:
                lane.queue.add(ref)

    async def _follow(self, kind: str, since: str) -> None:
        concerned = self._concerned(kind)
        while True:
            try:
                async for event in self._store.watch(kind, since):
                    for lane in concerned:
                        lane.changed(event)
            except Expired:
                log.info("the watch of %s fell behind; looking at all that may have changed", kind)
            else:
                raise RuntimeError(f"the watch of {kind} ended by itself")
            since = await self._position(kind)
            await self._look_again(kind)

    async def _look_again(self, kind: str) -> None:
        """After a gap: at every object of the kind, and at every key that one, there or gone, may concern."""
        for lane in self._concerned(kind):
            lane.forget(kind)
        await self._look_at_all(kind)
        for lane in self._concerned(kind):
            if kind in lane.watches:
                async for resource in self._all(lane.controller.kind):
                    lane.queue.add_behind(resource.ref)

    async def _look_at_all(self, kind: str) -> None:
        concerned = self._concerned(kind)
        async for resource in self._all(kind):
            for lane in concerned:
                lane.found(resource)

    async def _all(self, kind: str) -> AsyncIterator[Resource]:
        """In pages. Some may come twice, when the store changes so fast that a page is too old to go on from."""
        limit, after = PAGE, None
        while True:
            try:
                page = await self._store.list(kind, limit=limit, after=after)
            except Expired:
                limit, after = 8 * limit, None  # larger each time, so that it comes to an end
                continue
            for resource in page.items:
                yield resource
            after = page.next
            if after is None:
                return

    def _concerned(self, kind: str) -> list[_Lane[StoreT]]:
        return [lane for lane in self._lanes if kind in lane.kinds]

    async def _position(self, kind: str) -> str:
        return (await self._store.list(kind, limit=1)).resource_version

    async def _work(self, lane: _Lane[StoreT]) -> None:
        while True:
            key = await lane.queue.take()
            try:
                await self._reconcile(lane, key)
            except (MizzenError, OSError) as error:
                delay = lane.failed(key)
                log.warning("%s: %s: %s; again in %.2f s", key, type(error).__name__, error, delay)
            except Exception:  # a bug met by one object must not stop the others
                delay = lane.failed(key)
                log.exception("%s: unexpected; again in %.2f s", key, delay)
            finally:
                lane.queue.done(key)
            # A look may have waited for nothing. Then thousands of them would hold up everybody else in this process.
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
        if decision.again is not None:
            lane.queue.add_after(key, decision.again)

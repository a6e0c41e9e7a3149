"""A Store in memory, for tests in virtual time. `test_apply.py` runs over it and over the real one alike."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mizzen.errors import AlreadyExists, Conflict, Expired, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.text import selectors
from mizzen.stores.store import Event, Guard, Listing, Revision, Where

TIME = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = Where()


class MemoryStore:
    def __init__(self) -> None:
        self.objects: dict[Ref, Resource] = {}
        self.events: list[Event] = []
        self.revisions: list[Revision] = []
        self.horizon = 0
        """Watches from before this version are Expired."""
        self._ids = 0
        self._news = asyncio.Event()

    @property
    def version(self) -> int:
        return len(self.events)

    def expire(self) -> None:
        """End every watch as if it had fallen behind."""
        self.horizon = self.version + 1
        self._wake()

    async def get(self, ref: Ref) -> Resource:
        await asyncio.sleep(0)
        return self._stored(ref)

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        await asyncio.sleep(0)
        self.horizon = min(self.horizon, self.version)
        version, start = map(int, after.split("/")) if after else (self.version, 0)
        if version < self.horizon:
            raise Expired("too old")
        found = _Present(self.objects).list(kind, where)
        end = len(found) if limit is None else start + limit
        return Listing(found[start:end], str(version), f"{version}/{end}" if end < len(found) else None)

    async def among(self, refs: Iterable[Ref]) -> frozenset[Ref]:
        return frozenset(refs) & self.objects.keys()

    async def check(self, guard: Guard) -> None:
        self._ask(guard)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[MemoryStore]:
        self.horizon = min(self.horizon, self.version)
        moment = copy.copy(self)
        moment.objects, moment.events = dict(self.objects), list(self.events)
        yield moment

    async def create(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        await asyncio.sleep(0)
        if new.ref in self.objects:
            raise AlreadyExists(f"{new.ref} exists")
        self._ask(guard)
        self._ids += 1
        meta = replace(new.meta, uid=f"uid-{self._ids}", generation=1, created=TIME)
        return self._write("ADDED", replace(new, meta=meta, status={}))

    async def last_change(self, model: Ref) -> Revision | None:
        return next((revision for revision in reversed(self.revisions) if revision.ref == model), None)

    async def update(self, new: Resource, by: str, *, guard: Guard | None = None) -> Resource:
        await asyncio.sleep(0)
        old = self._unmoved(new)
        self._ask(guard)
        generation = old.meta.generation + (_plain(old.spec) != _plain(new.spec))
        meta = replace(
            old.meta, labels=new.meta.labels, annotations=new.meta.annotations, finalizers=new.meta.finalizers
        )
        if old.deleting and not meta.finalizers:
            return self._remove(old)
        return self._write("MODIFIED", replace(new, meta=replace(meta, generation=generation), status=old.status))

    async def update_status(
        self, new: Resource, by: str, *, decision: str | None = None, guard: Guard | None = None
    ) -> Resource:
        await asyncio.sleep(0)
        old = self._unmoved(new)
        self._ask(guard)
        if decision:
            self.revisions.append(
                Revision(old.ref, old.meta.uid, len(self.revisions) + 1, decision, by, TIME, old.status, new.status)
            )
        return self._write("MODIFIED", replace(old, status=new.status))

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        await asyncio.sleep(0)
        old = self._stored(ref)
        if uid not in (None, old.meta.uid):
            raise Conflict(f"{ref} is another object")
        self._ask(guard)
        if not old.meta.finalizers:
            self._remove(old)
            return None
        return old if old.deleting else self._write("MODIFIED", replace(old, meta=replace(old.meta, deleted=TIME)))

    async def watch(self, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncIterator[Event]:
        place = int(since)
        while True:
            if place < self.horizon:
                raise Expired("too old")
            while place < self.version:
                event = self.events[place]
                place += 1
                of = event.resource.kind
                if of not in catalog.UNRECORDED if kind is None else of == kind:
                    yield event
            await self._news.wait()

    async def history(self, ref: Ref) -> tuple[Revision, ...]:
        return tuple(revision for revision in self.revisions if revision.ref == ref)

    async def family_history(
        self, model: Ref, *, limit: int | None = None, after: str | None = None
    ) -> tuple[tuple[Revision, ...], str | None]:
        raise NotImplementedError

    def position(self, kind: str) -> str:
        return str(self.version)

    async def close(self) -> None: ...

    def _ask(self, guard: Guard | None) -> None:
        if guard is not None:
            guard(_Present(self.objects))

    def _stored(self, ref: Ref) -> Resource:
        return _Present(self.objects).get(ref)

    def _unmoved(self, new: Resource) -> Resource:
        old = self._stored(new.ref)
        if new.meta.resource_version not in ("", old.meta.resource_version):
            raise Conflict(f"{new.ref} changed")
        return old

    def _write(self, type_: str, new: Resource) -> Resource:
        old = self.objects.get(new.ref)
        if old is not None and _same(old, new):
            return old
        stored = _at(new, self.version + 1)
        self.objects[new.ref] = stored
        self.events.append(Event("ADDED" if type_ == "ADDED" else "MODIFIED", stored))
        self._wake()
        return stored

    def _remove(self, old: Resource) -> Resource:
        del self.objects[old.ref]
        last = _at(old, self.version + 1)
        self.events.append(Event("DELETED", last))
        self._wake()
        return last

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@dataclass(frozen=True, slots=True)
class _Present:
    objects: Mapping[Ref, Resource]

    def get(self, ref: Ref) -> Resource:
        if ref not in self.objects:
            raise NotFound(f"no {ref}")
        return self.objects[ref]

    def list(self, kind: str, where: Where = EVERYTHING) -> tuple[Resource, ...]:
        return tuple(
            item
            for ref, item in sorted(self.objects.items())
            if ref.kind == kind
            and where.namespace in (None, ref.namespace)
            and (where.owner is None or where.owner in {owner.uid for owner in item.meta.owners})
            and all(catalog.field(item, path) == value for path, value in where.fields.items())
            and selectors.holds(where.labels, item.meta.labels)
        )

    def newest(self, kind: str, model: Ref, most: int) -> tuple[Resource, ...]:
        return tuple(reversed(self._of(kind, model)))[:most]

    def count(self, kind: str, model: Ref) -> int:
        return len(self._of(kind, model))

    def _of(self, kind: str, model: Ref) -> tuple[Resource, ...]:
        """Oldest first: a dict keeps the order in which things came."""
        return tuple(
            item
            for ref, item in self.objects.items()
            if (ref.kind, ref.namespace, catalog.model_of(item)) == (kind, model.namespace, model.name)
        )


def _at(resource: Resource, version: int) -> Resource:
    """As it would be read back: through JSON, so that tuples and other shapes that JSON lacks are found out."""
    wire = json.loads(json.dumps(replace(resource, meta=_versioned(resource.meta, version)).wire()))
    return Resource.from_wire(wire)


def _versioned(meta: Meta, version: int) -> Meta:
    return replace(meta, resource_version=str(version))


def _same(old: Resource, new: Resource) -> bool:
    return _plain(replace(new, meta=replace(new.meta, resource_version=old.meta.resource_version)).wire()) == _plain(
        old.wire()
    )


def _plain(data: object) -> str:
    return json.dumps(data, sort_keys=True, default=dict)


class CountingStore(MemoryStore):
    """Knows what was read of it: `gets`, `lists`, and objects `listed`; snapshots count, too."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def get(self, ref: Ref) -> Resource:
        self.reads["gets"] += 1
        return await super().get(ref)

    async def list(
        self, kind: str, where: Where = EVERYTHING, *, limit: int | None = None, after: str | None = None
    ) -> Listing:
        page = await super().list(kind, where, limit=limit, after=after)
        self.reads["lists"] += 1
        self.reads["listed"] += len(page.items)
        return page

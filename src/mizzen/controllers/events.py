"""The recorder of Events, which are kept for an hour and shown by `kubectl describe`.

Best effort. Recording only queues an occurrence; a separate task writes batches later, so that no controller waits for
it. When more occurs than the task can write, the rest is dropped. A repeated occurrence increments the count of its
existing Event.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.events_and_namespaces import EventSource, EventSpec, InvolvedObject
from mizzen.kinds.schema.conditions import EXPECTED_REASONS, PROBLEM_TYPES, REASONS
from mizzen.kinds.schema.resource import (
    API_VERSION,
    DEFAULT_NAMESPACE,
    Condition,
    Meta,
    Ref,
    Resource,
    format_time,
    parse_time,
)
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.apply import ACTOR
from mizzen.reconcile.recorder import EventNote
from mizzen.stores.all_pages import each_at_least_once
from mizzen.stores.store import Guard, Present, Store

KIND = "Event"
COMPONENT = "mizzen"

RETENTION = timedelta(hours=1)
MAX_EVENTS = 5000
MAX_PENDING = 1000
"""Distinct occurrences that may wait to be written; further ones are dropped."""
BATCH = 50
"""Events written together, and so in few transactions."""
PAUSE = 0.2
"""Seconds before each batch: it groups occurrences that belong together and leaves time for other writers."""
PRUNE_INTERVAL = 60.0
"""Seconds between two prunings of old Events when nothing is recorded."""
MAX_MESSAGE = 1024
PAGE = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """Something that happened to an object: how often, and when."""

    resource: Resource
    reason: str
    message: str
    warning: bool
    first: datetime
    last: datetime
    count: int = 1

    @property
    def type(self) -> str:
        return "Warning" if self.warning else "Normal"

    @property
    def ref(self) -> Ref:
        """The Event's name: equal for equal occurrences."""
        meta = self.resource.meta
        same = "\0".join((meta.uid, self.type, self.reason, self.message))
        digest = hashlib.sha256(same.encode(errors="replace")).hexdigest()[:16]
        return Ref(KIND, f"{meta.name}.{digest}", meta.namespace or DEFAULT_NAMESPACE)


class EventRecorder:
    """A Recorder. `run` is the only writer of Events."""

    def __init__(self, store: Store, model_of: Callable[[Resource], str], *, now: Callable[[], datetime]) -> None:
        """`model_of` returns the model whose readers may read an object's Events; empty when there is none."""
        self._store = store
        self._model_of = model_of
        self._now = now
        self._pending: OrderedDict[Ref, _Occurrence] = OrderedDict()
        self._has_pending = asyncio.Event()
        self._stored: OrderedDict[Ref, datetime] = OrderedDict()
        """Every stored Event with the time of its last occurrence, oldest first."""
        self._dropped = 0

    def record_condition(self, resource: Resource, condition: Condition) -> None:
        message = condition.message or REASONS.get(condition.reason, f"{condition.type} is {condition.status}")
        warning = condition.type in PROBLEM_TYPES if condition.true else condition.reason not in EXPECTED_REASONS
        self._record(resource, condition.reason, message, warning=warning)

    def record_created(self, owner: Resource, child: Resource) -> None:
        self._record(owner, "Created", f"created {child.kind} {child.meta.name}")

    def record_deleted(self, owner: Resource, child: Resource) -> None:
        self._record(owner, "Deleted", f"deleted {child.kind} {child.meta.name}")

    def record_note(self, resource: Resource, note: EventNote) -> None:
        self._record(resource, note.reason, note.message, warning=note.warning)

    async def run(self) -> None:
        """Until cancelled."""
        await self._load_stored()
        await self._prune()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PRUNE_INTERVAL):
                    await self._has_pending.wait()
            await asyncio.sleep(PAUSE)
            await self.write()
            await self._prune()

    async def write(self) -> None:
        """Write one batch."""
        batch = [self._pending.popitem(last=False)[1] for _ in range(min(BATCH, len(self._pending)))]
        if not self._pending:
            self._has_pending.clear()
        if self._dropped:
            log.warning("%d events were dropped: too many at once", self._dropped)
            self._dropped = 0
        await self._gather((self._write(happening) for happening in batch), "an event cannot be written")

    def _record(self, resource: Resource, reason: str, message: str, *, warning: bool = False) -> None:
        now = self._now()
        new = _Occurrence(resource, reason, message[:MAX_MESSAGE], warning, now, now)
        same = self._pending.get(new.ref)
        if same is not None:
            self._pending[new.ref] = replace(new, first=same.first, count=same.count + 1)
        elif len(self._pending) >= MAX_PENDING:
            self._dropped += 1
        else:
            self._pending[new.ref] = new
            self._has_pending.set()

    async def _write(self, happening: _Occurrence) -> None:
        ref = happening.ref
        # In this order: a written Event is known to this recorder even if this task is cancelled.
        self._stored[ref] = happening.last
        self._stored.move_to_end(ref)
        try:
            await self._upsert(ref, happening)
        except NotFound:  # its namespace is being deleted, or the Event was just deleted with it
            self._stored.pop(ref, None)

    async def _upsert(self, ref: Ref, happening: _Occurrence) -> None:
        try:
            there = await self._store.get(ref)
        except NotFound:
            await self._store.create(self._event(happening), ACTOR, guard=_namespace_guard(ref.namespace))
            return
        recorded = EventSpec.readable(there.spec)
        update = {
            "count": recorded.count + happening.count,
            "last_timestamp": format_time(happening.last),
            "involved_object": _to_involved_object(happening.resource),
        }
        await self._store.update(replace(there, spec=recorded.model_copy(update=update).wire()), ACTOR)

    def _event(self, happening: _Occurrence) -> Resource:
        model = self._model_of(happening.resource)
        ref = happening.ref
        spec = EventSpec.model_validate(
            {
                "involvedObject": _to_involved_object(happening.resource),
                "reason": happening.reason,
                "message": happening.message,
                "type": happening.type,
                "source": EventSource(component=COMPONENT),
                "reportingComponent": COMPONENT,
                "firstTimestamp": format_time(happening.first),
                "lastTimestamp": format_time(happening.last),
                "count": happening.count,
            }
        )
        return Resource(KIND, Meta(ref.name, ref.namespace, labels={MODEL_LABEL: model} if model else {}), spec.wire())

    async def _prune(self) -> None:
        """Delete expired Events, and the oldest ones when there are too many."""
        before = self._now() - RETENTION
        old: list[Ref] = []
        for ref, last in self._stored.items():
            if last >= before and len(self._stored) - len(old) <= MAX_EVENTS:
                break
            old.append(ref)
        for start in range(0, len(old), BATCH):
            some = old[start : start + BATCH]
            await self._gather((self._delete(ref) for ref in some), "an old event cannot be deleted")

    async def _delete(self, ref: Ref) -> None:
        with suppress(NotFound):
            await self._store.delete(ref, ACTOR)
        self._stored.pop(ref, None)

    async def _load_stored(self) -> None:
        """Find the Events that an earlier plane wrote."""
        found: dict[Ref, datetime] = {}
        async for event in each_at_least_once(self._store, KIND, limit=PAGE):
            recorded = _parse_time(EventSpec.readable(event.spec).last_timestamp)
            found[event.ref] = recorded or event.meta.created or self._now()
        self._stored = OrderedDict(sorted(found.items(), key=lambda pair: pair[1]))

    async def _gather(self, work: Iterable[Coroutine[Any, Any, None]], trouble: str) -> None:
        """Run all at once, so that they share transactions. Failures are logged once and not retried."""
        failures = [one for one in await asyncio.gather(*work, return_exceptions=True) if one is not None]
        for failure in failures:
            if not isinstance(failure, MizzenError):
                raise failure
        if failures:
            log.warning("%s, %d times: %s", trouble, len(failures), failures[0])


def _namespace_guard(namespace: str) -> Guard | None:
    """A guard that raises NotFound when the namespace is gone or being deleted: its Events are deleted with it, and an
    Event written later would be left behind."""
    if namespace == DEFAULT_NAMESPACE:
        return None  # it is never deleted

    def guard(now: Present) -> None:
        if now.get(Ref("Namespace", namespace, "")).deleting:
            raise NotFound(f"namespace {namespace} is being deleted")

    return guard


def _to_involved_object(resource: Resource) -> InvolvedObject:
    meta = resource.meta
    return InvolvedObject(
        api_version=API_VERSION, kind=resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid,
        resource_version=meta.resource_version,
    )  # fmt: skip


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None

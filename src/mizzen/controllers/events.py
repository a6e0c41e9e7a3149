"""What happened to objects, kept for an hour as Events: for who asks `kubectl describe` why something does not answer.

Best effort. The recorder only notes what it is told, and a task of its own writes that down later, several at once: no
controller waits for it, and when more happens than it can write, some of it is not told. The same thing happening to
the same object again counts up in the Event that is there.
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

from mizzen.errors import Expired, MizzenError, NotFound
from mizzen.kinds.events_and_namespaces import EventSpec, InvolvedObject, Source
from mizzen.kinds.schema.conditions import ORDINARY, REASONS, TROUBLES
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
from mizzen.reconcile.recorder import Note
from mizzen.stores.store import Guard, Present, Store

KIND = "Event"
COMPONENT = "mizzen"

KEPT = timedelta(hours=1)
MOST_KEPT = 5000
MOST_WAITING = 1000
"""Different ones that wait to be written; what comes then is dropped."""
AT_ONCE = 50
"""Written together, and so in few transactions."""
PAUSE = 0.2
"""Seconds before each such round: what happens together is written together, and others' writes get their turns."""
LOOK = 60.0
"""Seconds after which old ones are looked for, when nothing happens."""
LONGEST_MESSAGE = 1024
PAGE = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Happening:
    """How often something happened to an object, and when."""

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
        """Of its Event: the same for all that is the same."""
        meta = self.resource.meta
        same = "\0".join((meta.uid, self.type, self.reason, self.message))
        digest = hashlib.sha256(same.encode(errors="replace")).hexdigest()[:16]
        return Ref(KIND, f"{meta.name}.{digest}", meta.namespace or DEFAULT_NAMESPACE)


class Happenings:
    """A Recorder. `run` writes; nothing else writes Events."""

    def __init__(self, store: Store, model_of: Callable[[Resource], str], *, now: Callable[[], datetime]) -> None:
        """`model_of`: the model whose readers may read what happened to an object; empty when there is none."""
        self._store = store
        self._model_of = model_of
        self._now = now
        self._waiting: OrderedDict[Ref, _Happening] = OrderedDict()
        self._some = asyncio.Event()
        self._kept: OrderedDict[Ref, datetime] = OrderedDict()
        """Every Event there is, with when it was last added to; those that were first."""
        self._dropped = 0

    def turned(self, resource: Resource, condition: Condition) -> None:
        message = condition.message or REASONS.get(condition.reason, f"{condition.type} is {condition.status}")
        warning = condition.type in TROUBLES if condition.true else condition.reason not in ORDINARY
        self._happened(resource, condition.reason, message, warning=warning)

    def made(self, owner: Resource, child: Resource) -> None:
        self._happened(owner, "Created", f"created {child.kind} {child.meta.name}")

    def deleted(self, owner: Resource, child: Resource) -> None:
        self._happened(owner, "Deleted", f"deleted {child.kind} {child.meta.name}")

    def noted(self, resource: Resource, note: Note) -> None:
        self._happened(resource, note.reason, note.message, warning=note.warning)

    async def run(self) -> None:
        """Until cancelled."""
        await self._find_kept()
        await self._prune()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._some.wait()
            await asyncio.sleep(PAUSE)
            await self.write()
            await self._prune()

    async def write(self) -> None:
        """One round."""
        batch = [self._waiting.popitem(last=False)[1] for _ in range(min(AT_ONCE, len(self._waiting)))]
        if not self._waiting:
            self._some.clear()
        if self._dropped:
            log.warning("%d events were not written: too much happened at once", self._dropped)
            self._dropped = 0
        await self._all((self._write(happening) for happening in batch), "an event cannot be written")

    def _happened(self, resource: Resource, reason: str, message: str, *, warning: bool = False) -> None:
        now = self._now()
        new = _Happening(resource, reason, message[:LONGEST_MESSAGE], warning, now, now)
        same = self._waiting.get(new.ref)
        if same is not None:
            self._waiting[new.ref] = replace(new, first=same.first, count=same.count + 1)
        elif len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
        else:
            self._waiting[new.ref] = new
            self._some.set()

    async def _write(self, happening: _Happening) -> None:
        ref = happening.ref
        # In this order: an Event that is written is known, whatever becomes of this task.
        self._kept[ref] = happening.last
        self._kept.move_to_end(ref)
        try:
            await self._tell(ref, happening)
        except NotFound:  # its namespace is going, or the Event went with it just now
            self._kept.pop(ref, None)

    async def _tell(self, ref: Ref, happening: _Happening) -> None:
        try:
            there = await self._store.get(ref)
        except NotFound:
            await self._store.create(self._event(happening), ACTOR, guard=_stands(ref.namespace))
            return
        told = EventSpec.readable(there.spec)
        spec = told.model_copy(
            update={
                "count": told.count + happening.count,
                "last_timestamp": format_time(happening.last),
                "involved_object": _involved(happening.resource),
            }
        )
        await self._store.update(replace(there, spec=spec.wire()), ACTOR)

    def _event(self, happening: _Happening) -> Resource:
        model = self._model_of(happening.resource)
        ref = happening.ref
        spec = EventSpec.model_validate(
            {
                "involvedObject": _involved(happening.resource),
                "reason": happening.reason,
                "message": happening.message,
                "type": happening.type,
                "source": Source(component=COMPONENT),
                "reportingComponent": COMPONENT,
                "firstTimestamp": format_time(happening.first),
                "lastTimestamp": format_time(happening.last),
                "count": happening.count,
            }
        )
        return Resource(KIND, Meta(ref.name, ref.namespace, labels={MODEL_LABEL: model} if model else {}), spec.wire())

    async def _prune(self) -> None:
        """What is too old, and the oldest of too many."""
        before = self._now() - KEPT
        old: list[Ref] = []
        for ref, last in self._kept.items():
            if last >= before and len(self._kept) - len(old) <= MOST_KEPT:
                break
            old.append(ref)
        for start in range(0, len(old), AT_ONCE):
            some = old[start : start + AT_ONCE]
            await self._all((self._delete(ref) for ref in some), "an old event cannot be deleted")

    async def _delete(self, ref: Ref) -> None:
        with suppress(NotFound):
            await self._store.delete(ref, ACTOR)
        self._kept.pop(ref, None)

    async def _find_kept(self) -> None:
        """Those that a plane before this one wrote."""
        found: dict[Ref, datetime] = {}
        after: str | None = None
        while True:
            try:
                page = await self._store.list(KIND, limit=PAGE, after=after)
            except Expired:
                after = None  # what was found stays found; too much of it does no harm
                continue
            for event in page.items:
                told = _time(EventSpec.readable(event.spec).last_timestamp)
                found[event.ref] = told or event.meta.created or self._now()
            after = page.next
            if after is None:
                break
        self._kept = OrderedDict(sorted(found.items(), key=lambda pair: pair[1]))

    async def _all(self, work: Iterable[Coroutine[Any, Any, None]], trouble: str) -> None:
        """Together, so that they share transactions. What fails is told once, and not tried again."""
        failures = [one for one in await asyncio.gather(*work, return_exceptions=True) if one is not None]
        for failure in failures:
            if not isinstance(failure, MizzenError):
                raise failure
        if failures:
            log.warning("%s, %d times: %s", trouble, len(failures), failures[0])


def _stands(namespace: str) -> Guard | None:
    """NotFound in a namespace that is gone, or is going: its Events are deleted with all that is in it, and what came
    after that would stay behind."""
    if namespace == DEFAULT_NAMESPACE:
        return None  # it never goes

    def guard(now: Present) -> None:
        if now.get(Ref("Namespace", namespace, "")).deleting:
            raise NotFound(f"namespace {namespace} is going")

    return guard


def _involved(resource: Resource) -> InvolvedObject:
    meta = resource.meta
    return InvolvedObject(
        api_version=API_VERSION, kind=resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid,
        resource_version=meta.resource_version,
    )  # fmt: skip


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None

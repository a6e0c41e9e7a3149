"""What may be deleted when, and what goes with it: the same through both doors, /apis and /model.

A model goes with its versions and with the records of jobs that ended. While something uses it, it stays, unless the
deletion cascades. Whoever asks is answered once the model is marked; only one that has nothing is gone at once:

    marked (finalizer mizzen.dev/cascade) ── servers, jobs, monitor, rollouts deleted ── gone ──> versions and model

Models that are second names of it are somebody else's to delete: with them there, a cascade is refused, too.

From the mark on nothing is added to the model any more; `guards` sees to that. Each step can be repeated, so that a
plane which stops in the middle goes on at its next start (`finish_cascades`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Expired, MizzenError, NotFound
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.admission import create_guards, model_family
from mizzen.server.admission.model_family import Family
from mizzen.server.http.streaming import closing
from mizzen.stores.all_pages import each
from mizzen.stores.store import Event, Guard, Store, Where

log = logging.getLogger(__name__)

CASCADE_FINALIZER = "mizzen.dev/cascade"
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0
"""Seconds until a step that failed is tried again; doubled each time."""

PAGE = 500
AT_ONCE = 100
"""Deletions that are asked for together, and so share transactions; others' writes get their turns in between."""

HOLDING = frozenset({"InferenceModel", "TrainingJob", "Monitor", "Rollout", "ModelVersion"})
"""Kinds whose objects a model waits for."""


async def remove(
    store: Store, ref: Ref, actor: Actor, *, uid: str | None = None, cascade: bool = False
) -> Resource | None:
    """None: gone. Else the object, marked as deleted: it goes as soon as nothing holds it. Conflict, NotFound.

    With `uid`, Conflict when the name belongs to another object by now: for who was allowed to delete that one.
    """
    if ref.kind == "Model":
        return await _remove_model(store, ref, actor, uid, cascade=cascade)
    if ref.kind == "ModelVersion":
        version = await store.get(ref)
        return await store.delete(ref, actor.name, uid=uid or version.meta.uid, guard=create_guards.unneeded(version))
    return await store.delete(ref, actor.name, uid=uid)


async def until_gone(store: Store, resource: Resource) -> None:
    """Returns when this object, not merely its name, is gone."""
    ref = resource.ref
    while True:
        since = await _position(store, ref.kind)
        try:
            if (await store.get(ref)).meta.uid != resource.meta.uid:
                return
            async with closing(store.watch(ref.kind, since)) as events:
                async for event in events:
                    if event.type == "DELETED" and event.resource.meta.uid == resource.meta.uid:
                        return
        except NotFound:
            return
        except Expired:
            continue


async def finish_cascades(store: Store) -> None:
    """Runs for ever, in the plane's task tree: removes models marked by a cascade once nothing of theirs is left.

    Only those are looked at, however many models there are. A step that fails is told once and tried again; raises only
    when the store can no longer be watched.
    """
    marked = _Marked(store)
    failing: frozenset[str] = frozenset()
    delay = FIRST_DELAY
    await marked.look()
    while True:
        failed = set()
        for model in tuple(marked.models.values()):
            try:
                await _finish(marked, model)
            except MizzenError as error:
                failed.add(model.meta.uid)
                if model.meta.uid not in failing:
                    log.warning("%s cannot be removed yet: %s; trying again", model.ref, error)
        failing = frozenset(failed)
        if not failing:
            delay = FIRST_DELAY
            await marked.next_chance()
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await marked.next_chance()
        delay = min(2 * delay, LONGEST_DELAY)


async def finish_cascade(store: Store, model: Resource) -> None:
    """The same for one model, until it is gone: for a caller that waits."""
    marked = _Marked(store, {model.ref: model})
    while True:
        marked.since = await _position(store, "Model")
        if await _finish(marked, model):
            return
        await marked.next_chance()


@dataclass(slots=True)
class _Marked:
    """The models that are being deleted, as far as changes have been seen."""

    store: Store
    models: dict[Ref, Resource] = field(default_factory=dict)
    since: str = ""
    deleters: dict[str, str] = field(default_factory=dict)
    """By uid, as far as somebody asked."""

    async def deleter(self, model: Resource) -> str:
        """Who deleted it: its parts go by that hand. History knows, and need not be read at each step."""
        uid = model.meta.uid
        if uid not in self.deleters:
            named = {"spec.kind": model.kind, "spec.name": model.meta.name}
            where, by = Where(namespace=model.meta.namespace, fields=named), ""
            async with self.store.snapshot() as moment:
                async for one in each(moment, "Revision", where):
                    if (one.spec["uid"], one.spec["action"]) == (uid, "deleted"):
                        by = one.spec["actor"]
            self.deleters[uid] = by
        return self.deleters[uid]

    async def look(self) -> None:
        """At all models, a page at a time: once, and after falling behind."""
        after: str | None = None
        models: dict[Ref, Resource] = {}
        while True:
            try:
                page = await self.store.list("Model", limit=PAGE, after=after)
            except Expired:  # begin anew
                after, models = None, {}
                continue
            models |= {model.ref: model for model in page.items if _is_marked(model)}
            after = page.next
            if after is None:
                break
        # Pages carry the version of the first: what was marked while they were read is seen from there.
        self.models, self.since = models, page.resource_version

    async def next_chance(self) -> None:
        """Until something happens after which a cascade may get further."""
        try:
            async with closing(self.store.watch(None, self.since)) as events:
                async for event in events:
                    self.since = event.resource.meta.resource_version
                    if self._concerned(event):
                        return
        except Expired:  # much happened: have a look
            await self.look()

    def _concerned(self, event: Event) -> bool:
        resource = event.resource
        if resource.kind == "Model":
            if event.type == "DELETED" or not _is_marked(resource):
                self.deleters.pop(resource.meta.uid, None)
                return self.models.pop(resource.ref, None) is not None
            self.models[resource.ref] = resource
            return True
        # What went without having been marked was not waited for.
        return bool(self.models) and resource.kind in HOLDING and event.type == "DELETED" and resource.deleting


def _is_marked(model: Resource) -> bool:
    return model.deleting and CASCADE_FINALIZER in model.meta.finalizers


async def _remove_model(store: Store, ref: Ref, actor: Actor, uid: str | None, *, cascade: bool) -> Resource | None:
    guard = create_guards.without_second_names(ref) if cascade else create_guards.free_to_go(ref)
    model = await store.get(ref)
    if not model.deleting:
        async with store.snapshot() as moment:
            await moment.check(guard)  # refused before anything is written, as far as can be told now
    marked = await _marked(store, ref, actor.name, uid or model.meta.uid, guard)
    if marked is None or not _is_marked(marked):
        return marked
    try:
        return marked if await _has_parts(store, ref) or not await _release(store, marked, actor.name) else None
    except NotFound:  # somebody else was faster
        return None


async def _has_parts(store: Store, model: Ref) -> bool:
    versions = await store.list("ModelVersion", model_family.of_model(model), limit=1)
    return bool(versions.items or _parts(await _around(store, model)))


async def _marked(store: Store, ref: Ref, by: str, uid: str, guard: Guard) -> Resource | None:
    """The model, marked: that makes its removal survive a restart, and keeps all new versions and servers away.

    A finalizer alone changes nothing for a model that is not deleted; it may stay when the guard refuses.
    """
    while CASCADE_FINALIZER not in (model := await store.get(ref)).meta.finalizers and not model.deleting:
        if model.meta.uid != uid:
            break  # another model, which `delete` refuses
        held = replace(model, meta=replace(model.meta, finalizers=(*model.meta.finalizers, CASCADE_FINALIZER)))
        with suppress(Conflict):
            await store.update(held, by)
    return await store.delete(ref, by, uid=uid, guard=guard)


async def _finish(marked: _Marked, model: Resource) -> bool:
    """One more step of a cascade. True: the model is gone."""
    if not _is_marked(model):
        return False
    store = marked.store
    try:
        members = await _around(store, model.ref)
        if members.model.meta.uid != model.meta.uid:
            return True  # the name belongs to another model by now
        by = await marked.deleter(model)
        if not await _all_gone(store, _parts(members), by):
            return False
        while versions := (await store.list("ModelVersion", model_family.of_model(model.ref), limit=AT_ONCE)).items:
            if not await _all_gone(store, versions, by):
                return False
        return await _release(store, members.model, by)
    except NotFound:
        return True


async def _around(store: Store, model: Ref) -> Family:
    found: list[Family] = []
    async with store.snapshot() as moment:
        # Asked as a guard is: one trip to the store for all of it.
        await moment.check(lambda now: found.append(model_family.around(now, model)))
    return found[0]


def _parts(members: Family) -> tuple[Resource, ...]:
    """What goes before a model's versions do."""
    return (*members.servers, *members.jobs, *members.monitors, *members.rollouts)


async def _release(store: Store, model: Resource, by: str) -> bool:
    while True:
        finalizers = tuple(name for name in model.meta.finalizers if name != CASCADE_FINALIZER)
        try:
            await store.update(replace(model, meta=replace(model.meta, finalizers=finalizers)), by)
        except Conflict:
            now = await store.get(model.ref)
            if now.meta.uid != model.meta.uid:
                return True
            model = now
            continue
        return not finalizers


async def _all_gone(store: Store, resources: tuple[Resource, ...], by: str) -> bool:
    asked = [item for item in resources if not item.deleting]
    gone: list[bool] = []
    for start in range(0, len(asked), AT_ONCE):
        gone += await asyncio.gather(*(_gone(store, item, by) for item in asked[start : start + AT_ONCE]))
    return gone.count(True) == len(resources)


async def _gone(store: Store, resource: Resource, by: str) -> bool:
    try:
        return await store.delete(resource.ref, by, uid=resource.meta.uid) is None
    except (NotFound, Conflict):  # gone, or its name is another object's by now
        return True


async def _position(store: Store, kind: str) -> str:
    return (await store.list(kind, Where(), limit=1)).resource_version

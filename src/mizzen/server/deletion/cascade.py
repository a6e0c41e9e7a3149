"""Deletion: which objects may be deleted, and which others go with them; the same for both APIs, /apis and /model.

Deleting a model deletes its versions and the records of its ended jobs. A model in use is not deleted, unless the
deletion cascades. The caller gets a response once the model is marked; a model without any parts is gone at once:

    marked (finalizer mizzen.dev/cascade) ── servers, jobs, monitor, rollouts deleted ── gone ──> versions and model

A cascade does not delete second names of the model, and is refused while there are any.

Nothing can be added to a marked model; `create_guards` ensures that. Each step can be repeated, so a plane that stops
in the middle continues after its next start (`finish_cascades`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Expired, MizzenError, NotFound
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.server.admission import model_family
from mizzen.server.admission.model_family import ModelObjects
from mizzen.server.deletion import guards
from mizzen.server.http.context import ServerContext
from mizzen.server.http.streaming import aclose_on_exit
from mizzen.stores.all_pages import each
from mizzen.stores.store import Event, Guard, Store, Where

log = logging.getLogger(__name__)

CASCADE_FINALIZER = "mizzen.dev/cascade"
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0
"""Seconds until a failed step is retried; doubled each time."""

PAGE = 500
BATCH = 100
"""Deletions that run concurrently, and so share transactions; other writes get their turns in between."""

BLOCKING_KINDS = frozenset({"InferenceModel", "TrainingJob", "Monitor", "Rollout", "ModelVersion"})
"""Kinds whose objects must be gone before their model."""


async def remove(
    context: ServerContext, ref: Ref, actor: Actor, *, uid: str | None = None, cascade: bool = False
) -> Resource | None:
    """As `remove_object`. The checkpoints of a model or version are removed with it."""
    left = await remove_object(context.store, ref, actor, uid=uid, cascade=cascade)
    if left is None:
        await _remove_checkpoints(context, ref)
    return left


async def remove_object(
    store: Store, ref: Ref, actor: Actor, *, uid: str | None = None, cascade: bool = False
) -> Resource | None:
    """Returns None if the object is gone; else the object, marked as deleted: it goes when nothing holds it.

    Raises Conflict, NotFound. With `uid`, Conflict if the name belongs to another object by now: the caller was
    authorized to delete only that one.
    """
    if ref.kind == "Model":
        return await _remove_model(store, ref, actor, uid, cascade=cascade)
    if ref.kind == "ModelVersion":
        version = await store.get(ref)
        return await store.delete(
            ref, actor.name, uid=uid or version.meta.uid, guard=guards.require_unused_version(version)
        )
    return await store.delete(ref, actor.name, uid=uid)


async def until_gone(store: Store, resource: Resource) -> None:
    """Returns when this object is gone, even if another object has its name."""
    ref = resource.ref
    while True:
        since = await _position_of(store, ref.kind)
        try:
            if (await store.get(ref)).meta.uid != resource.meta.uid:
                return
            async with aclose_on_exit(store.watch(ref.kind, since)) as events:
                async for event in events:
                    if event.type == "DELETED" and event.resource.meta.uid == resource.meta.uid:
                        return
        except NotFound:
            return
        except Expired:
            continue


async def finish_cascades(store: Store) -> None:
    """Runs forever, in the plane's task tree: removes models marked by a cascade once all their parts are gone.

    Reads only those, however many models there are. Logs a failed step once and retries it. Raises only if the store
    can no longer be watched.
    """
    marked = _MarkedModels(store)
    failing: frozenset[str] = frozenset()
    delay = FIRST_DELAY
    await marked.reload()
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
            await marked.wait_for_change()
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await marked.wait_for_change()
        delay = min(2 * delay, LONGEST_DELAY)


async def finish_cascade(context: ServerContext, model: Resource) -> None:
    """The same for one model, until it and its checkpoints are gone: for a caller that waits."""
    marked = _MarkedModels(context.store, {model.ref: model})
    while True:
        marked.since = await _position_of(context.store, "Model")
        if await _finish(marked, model):
            break
        await marked.wait_for_change()
    await _remove_checkpoints(context, model.ref)


async def _remove_checkpoints(context: ServerContext, gone: Ref) -> None:
    """Removes the checkpoints of a model or version that is gone. Garbage collection removes those that this cannot."""
    if gone.kind not in ("Model", "ModelVersion"):
        return
    model, _, version = gone.name.partition(".")
    prefix = f"{gone.namespace}/{model}/" + (f"{version}/" if gone.kind == "ModelVersion" else "")
    until = context.now().timestamp()

    def remove_all() -> None:
        for one in context.checkpoints.all(prefix):
            if one.created <= until:
                context.checkpoints.remove(one)

    try:
        await asyncio.to_thread(remove_all)
    except MizzenError as error:
        log.warning("cannot remove the checkpoints of %s, which is gone: %s; they are collected later", gone, error)


@dataclass(slots=True)
class _MarkedModels:
    """The models that are being deleted, as of the last change seen."""

    store: Store
    models: dict[Ref, Resource] = field(default_factory=dict)
    since: str = ""
    deleters: dict[str, str] = field(default_factory=dict)
    """The known deleters, by uid of the model."""

    async def find_deleter(self, model: Resource) -> str:
        """Returns the actor that deleted the model: its parts are deleted in that name. Reads history only once."""
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

    async def reload(self) -> None:
        """Reads all models, a page at a time: once, and after falling behind."""
        after: str | None = None
        models: dict[Ref, Resource] = {}
        while True:
            try:
                page = await self.store.list("Model", limit=PAGE, after=after)
            except Expired:  # start over
                after, models = None, {}
                continue
            models |= {model.ref: model for model in page.items if _is_marked(model)}
            after = page.next
            if after is None:
                break
        # All pages have the version of the first one: a watch from there sees models marked in between.
        self.models, self.since = models, page.resource_version

    async def wait_for_change(self) -> None:
        """Waits for a change after which a cascade may make progress."""
        try:
            async with aclose_on_exit(self.store.watch(None, self.since)) as events:
                async for event in events:
                    self.since = event.resource.meta.resource_version
                    if self._is_relevant(event):
                        return
        except Expired:  # fell behind
            await self.reload()

    def _is_relevant(self, event: Event) -> bool:
        resource = event.resource
        if resource.kind == "Model":
            if event.type == "DELETED" or not _is_marked(resource):
                self.deleters.pop(resource.meta.uid, None)
                return self.models.pop(resource.ref, None) is not None
            self.models[resource.ref] = resource
            return True
        # No cascade waited for an object that was deleted without a mark.
        return bool(self.models) and resource.kind in BLOCKING_KINDS and event.type == "DELETED" and resource.deleting


def _is_marked(model: Resource) -> bool:
    return model.deleting and CASCADE_FINALIZER in model.meta.finalizers


async def _remove_model(store: Store, ref: Ref, actor: Actor, uid: str | None, *, cascade: bool) -> Resource | None:
    guard = guards.require_no_second_names(ref) if cascade else guards.require_removable(ref)
    model = await store.get(ref)
    if not model.deleting:
        async with store.snapshot() as moment:
            await moment.check(guard)  # refuse early, before anything is written
    marked = await _mark(store, ref, actor.name, uid or model.meta.uid, guard)
    if marked is None or not _is_marked(marked):
        return marked
    try:
        return marked if await _has_parts(store, ref) or not await _release(store, marked, actor.name) else None
    except NotFound:  # another caller removed it meanwhile
        return None


async def _has_parts(store: Store, model: Ref) -> bool:
    versions = await store.list("ModelVersion", model_family.where_model(model), limit=1)
    return bool(versions.items or _parts_of(await _related_objects(store, model)))


async def _mark(store: Store, ref: Ref, by: str, uid: str, guard: Guard) -> Resource | None:
    """Marks the model: then its removal survives a restart, and new versions and servers are refused.

    The finalizer has no effect on a model that is not deleted, so it may stay if the guard refuses.
    """
    while CASCADE_FINALIZER not in (model := await store.get(ref)).meta.finalizers and not model.deleting:
        if model.meta.uid != uid:
            break  # another model: `delete` refuses it
        held = replace(model, meta=replace(model.meta, finalizers=(*model.meta.finalizers, CASCADE_FINALIZER)))
        with suppress(Conflict):
            await store.update(held, by)
    return await store.delete(ref, by, uid=uid, guard=guard)


async def _finish(marked: _MarkedModels, model: Resource) -> bool:
    """Runs one step of a cascade. Returns whether the model is gone."""
    if not _is_marked(model):
        return False
    store = marked.store
    try:
        members = await _related_objects(store, model.ref)
        if members.model.meta.uid != model.meta.uid:
            return True  # the name belongs to another model by now
        by = await marked.find_deleter(model)
        if not await _delete_all(store, _parts_of(members), by):
            return False
        while versions := (await store.list("ModelVersion", model_family.where_model(model.ref), limit=BATCH)).items:
            if not await _delete_all(store, versions, by):
                return False
        return await _release(store, members.model, by)
    except NotFound:
        return True


async def _related_objects(store: Store, model: Ref) -> ModelObjects:
    async with store.snapshot() as moment:
        return await model_family.read_at_once(moment, lambda now: model_family.gather_related(now, model))


def _parts_of(members: ModelObjects) -> tuple[Resource, ...]:
    """Returns the objects that must be deleted before the versions."""
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


async def _delete_all(store: Store, resources: tuple[Resource, ...], by: str) -> bool:
    to_delete = [item for item in resources if not item.deleting]
    gone: list[bool] = []
    for start in range(0, len(to_delete), BATCH):
        gone += await asyncio.gather(*(_delete(store, item, by) for item in to_delete[start : start + BATCH]))
    return gone.count(True) == len(resources)


async def _delete(store: Store, resource: Resource, by: str) -> bool:
    try:
        return await store.delete(resource.ref, by, uid=resource.meta.uid) is None
    except (NotFound, Conflict):  # gone, or its name is another object's by now
        return True


async def _position_of(store: Store, kind: str) -> str:
    return (await store.list(kind, Where(), limit=1)).resource_version

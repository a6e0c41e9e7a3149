"""Writing a controller's decision to the store: children, status and finalizers.

Unchanged state is not written: every write is an event, and an event wakes the controller that caused it. Each write is
reported to an EventSink here, because no other module knows which writes happened.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mizzen.errors import AlreadyExists, Conflict, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import CHILDREN_FINALIZER, Resource, Status, merge_conditions
from mizzen.reconcile.controller import Decision, Facts, WatchedStore
from mizzen.reconcile.recorder import NULL_RECORDER, EventSink, find_condition_changes

ACTOR = "system"
"""The author of writes that no user decided."""


async def apply(
    store: WatchedStore, facts: Facts, decision: Decision, now: datetime, recorder: EventSink = NULL_RECORDER
) -> bool:
    """False: an object changed between reading and writing, so the facts are stale; reconcile again at once.

    That cannot spin: each such failure means that another writer's write succeeded.
    """
    write = _release if facts.resource.deleting else _converge
    try:
        await write(store, recorder, facts, decision, now)
    except (Conflict, NotFound):
        return False
    return True


async def _converge(store: WatchedStore, recorder: EventSink, facts: Facts, decision: Decision, now: datetime) -> None:
    owner = facts.resource
    if decision.children:
        owner = await _add_finalizer(store, owner)
    there = {child.ref: child for child in facts.children}
    for wanted in decision.children:
        await _write_child(store, recorder, owner, there.pop(wanted.ref, None), wanted)
    # The status is written before children are deleted: it must never point readers at a child that is going away.
    owner = await _write_status(store, recorder, owner, decision, now)
    for unwanted in there.values():
        await _delete(store, recorder, owner, unwanted)
    await _drop_finalizers(store, owner, decision.drop_finalizers)
    if decision.remove:
        await store.delete(owner.ref, ACTOR, uid=owner.meta.uid)


async def _release(store: WatchedStore, recorder: EventSink, facts: Facts, decision: Decision, now: datetime) -> None:
    """The resource is being deleted: delete its children first, then remove its finalizers."""
    owner = facts.resource
    gone = [await _delete(store, recorder, owner, child) for child in facts.children]
    drop = decision.drop_finalizers | ({CHILDREN_FINALIZER} if all(gone) else set())
    if set(owner.meta.finalizers) - drop:
        owner = await _write_status(store, recorder, owner, decision, now)
    await _drop_finalizers(store, owner, drop)


async def _add_finalizer(store: WatchedStore, owner: Resource) -> Resource:
    """Before the first child exists: without the finalizer, a deletion at this moment would orphan that child."""
    if CHILDREN_FINALIZER in owner.meta.finalizers:
        return owner
    finalizers = (*owner.meta.finalizers, CHILDREN_FINALIZER)
    return await store.update(replace(owner, meta=replace(owner.meta, finalizers=finalizers)), ACTOR)


async def _write_child(
    store: WatchedStore, recorder: EventSink, owner: Resource, there: Resource | None, wanted: Resource
) -> None:
    if there is None:
        recorder.record_created(owner, await _create(store, owner, wanted))
        return
    labels, annotations = wanted.meta.labels, wanted.meta.annotations
    same = (there.spec, there.meta.labels, there.meta.annotations) == (wanted.spec, labels, annotations)
    # A child that is being deleted is not changed. Its end wakes the owner, which then creates it again.
    if same or there.deleting:
        return
    meta = replace(there.meta, labels=labels, annotations=annotations)
    await store.update(replace(there, meta=meta, spec=wanted.spec), ACTOR)


async def _create(store: WatchedStore, owner: Resource, wanted: Resource) -> Resource:
    meta = replace(wanted.meta, owners=(owner.as_owner,), finalizers=catalog.of(wanted).finalizers)
    try:
        return await store.create(replace(wanted, meta=meta), ACTOR)
    except AlreadyExists:
        there = await store.get(wanted.ref)
        if there.is_owned_by(owner):
            raise Conflict(f"{wanted.ref} was created meanwhile") from None
        raise


async def _delete(store: WatchedStore, recorder: EventSink, owner: Resource, child: Resource) -> bool:
    """True: gone. False: marked as deleted, and a finalizer still holds it."""
    if child.deleting:
        return False
    left = await store.delete(child.ref, ACTOR, uid=child.meta.uid)
    recorder.record_deleted(owner, child)
    return left is None


async def _write_status(
    store: WatchedStore, recorder: EventSink, resource: Resource, decision: Decision, now: datetime
) -> Resource:
    if decision.status is None:
        return resource
    generation = resource.meta.generation
    conditions = merge_conditions(
        Status.of(resource).conditions, decision.status.conditions, generation=generation, now=now
    )
    status = decision.status.model_copy(update={"observed_generation": generation, "conditions": conditions})
    new = resource.with_status(status)
    if new.status == resource.status:
        return resource
    written = await store.update_status(new, decision.actor or ACTOR, decision=decision.decision, guard=decision.guard)
    for condition in find_condition_changes(resource, written):
        recorder.record_condition(written, condition)
    for note in decision.notes:
        recorder.record_note(written, note)
    return written


async def _drop_finalizers(store: WatchedStore, resource: Resource, drop: frozenset[str]) -> None:
    left = tuple(name for name in resource.meta.finalizers if name not in drop)
    if left != resource.meta.finalizers:
        await store.update(replace(resource, meta=replace(resource.meta, finalizers=left)), ACTOR)

"""What may be deleted when, and what goes with it: the same through both doors, /apis and /model.

A model goes with its versions. While something serves them, it stays, unless the deletion cascades:

    marked (finalizer mizzen.dev/cascade) ── its servers deleted ── all of them gone ──> versions and model deleted

Each step can be repeated, so that a plane which stops in the middle goes on at its next start (`finish_cascades`).
"""

from __future__ import annotations

from dataclasses import replace

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Expired, Fault, NotFound
from mizzen.kinds.meta import Ref, Resource
from mizzen.server import family
from mizzen.server.family import Family, version_of
from mizzen.server.plane import SnapshotStore
from mizzen.server.streams import closing
from mizzen.stores.store import Event, Where

CASCADE_FINALIZER = "mizzen.dev/cascade"


async def remove(store: SnapshotStore, ref: Ref, actor: Actor, *, cascade: bool = False) -> Resource | None:
    """None: gone. Else the object, marked as deleted: it goes as soon as nothing holds it. Conflict, NotFound."""
    if ref.kind == "Model":
        return await _remove_model(store, ref, actor, cascade=cascade)
    if ref.kind == "ModelVersion":
        await _refuse_needed_version(store, await store.get(ref))
    return await store.delete(ref, actor.name)


async def until_gone(store: SnapshotStore, resource: Resource) -> None:
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


async def finish_cascades(store: SnapshotStore) -> None:
    """Runs for ever, in the plane's task tree: removes models marked by a cascade once their servers are gone."""
    while True:
        since = await _position(store, "Model")
        for model in (await store.list("Model")).items:
            await _finish(store, model)
        await _next_chance(store, since)


async def finish_cascade(store: SnapshotStore, model: Resource) -> None:
    """The same for one model, until it is gone: for a caller that waits."""
    while True:
        since = await _position(store, "Model")
        if await _finish(store, model):
            return
        await _next_chance(store, since)


async def _remove_model(store: SnapshotStore, ref: Ref, actor: Actor, *, cascade: bool) -> Resource | None:
    members = await family.load(store, ref)
    if members.servers and not (cascade or members.model.deleting):
        raise _in_the_way(ref, members.servers, "add ?cascade=true to end the servers first")
    if not members.servers and not members.model.deleting:
        await _remove_versions(store, members, actor.name)
        return await store.delete(ref, actor.name, uid=members.model.meta.uid)
    marked = await _mark(store, members.model, actor.name)
    return None if marked is None or await _finish(store, marked) else marked


async def _refuse_needed_version(store: SnapshotStore, version: Resource) -> None:
    model = Ref("Model", str(version.spec.get("modelName")), version.meta.namespace)
    try:
        members = await family.load(store, model)
    except NotFound:
        return
    current = members.model.status.get("current") or {}
    if current.get("version") == version_of(version):
        raise Conflict(f"{version.ref} is the current version of {model}", hint="make another version current first")
    servers = members.serving(version_of(version))
    if servers:
        raise _in_the_way(version.ref, servers, "end these servers first")


def _in_the_way(ref: Ref, servers: tuple[Resource, ...], hint: str) -> Conflict:
    faults = tuple(Fault(str(server.ref), f"serves version {version_of(server)}") for server in servers)
    return Conflict(f"{ref} is in use: " + "; ".join(map(str, faults)), hint=hint, faults=faults)


async def _mark(store: SnapshotStore, model: Resource, by: str) -> Resource | None:
    """The mark is what makes a cascade survive a restart. None when the model is already gone."""
    uid = model.meta.uid
    while not model.deleting:
        finalizers = tuple(dict.fromkeys((*model.meta.finalizers, CASCADE_FINALIZER)))
        try:
            await store.update(replace(model, meta=replace(model.meta, finalizers=finalizers)), by)
            return await store.delete(model.ref, by, uid=uid)
        except Conflict:
            model = await store.get(model.ref)
            if model.meta.uid != uid:
                return None
    return model


async def _finish(store: SnapshotStore, model: Resource) -> bool:
    """One more step of a cascade. True: the model is gone. Its parts go by the hand of whoever deleted it."""
    if not (model.deleting and CASCADE_FINALIZER in model.meta.finalizers):
        return False
    try:
        members = await family.load(store, model.ref)
        if members.model.meta.uid != model.meta.uid:
            return True  # the name belongs to another model by now
        by = next((entry.actor for entry in reversed(await store.history(model.ref)) if entry.action == "deleted"), "")
        left = [server for server in members.servers if not await _gone(store, server, by)]
        if left:
            return False
        await _remove_versions(store, members, by)
        return await _release(store, members.model, by)
    except NotFound:
        return True


async def _release(store: SnapshotStore, model: Resource, by: str) -> bool:
    while True:
        finalizers = tuple(name for name in model.meta.finalizers if name != CASCADE_FINALIZER)
        try:
            await store.update(replace(model, meta=replace(model.meta, finalizers=finalizers)), by)
        except Conflict:
            model = await store.get(model.ref)
            continue
        return not finalizers


async def _remove_versions(store: SnapshotStore, members: Family, by: str) -> None:
    for version in members.versions:
        await _gone(store, version, by)


async def _gone(store: SnapshotStore, resource: Resource, by: str) -> bool:
    try:
        return await store.delete(resource.ref, by, uid=resource.meta.uid) is None
    except (NotFound, Conflict):  # gone, or its name is another object's by now
        return True


async def _position(store: SnapshotStore, kind: str) -> str:
    return (await store.list(kind, Where(), limit=1)).resource_version


async def _next_chance(store: SnapshotStore, since: str) -> None:
    """Until something happens after which a cascade may get further."""
    try:
        async with closing(store.watch(None, since)) as events:
            async for event in events:
                if _may_free_a_model(event):
                    return
    except Expired:  # much happened: have a look
        return


def _may_free_a_model(event: Event) -> bool:
    if event.resource.kind == "InferenceModel":
        return event.type == "DELETED"
    return event.resource.kind == "Model" and event.type == "MODIFIED" and event.resource.deleting

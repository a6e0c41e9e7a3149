"""Namespaces that were deleted: all in them goes, then they do. Each step can be repeated, also by the next plane.

Models go first, each with all that is its own, and everything else that people wrote; then what has lost its model or
its owner; then secrets, and at last who may do what there, so that whoever waits for the end may see it come.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Expired, MizzenError, NotFound
from mizzen.kinds.schema.resource import Resource
from mizzen.server.admission import namespaced_store
from mizzen.server.deletion import cascade
from mizzen.server.http.streaming import closing
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Event, Present, Store, Where

log = logging.getLogger(__name__)

FOLLOWING = ("ModelVersion", "Workload")
"""They go with the objects they belong to."""
LAST = "RoleBinding"
STEPS: tuple[tuple[str, ...], ...] = (
    tuple(kind for kind in namespaced_store.INHABITANTS if kind not in (*FOLLOWING, LAST)),
    FOLLOWING,
    (LAST,),
)
EVENTS = "Event"
AT_ONCE = 100
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0
"""Seconds until a step that failed is tried again; doubled each time."""


async def keep_emptying(store: Store, vault: Vault) -> None:
    """Runs for ever, in the plane's task tree. A step that fails is told once and tried again; raises only when the
    store can no longer be read or watched."""
    failing: frozenset[str] = frozenset()
    delay = FIRST_DELAY
    while True:
        listing = await store.list(namespaced_store.KIND)
        going = [item for item in listing.items if _held(item)]
        failed = set()
        for namespace in going:
            try:
                await empty(store, vault, namespace)
            except MizzenError as error:
                failed.add(namespace.meta.uid)
                if namespace.meta.uid not in failing:
                    log.warning("namespace %s is not empty yet: %s; trying again", namespace.meta.name, error)
        failing = frozenset(failed)
        delay = min(2 * delay, LONGEST_DELAY) if failing else FIRST_DELAY
        with suppress(TimeoutError):
            async with asyncio.timeout(delay if failing else None):
                await _next_chance(store, {item.meta.name for item in going}, listing.resource_version)


async def empty(store: Store, vault: Vault, namespace: Resource) -> bool:
    """One more step. True: nothing of ours holds it any longer."""
    name = namespace.meta.name
    actor = Actor(await _deleter(store, namespace))
    for kinds in STEPS:
        if kinds == (LAST,):
            for secret in await vault.list(name):
                with suppress(NotFound):
                    await vault.delete(name, secret.name)
        if not all([await _all_gone(store, kind, name, actor) for kind in kinds]):
            return False
    await _all_gone(store, EVENTS, name, actor)
    return await _release(store, namespace, actor.name)


async def _all_gone(store: Store, kind: str, namespace: str, actor: Actor) -> bool:
    """Whether nothing of the kind is left there, once all of it was asked to go."""
    where = Where(namespace=namespace)
    after: str | None = None
    left = False
    while True:
        page = await store.list(kind, where, limit=AT_ONCE, after=after)
        asked = [item for item in page.items if not item.deleting]
        gone = await asyncio.gather(*(_gone(store, item, actor) for item in asked))
        left = left or gone.count(True) < len(page.items)
        after = page.next
        if after is None:
            return not left


async def _gone(store: Store, resource: Resource, actor: Actor) -> bool:
    try:
        if resource.kind == "Model":
            left = await cascade.remove(store, resource.ref, actor, uid=resource.meta.uid, cascade=True)
        else:
            # Not as people delete: what would speak against it is on its way, too.
            left = await store.delete(resource.ref, actor.name, uid=resource.meta.uid)
    except NotFound:
        return True
    except Conflict:  # a second name of this model, or another object of its name, goes first
        return False
    return left is None


async def _release(store: Store, namespace: Resource, by: str) -> bool:
    name = namespace.meta.name

    def still_empty(now: Present) -> None:
        for kind in namespaced_store.INHABITANTS:
            if now.list(kind, Where(namespace=name)):
                raise Conflict(f"there is something in namespace {name} again")

    while True:
        try:
            found = await store.get(namespaced_store.ref(name))
            if found.meta.uid != namespace.meta.uid or not _held(found):
                return True
            others = tuple(one for one in found.meta.finalizers if one != namespaced_store.FINALIZER)
            await store.update(replace(found, meta=replace(found.meta, finalizers=others)), by, guard=still_empty)
        except NotFound:
            return True
        except Conflict:
            if (await store.get(namespaced_store.ref(name))).meta.resource_version == found.meta.resource_version:
                raise  # nobody wrote it: it was the guard
            continue
        return True


async def _next_chance(store: Store, going: Collection[str], since: str) -> None:
    """Until something happens after which one may get further."""
    try:
        async with closing(store.watch(None if going else namespaced_store.KIND, since)) as events:
            async for event in events:
                if _concerned(event, going):
                    return
    except Expired:
        return


def _concerned(event: Event, going: Collection[str]) -> bool:
    resource = event.resource
    if resource.kind == namespaced_store.KIND:
        return event.type != "DELETED" and _held(resource) and resource.meta.name not in going
    return event.type == "DELETED" and resource.meta.namespace in going


def _held(namespace: Resource) -> bool:
    return namespace.deleting and namespaced_store.FINALIZER in namespace.meta.finalizers


async def _deleter(store: Store, namespace: Resource) -> str:
    """Who deleted it: all in it goes by that hand."""
    history = reversed(await store.history(namespace.ref))
    by = (entry.actor for entry in history if (entry.uid, entry.action) == (namespace.meta.uid, "deleted"))
    return next(by, namespaced_store.SYSTEM)

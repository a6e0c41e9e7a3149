"""Deleted namespaces: everything in them is deleted, then they are. Each step can be repeated, also after a restart.

Models go first, each with everything that it owns, and all other objects that people wrote; then objects that lost
their model or owner; then secrets, and last the RoleBindings, so that a caller that waits for the end may still see it.
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
from mizzen.server.http.streaming import aclose_on_exit
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Event, Present, Store, Where

log = logging.getLogger(__name__)

OWNED_KINDS = ("ModelVersion", "Workload")
"""Kinds that are deleted with the objects they belong to."""
LAST = "RoleBinding"
STEPS: tuple[tuple[str, ...], ...] = (
    tuple(kind for kind in namespaced_store.NAMESPACED_KINDS if kind not in (*OWNED_KINDS, LAST)),
    OWNED_KINDS,
    (LAST,),
)
EVENTS = "Event"
BATCH = 100
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0
"""Seconds until a failed step is retried; doubled each time."""


async def keep_emptying(store: Store, vault: Vault) -> None:
    """Runs forever, in the plane's task tree. Logs a failed step once and retries it. Raises only if the store can no
    longer be read or watched."""
    failing: frozenset[str] = frozenset()
    delay = FIRST_DELAY
    while True:
        listing = await store.list(namespaced_store.KIND)
        going = [item for item in listing.items if _is_held(item)]
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
                await _wait_for_change(store, {item.meta.name for item in going}, listing.resource_version)


async def empty(store: Store, vault: Vault, namespace: Resource) -> bool:
    """Runs one step. Returns whether none of our objects holds the namespace any longer."""
    name = namespace.meta.name
    actor = Actor(await _find_deleter(store, namespace))
    for kinds in STEPS:
        if kinds == (LAST,):
            for secret in await vault.list(name):
                with suppress(NotFound):
                    await vault.delete(name, secret.name)
        if not all([await _delete_all(store, kind, name, actor) for kind in kinds]):
            return False
    await _delete_all(store, EVENTS, name, actor)
    return await _release(store, namespace, actor.name)


async def _delete_all(store: Store, kind: str, namespace: str, actor: Actor) -> bool:
    """Deletes all objects of the kind. Returns whether none is left."""
    where = Where(namespace=namespace)
    after: str | None = None
    left = False
    while True:
        page = await store.list(kind, where, limit=BATCH, after=after)
        gone = await asyncio.gather(*(_delete(store, item, actor) for item in page.items if not item.deleting))
        left = left or gone.count(True) < len(page.items)
        after = page.next
        if after is None:
            return not left


async def _delete(store: Store, resource: Resource, actor: Actor) -> bool:
    try:
        if resource.kind == "Model":
            left = await cascade.remove_object(store, resource.ref, actor, uid=resource.meta.uid, cascade=True)
        else:
            # Without the guards of a caller's deletion: what they check is being deleted, too.
            left = await store.delete(resource.ref, actor.name, uid=resource.meta.uid)
    except NotFound:
        return True
    except Conflict:  # a second name of this model, or another object with its name, has to go first
        return False
    return left is None


async def _release(store: Store, namespace: Resource, by: str) -> bool:
    name = namespace.meta.name

    def still_empty(now: Present) -> None:
        for kind in namespaced_store.NAMESPACED_KINDS:
            if now.list(kind, Where(namespace=name)):
                raise Conflict(f"namespace {name} has new objects")

    while True:
        try:
            found = await store.get(namespaced_store.ref_of(name))
            if found.meta.uid != namespace.meta.uid or not _is_held(found):
                return True
            others = tuple(one for one in found.meta.finalizers if one != namespaced_store.FINALIZER)
            await store.update(replace(found, meta=replace(found.meta, finalizers=others)), by, guard=still_empty)
        except NotFound:
            return True
        except Conflict:
            if (await store.get(namespaced_store.ref_of(name))).meta.resource_version == found.meta.resource_version:
                raise  # no other writer: the guard refused
            continue
        return True


async def _wait_for_change(store: Store, going: Collection[str], since: str) -> None:
    """Waits for a change after which a namespace may make progress."""
    try:
        async with aclose_on_exit(store.watch(None if going else namespaced_store.KIND, since)) as events:
            async for event in events:
                if _is_relevant(event, going):
                    return
    except Expired:
        return


def _is_relevant(event: Event, going: Collection[str]) -> bool:
    resource = event.resource
    if resource.kind == namespaced_store.KIND:
        return event.type != "DELETED" and _is_held(resource) and resource.meta.name not in going
    return event.type == "DELETED" and resource.meta.namespace in going


def _is_held(namespace: Resource) -> bool:
    return namespace.deleting and namespaced_store.FINALIZER in namespace.meta.finalizers


async def _find_deleter(store: Store, namespace: Resource) -> str:
    """Returns the actor that deleted the namespace: its content is deleted in that name."""
    history = reversed(await store.history(namespace.ref))
    by = (entry.actor for entry in history if (entry.uid, entry.action) == (namespace.meta.uid, "deleted"))
    return next(by, namespaced_store.SYSTEM)

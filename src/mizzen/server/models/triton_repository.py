"""Load and unload, as Triton's clients ask for it at a gateway, which hands it on to here: the servers of a model get
their replicas, or lose them. Answered when it is so.

How many there were is kept in an annotation of each server, so that loading brings back as many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, DeadlineExceeded, NotFound
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Ref, Resource, Status
from mizzen.server.admission import model_family
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import while_wanted
from mizzen.server.models import servers, views
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

REPLICAS_ANNOTATION = "mizzen.dev/replicas"
"""Of a server that was unloaded: how many it had."""
WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.05

_HOPELESS = frozenset({"LoadFailed", "CrashLoop", "Failed", "UnsupportedFramework", "NoFiles"})


def routes() -> list[Route]:
    return [
        Route("/v2/repository/models/{model}/load", load, methods=["POST"]),
        Route("/v2/repository/models/{model}/unload", unload, methods=["POST"]),
    ]


async def load(request: Request) -> Response:
    """Servers that have none get their replicas back; a model without servers gets one of its current version."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    store = plane_of(request).store
    found = await _servers(request, store, ref)
    if not found:
        found = [await _served(request, ref, actor)]
    for server in found:
        await _scale(store, server.ref, actor, _before)
    return await _when(request, ref, found, _loaded)


async def unload(request: Request) -> Response:
    """All its servers stay, without replicas."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    store = plane_of(request).store
    found = await _servers(request, store, ref)
    for server in found:
        await _scale(store, server.ref, actor, lambda _server: 0)
    return await _when(request, ref, found, _unloaded)


async def _servers(request: Request, store: Store, ref: Ref) -> list[Resource]:
    """Those of a model; or the one that has the name, where that is no model's."""
    async with store.snapshot() as moment:
        try:
            model = await moment.get(ref)
        except NotFound:
            one = await moment.get(Ref("InferenceModel", ref.name, ref.namespace))
            found = [one]
        else:
            model_family.refuse_deleting(model)
            model_family.refuse_second_name(model, "it is loaded and unloaded as that one")
            found = [item async for item in each(moment, "InferenceModel", model_family.of_model(ref))]
    living = [server for server in found if not server.deleting]
    for server in living:
        authorization.require(request, "write", targets.of(server))
    return living


async def _served(request: Request, ref: Ref, actor: Actor) -> Resource:
    members = await model_family.load(plane_of(request).store, ref)
    version = model_family.current_of(members.model)
    if version is None and members.versions:
        version = model_family.version_of(members.versions[-1])
    if version is None:
        raise NotFound(f"{ref} has no versions", hint=f"register one: mizzen version add {ref.name} <path>")
    stored, _ = await servers.serve(request, ref, version, {}, actor)
    return stored


async def _scale(store: Store, ref: Ref, actor: Actor, wanted: Callable[[Resource], int]) -> None:
    """An ordinary change of the spec: history has it, with who did it."""
    while True:
        server = await store.get(ref)
        now, new = _replicas(server), wanted(server)
        if now == new:
            return
        kept = {name: value for name, value in server.meta.annotations.items() if name != REPLICAS_ANNOTATION}
        note = {} if new else {REPLICAS_ANNOTATION: str(now)}
        changed = replace(
            server,
            meta=replace(server.meta, annotations={**kept, **note, ACTOR_ANNOTATION: actor.name}),
            spec={**server.spec, "replicas": new},
        )
        try:
            await store.update(changed, actor.name)
        except Conflict:
            continue  # somebody wrote meanwhile; look again
        return


def _replicas(server: Resource) -> int:
    count: Any = server.spec.get("replicas", 1)
    return count if type(count) is int else 1


def _before(server: Resource) -> int:
    kept = server.meta.annotations.get(REPLICAS_ANNOTATION, "")
    return _replicas(server) or (int(kept) if kept.isascii() and kept.isdecimal() and len(kept) < 5 else 0) or 1


async def _when(request: Request, ref: Ref, found: list[Resource], done: Callable[[Resource], bool]) -> Response:
    async def wait() -> None:
        store = plane_of(request).store
        left = [server.ref for server in found]
        while True:
            left = [ref for ref in left if not done(await store.get(ref))]
            if not left:
                return
            await asyncio.sleep(LOOK_SECONDS)

    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await while_wanted(request, wait())
    except TimeoutError:
        hint = f"it goes on; 'mizzen model describe {ref.name}' shows how far it is"
        raise DeadlineExceeded(f"{ref} was not done within {WAIT_SECONDS:g} s", hint=hint) from None
    return JSONResponse({"name": ref.name, "servers": [server.meta.name for server in found]})


def _loaded(server: Resource) -> bool:
    """Conflict when it never will be."""
    if model_family.ready(server):
        return True
    condition = Status.of(server).condition("Ready")
    if condition is not None and condition.reason in _HOPELESS:
        why = condition.message or condition.reason
        raise Conflict(f"{server.ref} cannot be loaded: {why}", hint=f"logs: 'mizzen logs {server.meta.name}'")
    return False


def _unloaded(server: Resource) -> bool:
    return not server.status.get("readyReplicas") and not server.status.get("replicas")

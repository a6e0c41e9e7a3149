"""Triton's load and unload, which a gateway forwards to here: they start or stop all replicas of a model's servers.

The response comes when that is done. An annotation of each server keeps its replica count for the next load.
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
from mizzen.server.flow_control.execution import wait_while_connected
from mizzen.server.http.context import context_of
from mizzen.server.models import servers, views
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

REPLICAS_ANNOTATION = "mizzen.dev/replicas"
"""On an unloaded server: the number of replicas it had."""
WAIT_SECONDS = 120.0
LOOK_SECONDS = 0.05

_TERMINAL_REASONS = frozenset({"LoadFailed", "CrashLoop", "Failed", "UnsupportedFramework", "NoFiles"})


def routes() -> list[Route]:
    return [
        Route("/v2/repository/models/{model}/load", load, methods=["POST"]),
        Route("/v2/repository/models/{model}/unload", unload, methods=["POST"]),
    ]


async def load(request: Request) -> Response:
    """Restore the replicas of unloaded servers; a model without servers gets one of its current version."""
    ref, actor, context = views.authorize(request, "write")
    found = await _find_servers(request, context.store, ref)
    if not found:
        found = [await _create_server(request, ref, actor)]
    for server in found:
        await _scale(context.store, server.ref, actor, _previous_replicas)
    return await _respond_when(request, ref, found, _is_loaded)


async def unload(request: Request) -> Response:
    """Scale all servers of the model to zero; the servers themselves stay."""
    ref, actor, context = views.authorize(request, "write")
    found = await _find_servers(request, context.store, ref)
    for server in found:
        await _scale(context.store, server.ref, actor, lambda _server: 0)
    return await _respond_when(request, ref, found, _is_unloaded)


async def _find_servers(request: Request, store: Store, ref: Ref) -> list[Resource]:
    """The servers of a model, or the server of that name if there is no such model."""
    async with store.snapshot() as moment:
        try:
            model = await moment.get(ref)
        except NotFound:
            found = [await moment.get(Ref("InferenceModel", ref.name, ref.namespace))]
        else:
            model_family.require_first_name(model, "load and unload it under that name")
            found = [item async for item in each(moment, "InferenceModel", model_family.where_model(ref))]
    living = [server for server in found if not server.deleting]
    for server in living:
        authorization.require(request, "write", targets.of(server))
    return living


async def _create_server(request: Request, ref: Ref, actor: Actor) -> Resource:
    members = await model_family.load(context_of(request).store, ref)
    version = model_family.current_of(members.model)
    if version is None and members.versions:
        version = model_family.version_of(members.versions[-1])
    if version is None:
        raise NotFound(f"{ref} has no versions", hint=f"register one: mizzen version add {ref.name} <path>")
    stored, _ = await servers.serve(request, ref, version, {}, actor)
    return stored


async def _scale(store: Store, ref: Ref, actor: Actor, wanted: Callable[[Resource], int]) -> None:
    """Scale it as an ordinary spec change, so that history records it with its actor."""
    while True:
        server = await store.get(ref)
        now, new = _replicas_of(server), wanted(server)
        if now == new:
            return
        annotations = {name: value for name, value in server.meta.annotations.items() if name != REPLICAS_ANNOTATION}
        note = {} if new else {REPLICAS_ANNOTATION: str(now)}
        changed = replace(
            server,
            meta=replace(server.meta, annotations={**annotations, **note, ACTOR_ANNOTATION: actor.name}),
            spec={**server.spec, "replicas": new},
        )
        try:
            await store.update(changed, actor.name)
        except Conflict:
            continue  # another write came first; try again
        return


def _replicas_of(server: Resource) -> int:
    count: Any = server.spec.get("replicas", 1)
    return count if type(count) is int else 1


def _previous_replicas(server: Resource) -> int:
    saved = server.meta.annotations.get(REPLICAS_ANNOTATION, "")
    return _replicas_of(server) or (int(saved) if saved.isascii() and saved.isdecimal() and len(saved) < 5 else 0) or 1


async def _respond_when(
    request: Request, ref: Ref, found: list[Resource], done: Callable[[Resource], bool]
) -> Response:
    async def wait() -> None:
        store = context_of(request).store
        left = [server.ref for server in found]
        while True:
            left = [ref for ref in left if not done(await store.get(ref))]
            if not left:
                return
            await asyncio.sleep(LOOK_SECONDS)

    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await wait_while_connected(request, wait())
    except TimeoutError:
        hint = f"it continues in the background; 'mizzen model describe {ref.name}' shows its progress"
        raise DeadlineExceeded(f"{ref} was not ready within {WAIT_SECONDS:g} s", hint=hint) from None
    return JSONResponse({"name": ref.name, "servers": [server.meta.name for server in found]})


def _is_loaded(server: Resource) -> bool:
    """Raises Conflict if it never will be."""
    if model_family.is_ready(server):
        return True
    condition = Status.of(server).condition("Ready")
    if condition is not None and condition.reason in _TERMINAL_REASONS:
        cause = condition.message or condition.reason
        raise Conflict(f"{server.ref} cannot be loaded: {cause}", hint=f"logs: 'mizzen logs {server.meta.name}'")
    return False


def _is_unloaded(server: Resource) -> bool:
    return not server.status.get("readyReplicas") and not server.status.get("replicas")

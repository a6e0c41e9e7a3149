"""The /model API: models themselves and their current version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.model import Current, ModelStatus
from mizzen.kinds.schema.findings import unknown
from mizzen.kinds.schema.resource import Ref, Resource, format_time
from mizzen.kinds.text.versions import normal_version
from mizzen.reconcile.recorder import Note
from mizzen.server.admission import create_guards, decode, field_managers, model_family
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.deletion import cascade as deletion_cascade
from mizzen.server.http import list_responses, warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.http.streaming import while_wanted
from mizzen.server.models import views
from mizzen.server.training import checkpoints
from mizzen.stores.store import Guard, Where

MOST_AT_ONCE = 1000
"""A page, when the caller names no limit of their own."""


def routes() -> list[Route]:
    return [
        Route("/model", create, methods=["POST"]),
        Route("/model", list_all, methods=["GET"]),
        Route("/model/{model}", describe, methods=["GET"]),
        Route("/model/{model}", delete, methods=["DELETE"]),
        Route("/model/{model}/current", current, methods=["GET"]),
        Route("/model/{model}/current", promote, methods=["POST"]),
        Route("/model/{model}/rollback", roll_back, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    namespace = Query(request, "namespace").namespace()
    authorization.require_some(
        request, "write", targets.all_of("Model", namespace)
    )  # before anything they sent is read
    body = await read_object(request)
    name = body.get("name") or ""
    named = isinstance(name, str) and name
    target = targets.model(Ref("Model", name, namespace)) if named else targets.all_of("Model", namespace)
    actor = authorization.require(request, "write", target)
    faults = unknown(body, ("name", "framework", "labels", "annotations"))
    spec = {"framework": body["framework"]} if body.get("framework") is not None else {}
    sent = views.manifest(
        "Model", Ref("Model", name, namespace), spec, labels=body.get("labels"), annotations=body.get("annotations")
    )
    kind = catalog.BY_NAME["Model"]
    try:
        draft = decode.decode(kind, sent, namespace=namespace)
    except Invalid as error:
        faults += views.flat("the model", error).faults
    if faults:
        raise Invalid.of("the model", faults)
    plane = plane_of(request)
    new = field_managers.by_plane(None, decode.created(kind, draft, namespace, actor), plane.now())
    stored = await plane.store.create(new, actor.name, guard=create_guards.admits(new))
    location = views.located(f"/model/{stored.meta.name}", namespace)
    answer = JSONResponse(views.model(stored), 201, headers={"Location": location})
    return warning_headers.attach(answer, draft.warnings)


async def list_all(request: Request) -> Response:
    """By name, a page at a time. Who may read some models only sees those."""
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    namespace = query.namespace()
    visible = authorization.require_some(request, "read", targets.all_of("Model", namespace))
    plane = plane_of(request)
    listing = await plane.pages.listing(
        plane.store,
        "Model",
        Where(namespace=namespace, labels=query.selector()),
        visible,
        limit=query.limit(MOST_AT_ONCE),
        token=query.text("continue"),
    )
    return await list_responses.listed(listing.items, views.model, {"continue": listing.next or ""})


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    plane = plane_of(request)
    members = await model_family.load(plane.store, ref)
    saved = await asyncio.to_thread(plane.shelf.count, ref.namespace, ref.name)
    return JSONResponse({**views.described(members, plane.inference_url), "checkpoints": saved})


async def delete(request: Request) -> Response:
    """202 once it is marked: it goes by itself then, with all that is its own. 200 when it is gone."""
    query = Query(request, "namespace", "cascade", "wait")
    ref = views.model_at(request, query)
    actor = authorization.require(request, "write", targets.model(ref))
    plane = plane_of(request)
    store = plane.store
    cascade, wait = query.flag("cascade"), query.flag("wait")
    left = await deletion_cascade.remove(store, ref, actor, cascade=cascade)
    if left is not None and wait:
        await audit.record_now(request, 202)
        await while_wanted(request, deletion_cascade.finish_cascade(store, left))
        left = None
    if left is None:
        await checkpoints.go_with(plane, ref)
    return JSONResponse(
        {"name": ref.name, "deleted": True} if left is None else views.model(left), 202 if left else 200
    )


async def current(request: Request) -> Response:
    """Which version answers to the model's name, since when, and who decided so."""
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    model = await plane_of(request).store.get(ref)
    now = ModelStatus.of(model).current
    if now is None:
        first = model_family.is_second_name(model)
        hint = f"it is a second name of '{first}': ask for that" if first else f"serve one: mizzen serve {ref.name} 1"
        raise NotFound(f"no version of {ref} is current yet", hint=hint)
    return JSONResponse({"name": ref.name, "namespace": ref.namespace, **now.wire()})


async def promote(request: Request) -> Response:
    """Make a version current: the one that answers to the model's name. It must be answering already."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    body = await read_object(request)
    force = forced(body)
    return await _made_current(request, ref, wanted_version(body), actor, decision="promoted", force=force)


async def roll_back(request: Request) -> Response:
    """Back to the version that was current before, or to any other that answers. Nothing changes when it does not."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    body = await read_object(request)
    version, force = wanted_version(body, required=False), forced(body)
    return await _made_current(request, ref, version, actor, decision="rolledback", force=force)


def forced(body: Mapping[str, Any]) -> bool:
    """Is it said that callers are ready for other inputs and outputs? Invalid."""
    force = body.get("force", False)
    if not isinstance(force, bool):
        raise Invalid.of("the body", (Fault("force", "must be true or false"),))
    return force


def wanted_version(body: Mapping[str, Any], *, required: bool = True) -> str:
    """`version` of a body that holds nothing else but `force`; empty when it is absent and need not be there."""
    faults = unknown(body, ("version", "force"))
    version = body.get("version")
    if version is None and not required and not faults:
        return ""
    if version is None or isinstance(version, bool) or not isinstance(version, str | int):
        faults += (Fault("version", "required" if version is None else "must be a number or a name"),)
        raise Invalid.of("the body", faults)
    try:
        normal = normal_version(version)
    except ValueError as error:
        raise Invalid.of("the body", (*faults, Fault("version", str(error)))) from error
    if faults:
        raise Invalid.of("the body", faults)
    return normal


async def _made_current(
    request: Request, ref: Ref, version: str, actor: Actor, *, decision: str, force: bool
) -> Response:
    """An empty version stands for the one before."""
    plane = plane_of(request)
    while True:
        async with plane.store.snapshot() as moment:
            model = await moment.get(ref)
            wanted = version or _before(model)
            guard = create_guards.answers(ref, wanted, force=force)
            await moment.check(guard)
        try:
            moved = await _move_current(plane, model, wanted, actor, decision=decision, guard=guard)
        except Conflict:
            continue  # somebody wrote meanwhile; look again
        await plane.carried(moved.meta.resource_version)
        return JSONResponse(views.model(moved))


def _before(model: Resource) -> str:
    """The version that was current before, as history tells."""
    model_family.refuse_deleting(model)
    model_family.refuse_second_name(model, "what is current is that one's to say")
    previous = model.status.get("previous")
    if not isinstance(previous, str):
        name = model.meta.name
        hint = f"name one that is served: mizzen rollback {name} --to 1; 'mizzen model describe {name}' shows which are"
        raise Conflict(f"no version of {model.ref} was current before", hint=hint)
    return previous


async def _move_current(
    plane: Plane, model: Resource, version: str, actor: Actor, *, decision: str, guard: Guard
) -> Resource:
    """Recorded as a decision of this actor. Nothing is written when the version is current already."""
    before = model_family.current_of(model)
    if before == version:
        return model
    now = plane.now()
    current = Current(version=version, actor=actor.name, time=format_time(now))
    status = {**model.status, "current": current.wire()}
    if before is not None:
        status["previous"] = before
    new = field_managers.decided(model, replace(model, status=status), now)
    written = await plane.store.update_status(new, actor.name, decision=decision, guard=guard)
    plane.recorder.noted(written, _told(actor, version, before, decision))
    return written


def _told(actor: Actor, version: str, before: str | None, decision: str) -> Note:
    instead = f", instead of version {before}" if before is not None else ""
    if decision == "rolledback":
        return Note("RolledBack", f"{actor.name} rolled back to version {version}{instead}")
    return Note("Promoted", f"{actor.name} made version {version} current{instead}")

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
from mizzen.reconcile.recorder import EventNote
from mizzen.server.admission import create_guards, field_managers, model_family
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.deletion import cascade as deletion_cascade
from mizzen.server.flow_control.execution import execution_of, wait_while_connected
from mizzen.server.http import list_responses, warning_headers
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.stores.store import Guard, Where

KIND = catalog.BY_NAME["Model"]
MOST_AT_ONCE = 1000
"""The page size if the caller gives no limit."""


def routes() -> list[Route]:
    return [
        Route("/model", create, methods=["POST"]),
        Route("/model", list_all, methods=["GET"]),
        Route("/model/{model}", describe, methods=["GET"]),
        Route("/model/{model}", delete, methods=["DELETE"]),
        Route("/model/{model}/current", get_current, methods=["GET"]),
        Route("/model/{model}/current", promote, methods=["POST"]),
        Route("/model/{model}/rollback", roll_back, methods=["POST"]),
    ]


async def create(request: Request) -> Response:
    namespace = Query(request, "namespace").namespace()
    authorization.require_any(request, "write", targets.all_of("Model", namespace))  # before the body is read
    body = await read_object(request)
    name = body.get("name") or ""
    has_name = isinstance(name, str) and name
    target = targets.model(Ref("Model", name, namespace)) if has_name else targets.all_of("Model", namespace)
    actor = authorization.require(request, "write", target)
    faults = unknown(body, ("name", "framework", "labels", "annotations"))
    spec = {"framework": body["framework"]} if body.get("framework") is not None else {}
    metadata = {field: body.get(field) for field in ("labels", "annotations")}
    try:
        draft = views.decode_object(Ref(KIND.name, name, namespace), spec, "the model", metadata=metadata)
    except Invalid as error:
        faults += error.faults
    if faults:
        raise Invalid.of("the model", faults)
    context = context_of(request)
    new = field_managers.build_new(draft, KIND, namespace, actor, context.now())
    stored = await context.store.create(new, actor.name, guard=create_guards.guard_for(new))
    location = views.location_of(f"/model/{stored.meta.name}", namespace)
    answer = JSONResponse(views.render_model(stored), 201, headers={"Location": location})
    return warning_headers.attach(answer, draft.warnings)


async def list_all(request: Request) -> Response:
    """By name, one page at a time. Callers see only the models that they may read."""
    query = Query(request, "namespace", "limit", "continue", "labelSelector")
    namespace = query.namespace()
    visible = authorization.require_any(request, "read", targets.all_of("Model", namespace))
    context = context_of(request)
    where = Where(namespace=namespace, labels=query.selector())
    limit, token = query.limit(MOST_AT_ONCE), query.text("continue")
    listing = await context.pages.list_page(context.store, KIND.name, where, visible, limit=limit, token=token)
    return await list_responses.list_response(listing.items, views.render_model, {"continue": listing.next or ""})


async def describe(request: Request) -> Response:
    ref, _, context = views.authorize(request, "read")
    members = await model_family.load(context.store, ref)
    saved = await asyncio.to_thread(context.checkpoints.count, ref.namespace, ref.name)
    return JSONResponse({**views.render_description(members, context.inference_url), "checkpoints": saved})


async def delete(request: Request) -> Response:
    """202 once it is marked; the plane then deletes it with everything that it owns. 200 once it is gone."""
    query = Query(request, "namespace", "cascade", "wait")
    ref, actor, context = views.authorize(request, "write", query)
    cascade, wait = query.flag("cascade"), query.flag("wait")
    left = await deletion_cascade.remove(context, ref, actor, cascade=cascade)
    if left is not None and wait:
        await audit.record_now(request, 202)
        await wait_while_connected(request, deletion_cascade.finish_cascade(context, left))
        left = None
    if left is None:
        return JSONResponse({"name": ref.name, "deleted": True})
    return JSONResponse(views.render_model(left), 202)


async def get_current(request: Request) -> Response:
    """The version that answers to the model's name, with the time and the author of that decision."""
    ref, _, context = views.authorize(request, "read")
    model = await context.store.get(ref)
    now = ModelStatus.of(model).current
    if now is None:
        first = model_family.first_name_of(model)
        hint = f"it is a second name of '{first}'; use that" if first else f"serve one: mizzen serve {ref.name} 1"
        raise NotFound(f"no version of {ref} is current yet", hint=hint)
    return JSONResponse({"name": ref.name, "namespace": ref.namespace, **now.wire()})


async def promote(request: Request) -> Response:
    """Make a version current: the one that answers to the model's name. A server of it must be ready."""
    ref, actor, _ = views.authorize(request, "write")
    body = await read_object(request)
    force = read_force(body)
    return await _set_current(request, ref, read_version(body), actor, decision="promoted", force=force)


async def roll_back(request: Request) -> Response:
    """Return to the previously current version, or to any other that is served. Nothing changes if it is not served."""
    ref, actor, _ = views.authorize(request, "write")
    body = await read_object(request)
    version, force = read_version(body, required=False), read_force(body)
    return await _set_current(request, ref, version, actor, decision="rolledback", force=force)


def read_force(body: Mapping[str, Any]) -> bool:
    """The `force` flag: callers accept changed inputs and outputs. Raises Invalid."""
    force = body.get("force", False)
    if not isinstance(force, bool):
        raise Invalid.of("the body", (Fault("force", "must be true or false"),))
    return force


def read_version(body: Mapping[str, Any], *, required: bool = True) -> str:
    """`version` of a body that otherwise holds only `force`; empty if it is absent and optional."""
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


async def _set_current(
    request: Request, ref: Ref, version: str, actor: Actor, *, decision: str, force: bool
) -> Response:
    """An empty version stands for the previous one."""
    context = context_of(request)
    while True:
        async with context.store.snapshot() as moment:
            model = await moment.get(ref)
            wanted = version or _previous_version(model)
            guard = create_guards.require_answering(ref, wanted, force=force)
            await moment.check(guard)
        try:
            moved = await _move_current(context, model, wanted, actor, decision=decision, guard=guard)
        except Conflict:
            continue  # another write came first; try again
        async with execution_of(request).wait():
            await context.wait_for_traffic(moved.meta.resource_version)
        return JSONResponse(views.render_model(moved))


def _previous_version(model: Resource) -> str:
    """The version that was current before the present one. Raises Conflict if there is none."""
    model_family.require_first_name(model, "its current version is set there")
    previous = model.status.get("previous")
    if not isinstance(previous, str):
        name = model.meta.name
        hint = f"name a served version: mizzen rollback {name} --to 1; 'mizzen model describe {name}' lists them"
        raise Conflict(f"no version of {model.ref} was current before", hint=hint)
    return previous


async def _move_current(
    context: ServerContext, model: Resource, version: str, actor: Actor, *, decision: str, guard: Guard
) -> Resource:
    """Record it as a decision of this actor. Writes nothing if the version is already current."""
    before = model_family.current_of(model)
    if before == version:
        return model
    now = context.now()
    current = Current(version=version, actor=actor.name, time=format_time(now))
    status = {**model.status, "current": current.wire()}
    if before is not None:
        status["previous"] = before
    new = field_managers.record_status_decision(model, replace(model, status=status), now)
    written = await context.store.update_status(new, actor.name, decision=decision, guard=guard)
    context.recorder.record_note(written, _decision_note(actor, version, before, decision))
    return written


def _decision_note(actor: Actor, version: str, before: str | None, decision: str) -> EventNote:
    instead = f", instead of version {before}" if before is not None else ""
    if decision == "rolledback":
        return EventNote("RolledBack", f"{actor.name} rolled back to version {version}{instead}")
    return EventNote("Promoted", f"{actor.name} made version {version} current{instead}")

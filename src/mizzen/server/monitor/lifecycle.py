"""One monitor per model: POST starts it, GET describes it, DELETE ends it. It is a Monitor named after the model."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.monitor import SCALARS, first, page_path, tool_path
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Ref, Resource, Status
from mizzen.server.admission import field_managers, model_family, privileged_fields
from mizzen.server.auth import audit, authorization
from mizzen.server.deletion import cascade
from mizzen.server.flow_control.execution import wait_while_connected
from mizzen.server.http import warning_headers
from mizzen.server.http.context import ServerContext
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.server.monitor import sign_in
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Guard, Present, Store

KIND = catalog.BY_NAME["Monitor"]
PATH = sign_in.PREFIXES[0]


def routes() -> list[Route]:
    return [
        Route(PATH, start, methods=["POST"]),
        Route(PATH, describe, methods=["GET"]),
        Route(PATH, end, methods=["DELETE"]),
    ]


async def start(request: Request) -> Response:
    """201 if it is new, 200 if there already is one."""
    model, _, context = views.authorize(request, "write", subresource="monitor")
    spec = await _read_spec(request, model)
    while True:
        found = await find_monitor(context.store, model)
        if found is not None:
            _refuse_other_tool(found, spec)
            return JSONResponse(render(request, model, found))
        try:
            return await _create(request, context, model, spec)
        except AlreadyExists:
            going = [each for each in await _list_monitors(context.store, model) if each.deleting]
        for one in going:
            await wait_while_connected(request, cascade.until_gone(context.store, one))


async def describe(request: Request) -> Response:
    model, _, context = views.authorize(request, "read", subresource="monitor")
    return JSONResponse(render(request, model, await get_monitor(context.store, model)))


async def end(request: Request) -> Response:
    """Succeeds even if there is none. 202 until its process has ended."""
    query = Query(request, "namespace", "wait")
    model, actor, context = views.authorize(request, "write", query, subresource="monitor")
    store = context.store
    await store.get(model)
    left = []
    for one in await _list_monitors(store, model):
        try:
            left.append(await cascade.remove_object(store, one.ref, actor, uid=one.meta.uid))
        except (NotFound, Conflict):  # another request was faster
            continue
    ending = [each for each in left if each is not None]
    if ending and query.flag("wait"):
        await audit.record_now(request, 202)
        for each in ending:
            await wait_while_connected(request, cascade.until_gone(store, each))
        ending = []
    return JSONResponse({"name": model.name, "deleted": not ending}, 202 if ending else 200)


async def find_monitor(store: Store, model: Ref) -> Resource | None:
    return first(await _list_monitors(store, model))


async def get_monitor(store: Store, model: Ref) -> Resource:
    """Raises NotFound."""
    found = await find_monitor(store, model)
    if found is None:
        await store.get(model)
        raise NotFound(f"{model} has no monitor", hint=f"'mizzen monitor start {model.name}' starts one")
    return found


def render(request: Request, model: Ref, monitor: Resource) -> dict[str, Any]:
    """With a URL at the address under which the client reached this API."""
    path = page_path(model) if monitor.status.get("tool") == SCALARS else tool_path(model)
    ready = Status.of(monitor).condition("Ready")
    message = ready.message if ready is not None else "it is starting"
    return views.render_monitor(monitor) | {"url": f"{sign_in.base_url(request)}{path}", "message": message}


async def _list_monitors(store: Store, model: Ref) -> tuple[Resource, ...]:
    return await whole(store, KIND.name, model_family.where_model(model))


async def _read_spec(request: Request, model: Ref) -> dict[str, Any]:
    """Raises Forbidden for fields the caller may not set."""
    body = await read_object(request)
    sent_name = body.get("modelName")
    spec = {**body, "modelName": model.name if sent_name is None else sent_name}
    if spec["modelName"] != model.name:
        raise Invalid.of("the monitor", (Fault("modelName", f"must be '{model.name}', as the path says"),))
    privileged_fields.require(request, Resource(KIND.name, Meta(model.name, model.namespace), spec))
    return spec


async def _create(request: Request, context: ServerContext, model: Ref, spec: dict[str, Any]) -> Response:
    actor, known = authorization.actor_of(request), Context(capabilities=context.capabilities)
    draft = views.decode_object(Ref(KIND.name, model.name, model.namespace), spec, "the monitor", known)
    new = field_managers.build_new(draft, KIND, model.namespace, actor, context.now())
    stored = await context.store.create(new, actor.name, guard=_no_monitor_guard(model))
    location = {"Location": views.location_of(f"/model/{model.name}/monitor", model.namespace)}
    answer = JSONResponse(render(request, model, stored), 201, headers=location)
    return warning_headers.attach(answer, draft.warnings)


def _no_monitor_guard(model: Ref) -> Guard:
    """Guards that the model exists, is not being deleted, and has no monitor yet."""

    def guard(now: Present) -> None:
        model_family.require_first_name(now.get(model), "its training data belong to that model")
        others = now.list(KIND.name, model_family.where_model(model))
        if others:
            raise AlreadyExists(f"{others[0].ref} already monitors {model}")

    return guard


def _refuse_other_tool(there: Resource, wanted: dict[str, Any]) -> None:
    shown = there.status.get("tool") or there.spec.get("tool")
    if shown and wanted.get("tool") not in (None, there.spec.get("tool"), shown):
        raise Conflict(
            f"{there.ref} already exists and shows {shown}; a model has only one monitor",
            hint=f"end it first: 'mizzen monitor stop {there.spec.get('modelName')}'",
        )

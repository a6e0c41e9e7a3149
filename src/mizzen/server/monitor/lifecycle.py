"""One monitor per model: the first POST starts it, GET finds it, DELETE ends it. A Monitor, named as the model."""

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
from mizzen.server.admission import decode, field_managers, model_family, privileged_fields
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.deletion import cascade
from mizzen.server.http import warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.http.streaming import while_wanted
from mizzen.server.models import views
from mizzen.server.monitor import sign_in
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Guard, Present, Store

KIND = catalog.BY_NAME["Monitor"]
PATH = sign_in.PREFIXES[0]


def routes() -> list[Route]:
    return [
        Route(PATH, start, methods=["POST"]),
        Route(PATH, find, methods=["GET"]),
        Route(PATH, end, methods=["DELETE"]),
    ]


async def start(request: Request) -> Response:
    """201 when it is new, 200 when there is one."""
    model = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "write", targets.model(model, subresource="monitor"))
    spec = await _spec(request, model)
    plane = plane_of(request)
    while True:
        found = await monitor_of(plane.store, model)
        if found is not None:
            _refuse_other_tool(found, spec)
            return JSONResponse(view(request, model, found))
        try:
            return await _made(request, plane, model, spec)
        except AlreadyExists:
            going = [each for each in await _all(plane.store, model) if each.deleting]
        for one in going:
            await while_wanted(request, cascade.until_gone(plane.store, one))


async def find(request: Request) -> Response:
    model = views.model_at(request, Query(request, "namespace"))
    sign_in.require(request, model)
    return JSONResponse(view(request, model, await there(plane_of(request).store, model)))


async def end(request: Request) -> Response:
    """Also when there is none. Gone means that its process has ended; until then 202."""
    query = Query(request, "namespace", "wait")
    model = views.model_at(request, query)
    actor = authorization.require(request, "write", targets.model(model, subresource="monitor"))
    store = plane_of(request).store
    await store.get(model)
    left = []
    for one in await _all(store, model):
        try:
            left.append(await cascade.remove(store, one.ref, actor, uid=one.meta.uid))
        except (NotFound, Conflict):  # somebody else was faster
            continue
    ending = [each for each in left if each is not None]
    if ending and query.flag("wait"):
        await audit.record_now(request, 202)
        for each in ending:
            await while_wanted(request, cascade.until_gone(store, each))
        ending = []
    return JSONResponse({"name": model.name, "deleted": not ending}, 202 if ending else 200)


async def monitor_of(store: Store, model: Ref) -> Resource | None:
    return first(await _all(store, model))


async def there(store: Store, model: Ref) -> Resource:
    """NotFound."""
    found = await monitor_of(store, model)
    if found is None:
        await store.get(model)
        raise NotFound(f"{model} has no monitor", hint=f"'mizzen monitor start {model.name}' starts one")
    return found


def view(request: Request, model: Ref, monitor: Resource) -> dict[str, Any]:
    """With the address as whoever asks has reached this API."""
    tool = monitor.status.get("tool")
    path = page_path(model) if tool == SCALARS else tool_path(model)
    ready = Status.of(monitor).condition("Ready")
    return views.monitor(monitor) | {
        "url": f"{sign_in.base(request)}{path}",
        "tool": tool or monitor.spec.get("tool"),
        "ready": ready is not None and ready.true and not monitor.deleting,
        "message": ready.message if ready is not None else "it is being started",
    }


async def _all(store: Store, model: Ref) -> tuple[Resource, ...]:
    return await whole(store, KIND.name, model_family.of_model(model))


async def _spec(request: Request, model: Ref) -> dict[str, Any]:
    """Refused when they may not have it so."""
    body = await read_object(request)
    said = body.get("modelName")
    spec = {**body, "modelName": model.name if said is None else said}
    if spec["modelName"] != model.name:
        raise Invalid.of("the monitor", (Fault("modelName", f"must be '{model.name}', as the path says"),))
    privileged_fields.require(request, Resource(KIND.name, Meta(model.name, model.namespace), spec))
    return spec


async def _made(request: Request, plane: Plane, model: Ref, spec: dict[str, Any]) -> Response:
    actor = authorization.actor_of(request)
    sent = views.manifest(KIND.name, Ref(KIND.name, model.name, model.namespace), spec)
    try:
        draft = decode.decode(
            KIND, sent, namespace=model.namespace, known=Context(capabilities=plane.capabilities)
        )  # fmt: skip
    except Invalid as error:
        raise views.flat("the monitor", error) from error
    new = field_managers.by_plane(None, decode.created(KIND, draft, model.namespace, actor), plane.now())
    stored = await plane.store.create(new, actor.name, guard=_unmonitored(model))
    location = {"Location": views.located(f"/model/{model.name}/monitor", model.namespace)}
    answer = JSONResponse(view(request, model, stored), 201, headers=location)
    return warning_headers.attach(answer, draft.warnings)


def _unmonitored(model: Ref) -> Guard:
    """For the first monitor of a model that is there and stays."""

    def guard(now: Present) -> None:
        found = now.get(model)
        model_family.refuse_deleting(found)
        model_family.refuse_second_name(found, "what it is trained with is that one's")
        others = now.list(KIND.name, model_family.of_model(model))
        if others:
            raise AlreadyExists(f"{others[0].ref} monitors {model} already")

    return guard


def _refuse_other_tool(there: Resource, wanted: dict[str, Any]) -> None:
    shown = there.status.get("tool") or there.spec.get("tool")
    if shown and wanted.get("tool") not in (None, there.spec.get("tool"), shown):
        raise Conflict(
            f"{there.ref} is there, and shows {shown}; a model has one monitor",
            hint=f"end it first: 'mizzen monitor stop {there.spec.get('modelName')}'",
        )

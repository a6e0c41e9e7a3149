"""The /model API: servers. A server is an InferenceModel, and its id is that object's name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import AlreadyExists, Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.reconcile.recorder import Note
from mizzen.runs.checkpoints import Checkpoint
from mizzen.server.admission import (
    create_guards,
    decode,
    field_managers,
    model_family,
    privileged_fields,
    reference_checks,
)
from mizzen.server.auth import audit, authorization, targets
from mizzen.server.deletion import cascade
from mizzen.server.http import warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.http.streaming import while_wanted
from mizzen.server.models import checkpoint_choice, views
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

KIND = catalog.BY_NAME["InferenceModel"]
LONGEST = 63


def routes() -> list[Route]:
    return [
        Route("/model/{model}/serve/{version}", create, methods=["POST"]),
        Route("/model/{model}/serve/{version}", list_all, methods=["GET"]),
        Route("/model/{model}/serve/{version}/{server}", describe, methods=["GET"]),
        Route("/model/{model}/serve/{version}/{server}", delete, methods=["DELETE"]),
    ]


async def create(request: Request) -> Response:
    """Each call makes one more server of the version."""
    ref = views.model_at(request, Query(request, "namespace"))
    actor = authorization.require(request, "write", targets.model(ref))
    body = await read_object(request)
    version = _version(request, ref)
    stored, odd = await serve(request, ref, version, body, actor)
    place = f"/model/{ref.name}/serve/{version}/{stored.meta.name}"
    location = {"Location": views.located(place, ref.namespace)}
    view = views.server(stored, plane_of(request).inference_url)
    return warning_headers.attach(JSONResponse(view, 201, headers=location), odd)


async def serve(
    request: Request, model: Ref, version: str, body: Mapping[str, Any], actor: Actor
) -> tuple[Resource, tuple[Warn, ...]]:
    """One more server of the version, and what is odd about it. Refused when they may not have it so."""
    plane = plane_of(request)
    while True:
        there, spec, chosen = await _spec(plane, body, model, version)
        wanted = Resource("InferenceModel", Meta("", model.namespace), spec)
        await privileged_fields.require_names(request, wanted)
        privileged_fields.require(request, wanted)
        stored, odd = await _create_named(plane, model, version, spec, actor)
        if chosen is None or await checkpoint_choice.stands(plane, chosen):
            break
        # It was removed before anybody could see that it is served: then it is not, and another one is chosen.
        await plane.store.delete(stored.ref, actor.name, uid=stored.meta.uid)
    what = f"version {version}" if chosen is None else f"checkpoint {chosen.id} of version {version}"
    plane.recorder.noted(there, Note("Served", f"{actor.name} serves {what} as {stored.meta.name}"))
    return stored, odd


async def list_all(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    plane = plane_of(request)
    async with plane.store.snapshot() as moment:
        version = model_family.version_of(await moment.get(views.version_at(request, ref)))
        servers = each(moment, "InferenceModel", model_family.of_model(ref))
        items = [
            views.server(item, plane.inference_url) async for item in servers if model_family.serves(item, version)
        ]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    authorization.require(request, "read", targets.model(ref))
    plane = plane_of(request)
    return JSONResponse(views.server(await _server(request, plane.store, ref), plane.inference_url))


async def delete(request: Request) -> Response:
    """Gone means that its processes have ended; until then 202."""
    query = Query(request, "namespace", "wait")
    ref = views.model_at(request, query)
    actor = authorization.require(request, "write", targets.model(ref))
    plane, wait = plane_of(request), query.flag("wait")
    server = await _server(request, plane.store, ref)
    left = await cascade.remove(plane.store, server.ref, actor, uid=server.meta.uid)
    if left is not None and wait:
        await audit.record_now(request, 202)
        await while_wanted(request, cascade.until_gone(plane.store, left))
        left = None
    if left is None:
        return JSONResponse({"id": server.meta.name, "deleted": True})
    return JSONResponse(views.server(left, plane.inference_url), 202)


def server_names(model: str, version: str) -> Iterator[str]:
    """Names for servers of a version, best first: iris-1, iris-1-2, iris-1-3, … Long ones are cut, with a hash."""
    whole = f"{model}-{version.replace('.', '-')}"
    for number in count(1):
        end = "" if number == 1 else f"-{number}"
        if len(whole) + len(end) > LONGEST:
            end = f"-{hashlib.sha256(f'{model}.{version}'.encode()).hexdigest()[:8]}{end}"
        yield whole[: LONGEST - len(end)].rstrip("-") + end


async def _spec(
    plane: Plane, body: Mapping[str, Any], model: Ref, version: str
) -> tuple[Resource, dict[str, Any], Checkpoint | None]:
    """The model; the body, which must not contradict the path, with what a server has to say and the path or the
    version knows; and the checkpoint that is to be served. NotFound; Conflict when there is nothing to serve."""
    path_says = {"modelName": model.name, "targetVersion": version}
    faults = tuple(
        Fault(field, f"must be '{value}', as the path says")
        for field, value in path_says.items()
        if body.get(field) not in (None, value)
    )
    asked, said = checkpoint_choice.asked(body)
    faults = (*faults, *said)
    if faults:
        raise Invalid.of("the server", faults)
    async with plane.store.snapshot() as moment:
        whole = await moment.get(model)
        registered = await moment.get(create_guards.version_ref(model, version))
    as_it_is = body.get("image") or body.get("manifest")
    chosen = None if as_it_is else await checkpoint_choice.chosen(plane, model, registered, asked)
    framework = checkpoint_choice.framework(registered, chosen) or whole.spec.get("framework")
    filled_in = {"deployToLayer": "cloud", **({"frameworkType": framework} if framework else {})}
    known = {**path_says, **filled_in}
    rest = {name: value for name, value in body.items() if name != checkpoint_choice.FIELD}
    spec = known | {name: value for name, value in rest.items() if value is not None or name not in known}
    return whole, spec | ({"checkpoint": chosen.id} if chosen is not None else {}), chosen


async def _create_named(
    plane: Plane, model: Ref, version: str, spec: Mapping[str, Any], actor: Actor
) -> tuple[Resource, tuple[Warn, ...]]:
    """Under the first name that is free; with what is odd about it."""
    for name in server_names(model.name, version):
        sent = views.manifest(KIND.name, Ref(KIND.name, name, model.namespace), spec)
        try:
            known = Context(capabilities=plane.capabilities)
            draft = decode.decode(KIND, sent, namespace=model.namespace, known=known)
        except Invalid as error:
            raise views.flat("the server", error) from error
        made = decode.created(KIND, draft, model.namespace, actor)
        resource = field_managers.by_plane(None, made, plane.now())
        odd = (
            await reference_checks.examine(plane, resource)
        ).warnings  # whether the model stands is the guard's to say
        try:
            guard = create_guards.version_stands(model, version, name)
            return await plane.store.create(resource, actor.name, guard=guard), (*draft.warnings, *odd)
        except AlreadyExists:
            continue
    raise AssertionError("there is always one more name")


async def _server(request: Request, store: Store, model: Ref) -> Resource:
    """The server the path names, when it is one of this model and version."""
    server = await store.get(Ref("InferenceModel", request.path_params["server"], model.namespace))
    version = _version(request, model)
    if server.spec.get("modelName") != model.name or not model_family.serves(server, version):
        raise NotFound(
            f"{server.ref} is no server of version {version} of {model}",
            hint=f"GET /model/{model.name}/serve/{version} lists those that are",
        )
    return server


def _version(request: Request, model: Ref) -> str:
    return views.version_at(request, model).name.partition(".")[2]

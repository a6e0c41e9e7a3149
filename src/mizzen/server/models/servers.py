"""The /model API: servers. A server is an InferenceModel, and its id is the name of that object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
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
from mizzen.reconcile.recorder import EventNote
from mizzen.runs.checkpoints import Checkpoint
from mizzen.server.admission import create_guards, field_managers, model_family, privileged_fields, reference_checks
from mizzen.server.auth import audit
from mizzen.server.deletion import cascade
from mizzen.server.flow_control.execution import wait_while_connected
from mizzen.server.http import warning_headers
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import checkpoint_choice, views
from mizzen.stores.all_pages import each
from mizzen.stores.store import Store

KIND = catalog.BY_NAME["InferenceModel"]


def routes() -> list[Route]:
    return [
        Route("/model/{model}/serve/{version}", create, methods=["POST"]),
        Route("/model/{model}/serve/{version}", list_all, methods=["GET"]),
        Route("/model/{model}/serve/{version}/{server}", describe, methods=["GET"]),
        Route("/model/{model}/serve/{version}/{server}", delete, methods=["DELETE"]),
    ]


async def create(request: Request) -> Response:
    """Each call creates another server of the version."""
    ref, actor, context = views.authorize(request, "write")
    body = await read_object(request)
    version = _version_in_path(request, ref)
    stored, warnings = await serve(request, ref, version, body, actor)
    path = f"/model/{ref.name}/serve/{version}/{stored.meta.name}"
    location = {"Location": views.location_of(path, ref.namespace)}
    view = views.render_server(stored, context.inference_url)
    return warning_headers.attach(JSONResponse(view, 201, headers=location), warnings)


async def serve(
    request: Request, model: Ref, version: str, body: Mapping[str, Any], actor: Actor
) -> tuple[Resource, tuple[Warn, ...]]:
    """Create another server of the version. Returns it with warnings; Forbidden for fields the caller may not set."""
    context = context_of(request)
    while True:
        there, spec, chosen = await _build_spec(context, body, model, version)
        wanted = Resource("InferenceModel", Meta("", model.namespace), spec)
        await privileged_fields.require_names(request, wanted)
        privileged_fields.require(request, wanted)
        stored, warnings = await _create_named(context, model, version, spec, actor)
        if chosen is None or await checkpoint_choice.still_exists(context, chosen):
            break
        # The checkpoint was deleted before this server was visible. Delete the server, and choose another checkpoint.
        await context.store.delete(stored.ref, actor.name, uid=stored.meta.uid)
    what = f"version {version}" if chosen is None else f"checkpoint {chosen.id} of version {version}"
    context.recorder.record_note(there, EventNote("Served", f"{actor.name} serves {what} as {stored.meta.name}"))
    return stored, warnings


async def list_all(request: Request) -> Response:
    ref, _, context = views.authorize(request, "read")
    async with context.store.snapshot() as moment:
        version = model_family.version_of(await moment.get(views.version_at(request, ref)))
        servers = each(moment, "InferenceModel", model_family.where_model(ref))
        items = [
            views.render_server(item, context.inference_url)
            async for item in servers
            if model_family.serves(item, version)
        ]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    ref, _, context = views.authorize(request, "read")
    return JSONResponse(views.render_server(await _find_server(request, context.store, ref), context.inference_url))


async def delete(request: Request) -> Response:
    """200 once its processes have ended; until then 202."""
    query = Query(request, "namespace", "wait")
    ref, actor, context = views.authorize(request, "write", query)
    wait = query.flag("wait")
    server = await _find_server(request, context.store, ref)
    left = await cascade.remove(context, server.ref, actor, uid=server.meta.uid)
    if left is not None and wait:
        await audit.record_now(request, 202)
        await wait_while_connected(request, cascade.until_gone(context.store, left))
        left = None
    if left is None:
        return JSONResponse({"id": server.meta.name, "deleted": True})
    return JSONResponse(views.render_server(left, context.inference_url), 202)


def server_names(model: str, version: str) -> Iterator[str]:
    """Names for servers of a version, best first: iris-1, iris-1-2, iris-1-3, … Long names are cut and get a hash."""
    for number in count(1):
        yield model_family.derive_name(model, version, "" if number == 1 else f"-{number}")


async def _build_spec(
    context: ServerContext, body: Mapping[str, Any], model: Ref, version: str
) -> tuple[Resource, dict[str, Any], Checkpoint | None]:
    """The model, the spec of the new server, and the checkpoint to serve.

    The spec is the body, which must not contradict the path, with required fields filled in from path and version.
    Raises Invalid, NotFound, and Conflict if there is nothing to serve."""
    path_says = {"modelName": model.name, "targetVersion": version}
    faults = tuple(
        Fault(field, f"must be '{value}', as the path says")
        for field, value in path_says.items()
        if body.get(field) not in (None, value)
    )
    wanted, wrong = checkpoint_choice.read_checkpoint_id(body)
    faults = (*faults, *wrong)
    if faults:
        raise Invalid.of("the server", faults)
    async with context.store.snapshot() as moment:
        whole = await moment.get(model)
        registered = await moment.get(create_guards.version_ref(model, version))
    has_own_files = body.get("image") or body.get("manifest")
    chosen = None if has_own_files else await checkpoint_choice.choose(context, model, registered, wanted)
    framework = checkpoint_choice.framework_of(registered, chosen) or whole.spec.get("framework")
    filled_in = {"deployToLayer": "cloud", **({"frameworkType": framework} if framework else {})}
    known = {**path_says, **filled_in}
    rest = {name: value for name, value in body.items() if name != checkpoint_choice.FIELD}
    spec = known | {name: value for name, value in rest.items() if value is not None or name not in known}
    return whole, spec | ({"checkpoint": chosen.id} if chosen is not None else {}), chosen


async def _create_named(
    context: ServerContext, model: Ref, version: str, spec: Mapping[str, Any], actor: Actor
) -> tuple[Resource, tuple[Warn, ...]]:
    """Create it under the first free name. Returns it with its warnings."""
    known = Context(capabilities=context.capabilities)
    for name in server_names(model.name, version):
        draft = views.decode_object(Ref(KIND.name, name, model.namespace), spec, "the server", known)
        new = field_managers.build_new(draft, KIND, model.namespace, actor, context.now())
        findings = await reference_checks.examine(context, new)  # the guard checks that the model exists
        guard = create_guards.require_version(model, version, name)
        with suppress(AlreadyExists):
            stored = await context.store.create(new, actor.name, guard=guard)
            return stored, (*draft.warnings, *findings.warnings)
    raise AssertionError("there is always another name")


async def _find_server(request: Request, store: Store, model: Ref) -> Resource:
    """The server in the path. Raises NotFound unless it serves this model and version."""
    server = await store.get(Ref("InferenceModel", request.path_params["server"], model.namespace))
    version = _version_in_path(request, model)
    if server.spec.get("modelName") != model.name or not model_family.serves(server, version):
        raise NotFound(
            f"{server.ref} is not a server of version {version} of {model}",
            hint=f"GET /model/{model.name}/serve/{version} lists them",
        )
    return server


def _version_in_path(request: Request, model: Ref) -> str:
    return views.version_at(request, model).name.partition(".")[2]

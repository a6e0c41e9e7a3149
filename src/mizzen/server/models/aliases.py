"""The /model API: aliases of a model. They are kept in its spec, and answer once their version does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Resource
from mizzen.kinds.text.versions import checked_alias
from mizzen.reconcile.recorder import Note
from mizzen.server.admission import create_guards, field_managers, model_family
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import suggestions, views
from mizzen.server.models.routes import forced, wanted_version
from mizzen.stores.store import Guard


def routes() -> list[Route]:
    return [
        Route("/model/{model}/alias/{alias}", point, methods=["PUT"]),
        Route("/model/{model}/alias/{alias}", remove, methods=["DELETE"]),
    ]


async def point(request: Request) -> Response:
    """At a version, for the first time or anew. Callers go to it as soon as a server of it is ready."""
    ref = views.model_at(request, Query(request, "namespace"))
    alias = request.path_params["alias"]
    actor = authorization.require(request, "write", targets.model(ref, alias=alias))
    body = await read_object(request)
    try:
        checked_alias(alias)
    except ValueError as error:
        raise Invalid.of("the alias", (Fault("alias", str(error)),)) from error
    version = wanted_version(body)
    plane, guard = plane_of(request), create_guards.may_be_aliased(ref, alias, version, force=forced(body))
    while True:
        async with plane.store.snapshot() as moment:
            try:
                await moment.check(guard)
            except Invalid as error:
                if any(fault.path == "version" for fault in error.faults):
                    error.hint = await suggestions.versions(request, moment, ref)
                raise
            model = await moment.get(ref)
        if model_family.aliases_of(model).get(alias) == version:
            return _told(request, model, alias)
        try:
            written = await _write(plane, model, {**_written(model), alias: version}, actor, guard)
        except Conflict:
            continue  # somebody wrote meanwhile; look again
        note = Note("AliasSet", f"{actor.name} pointed alias '{alias}' at version {version}")
        plane.recorder.noted(written, note)
        return _told(request, written, alias)


async def remove(request: Request) -> Response:
    ref = views.model_at(request, Query(request, "namespace"))
    alias = request.path_params["alias"]
    actor = authorization.require(request, "write", targets.model(ref, alias=alias))
    plane = plane_of(request)
    while True:
        model = await plane.store.get(ref)
        model_family.refuse_deleting(model)
        aliases = _written(model)
        if alias not in aliases:
            hint = suggestion(alias, tuple(aliases), "its aliases") if aliases else "it has no aliases"
            raise NotFound(f"{ref} has no alias '{alias}'", hint=hint)
        left = {name: version for name, version in aliases.items() if name != alias}
        try:
            written = await _write(plane, model, left, actor, None)
        except Conflict:
            continue
        plane.recorder.noted(written, Note("AliasRemoved", f"{actor.name} removed alias '{alias}'"))
        return _told(request, written, alias)


def _told(request: Request, model: Resource, alias: str) -> Response:
    """The model; to those who may do something with this alias only, the alias."""
    if authorization.may(request, "read", targets.of(model)):
        return JSONResponse(views.model(model))
    aliases = {name: version for name, version in model_family.aliases_of(model).items() if name == alias}
    return JSONResponse({"name": model.meta.name, "namespace": model.meta.namespace, "aliases": aliases})


def _written(model: Resource) -> Mapping[str, object]:
    """Aliases in the words of their authors, which stay as they are."""
    aliases = model.spec.get("aliases")
    return aliases if isinstance(aliases, Mapping) else {}


async def _write(
    plane: Plane, model: Resource, aliases: Mapping[str, object], actor: Actor, guard: Guard | None
) -> Resource:
    """An ordinary change of the spec: history has it, with who did it."""
    spec = {name: value for name, value in model.spec.items() if name != "aliases"}
    signed = {**model.meta.annotations, ACTOR_ANNOTATION: actor.name}
    changed = replace(
        model,
        meta=replace(model.meta, annotations=signed),
        spec={**spec, "aliases": dict(aliases)} if aliases else spec,
    )
    return await plane.store.update(field_managers.by_plane(model, changed, plane.now()), actor.name, guard=guard)

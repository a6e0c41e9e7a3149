"""The /model API: aliases of a model. The model's spec holds them; an alias works once its version is served."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.errors import Conflict, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import suggestion
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.text.versions import check_alias
from mizzen.reconcile.recorder import EventNote
from mizzen.server.admission import create_guards, field_managers, model_family
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import ServerContext
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import suggestions, views
from mizzen.server.models.routes import read_force, read_version
from mizzen.stores.store import Guard


def routes() -> list[Route]:
    return [
        Route("/model/{model}/alias/{alias}", set_alias, methods=["PUT"]),
        Route("/model/{model}/alias/{alias}", remove_alias, methods=["DELETE"]),
    ]


async def set_alias(request: Request) -> Response:
    """Create an alias or move it to another version. Requests go there as soon as a server of that version is ready."""
    alias = request.path_params["alias"]
    ref, actor, context = views.authorize(request, "write", alias=alias)
    body = await read_object(request)
    try:
        check_alias(alias)
    except ValueError as error:
        raise Invalid.of("the alias", (Fault("alias", str(error)),)) from error
    version = read_version(body)
    guard = create_guards.require_aliasable(ref, alias, version, force=read_force(body))
    while True:
        async with context.store.snapshot() as moment:
            try:
                await moment.check(guard)
            except Invalid as error:
                if any(fault.path == "version" for fault in error.faults):
                    error.hint = await suggestions.versions_hint(request, moment, ref)
                raise
            model = await moment.get(ref)
        if model_family.aliases_of(model).get(alias) == version:
            return _respond(request, model, alias)
        try:
            stored = await _write_aliases(context, model, {**_spec_aliases(model), alias: version}, actor, guard)
        except Conflict:
            continue  # another write came first; try again
        note = EventNote("AliasSet", f"{actor.name} pointed alias '{alias}' at version {version}")
        context.recorder.record_note(stored, note)
        return _respond(request, stored, alias)


async def remove_alias(request: Request) -> Response:
    alias = request.path_params["alias"]
    ref, actor, context = views.authorize(request, "write", alias=alias)
    while True:
        model = await context.store.get(ref)
        model_family.refuse_deleting(model)
        aliases = _spec_aliases(model)
        if alias not in aliases:
            hint = suggestion(alias, tuple(aliases), "its aliases") if aliases else "it has no aliases"
            raise NotFound(f"{ref} has no alias '{alias}'", hint=hint)
        left = {name: version for name, version in aliases.items() if name != alias}
        try:
            stored = await _write_aliases(context, model, left, actor, None)
        except Conflict:
            continue
        context.recorder.record_note(stored, EventNote("AliasRemoved", f"{actor.name} removed alias '{alias}'"))
        return _respond(request, stored, alias)


def _respond(request: Request, model: Resource, alias: str) -> Response:
    """The model; callers with rights to this alias only get just the alias."""
    if authorization.is_allowed(request, "read", targets.of(model)):
        return JSONResponse(views.render_model(model))
    aliases = {name: version for name, version in model_family.aliases_of(model).items() if name == alias}
    return JSONResponse({"name": model.meta.name, "namespace": model.meta.namespace, "aliases": aliases})


def _spec_aliases(model: Resource) -> Mapping[str, object]:
    """The aliases as their authors wrote them; rewriting keeps that form."""
    aliases = model.spec.get("aliases")
    return aliases if isinstance(aliases, Mapping) else {}


async def _write_aliases(
    context: ServerContext, model: Resource, aliases: Mapping[str, object], actor: Actor, guard: Guard | None
) -> Resource:
    """Write them as an ordinary spec change, so that history records it with its actor."""
    spec = {name: value for name, value in model.spec.items() if name != "aliases"}
    if aliases:
        spec["aliases"] = dict(aliases)
    new = field_managers.change_spec(model, spec, actor.name, context.now())
    return await context.store.update(new, actor.name, guard=guard)

"""Users and their tokens, for admins of the plane. All callers may read their identity, and list and revoke their own
tokens.

RoleBindings, not this module, define what a user may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access import credentials
from mizzen.access.policy import ANONYMOUS, VERBS, Binding, names_actor
from mizzen.errors import AlreadyExists, Conflict, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import Ref, Resource, format_time
from mizzen.kinds.text import durations
from mizzen.server.admission import field_managers
from mizzen.server.auth import role_bindings, targets, tokens
from mizzen.server.auth.authorization import actor_of, require
from mizzen.server.http import warning_headers
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.stores.all_pages import whole
from mizzen.stores.records.protocol import Principal, Token
from mizzen.stores.store import Present, Store

MAX_BODY_BYTES = 64 << 10
MAX_NOTE_LENGTH = 200
MAX_LIFETIME = timedelta(days=3660)
NO_STORE = {"Cache-Control": "no-store"}


def routes() -> list[Route]:
    return [
        Route("/whoami", whoami, methods=["GET"]),
        Route("/user", create, methods=["POST"]),
        Route("/user", list_all, methods=["GET"]),
        Route("/user/{user}", describe, methods=["GET"]),
        Route("/user/{user}", delete, methods=["DELETE"]),
        Route("/user/{user}/token", create_token, methods=["POST"]),
        Route("/user/{user}/token", list_tokens, methods=["GET"]),
        Route("/user/{user}/token/{token}", revoke_token, methods=["DELETE"]),
    ]


async def whoami(request: Request) -> Response:
    actor = actor_of(request)
    require(request, "read", targets.PLANE if actor == ANONYMOUS else targets.user(actor.name))
    Query(request)
    bindings = [_render_binding(binding) for binding in request.state.bindings if names_actor(binding, actor)]
    body = {
        "name": actor.name, "groups": sorted(actor.groups), "admin": actor.admin, "bindings": bindings,
        "open": context_of(request).anonymous,
    }  # fmt: skip
    return JSONResponse(body, headers=NO_STORE)


async def create(request: Request) -> Response:
    require(request, "admin", targets.user())
    Query(request)
    body = await read_object(request, MAX_BODY_BYTES)
    name, wrong = body.get("name"), tokens.name_fault(body.get("name"))
    faults = (*unknown(body, ("name",)), *((Fault("name", wrong),) if wrong else ()))
    if faults:
        raise Invalid.of("the user", faults)
    actor, context = require(request, "admin", targets.user(str(name))), context_of(request)
    principal = Principal(str(name), context.now(), actor.name)
    try:
        await context.identities.add_principal(principal)
    except AlreadyExists:
        hint = f"'mizzen token create {name}' creates a token, 'mizzen permit {name} …' grants rights"
        raise AlreadyExists(f"user '{name}' already exists", hint=hint) from None
    answer = JSONResponse(_render_user(principal), 201, headers={"Location": f"/user/{principal.name}"})
    named = _bindings_naming(request, principal.name)
    return warning_headers.attach(answer, [_binding_warning(binding, principal.name) for binding in named])


async def list_all(request: Request) -> Response:
    require(request, "admin", targets.user())
    Query(request)
    principals = await context_of(request).identities.principals()
    return JSONResponse({"items": [_render_user(principal) for principal in principals], "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    name = _user_in_path(request)
    require(request, "read", targets.user(name))
    Query(request)
    principal = await _find_principal(context_of(request), name)
    bindings = [_render_binding(binding) for binding in _bindings_naming(request, name)]
    return JSONResponse(_render_user(principal) | {"bindings": bindings})


async def delete(request: Request) -> Response:
    """Revokes all their tokens, and removes them from RoleBindings, so that a new user of that name gets none of their
    rights. The response lists those bindings as they were."""
    name = _user_in_path(request)
    actor = require(request, "admin", targets.user(name))
    Query(request)
    context = context_of(request)
    await _find_principal(context, name)
    # The rights first: after a failure here, the client can repeat the request.
    named = await _remove_from_bindings(context.store, name, actor.name, context.now())
    await context.identities.remove_principal(name, context.now())
    granted = filter(None, map(role_bindings.binding_of, named))
    return JSONResponse({"name": name, "deleted": True, "bindings": [_render_binding(each) for each in granted]})


async def create_token(request: Request) -> Response:
    """The only response that contains the token."""
    name = _user_in_path(request)
    actor = require(request, "admin", targets.user(name))
    Query(request)
    lasting, note = _read_token_request(await read_object(request, MAX_BODY_BYTES))
    context = context_of(request)
    await _find_principal(context, name)
    now, secret = context.now(), tokens.new_token()
    expires = now + lasting if lasting else None
    token = Token(tokens.new_token_id(), name, credentials.digest(secret), now, actor.name, expires, note=note)
    await context.identities.add_token(token)
    body = {"id": token.id, "token": secret, "user": name, "expires": expires and format_time(expires)}
    return JSONResponse(body, 201, headers={**NO_STORE, "Location": f"/user/{name}/token/{token.id}"})


async def list_tokens(request: Request) -> Response:
    name = _user_in_path(request)
    require(request, "read", targets.user(name))
    Query(request)
    context = context_of(request)
    await _find_principal(context, name)
    items = [_render_token(token, context) for token in await context.identities.tokens(name)]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def revoke_token(request: Request) -> Response:
    name, id_ = _user_in_path(request), request.path_params["token"]
    require(request, "write", targets.user(name))
    Query(request)
    context = context_of(request)
    if all(token.id != id_ for token in await context.identities.tokens(name)):
        raise NotFound(f"{name} has no token '{id_[:40]}'", hint=f"'mizzen token list {name}' lists their tokens")
    return JSONResponse(_render_token(await context.identities.revoke_token(id_, context.now()), context))


async def _find_principal(context: ServerContext, name: str) -> Principal:
    for principal in await context.identities.principals():
        if principal.name == name:
            return principal
    raise NotFound(f"no user '{name}'", hint=f"'mizzen user list' lists users, 'mizzen user add {name}' creates one")


def _bindings_naming(request: Request, user: str) -> list[Binding]:
    return [binding for binding in request.state.bindings if user in binding.subjects]


async def _remove_from_bindings(store: Store, user: str, by: str, now: datetime) -> tuple[Resource, ...]:
    """Removes the user from all RoleBindings, and deletes those that name no other subject.

    Returns the RoleBindings that named the user, as they were before; also those that grant nothing.
    """
    bindings = await whole(store, role_bindings.KIND)
    named = tuple(item for item in bindings if user in _subjects(item) and not item.deleting)
    for resource in named:
        with suppress(NotFound):
            while not await _remove_subject(store, resource.ref, user, by, now):
                pass
    return named


async def _remove_subject(store: Store, ref: Ref, user: str, by: str, now: datetime) -> bool:
    """False if another caller changed the RoleBinding meanwhile."""
    found = await store.get(ref)
    subjects = _subjects(found)
    if user not in subjects or found.deleting:
        return True

    def is_unchanged(now: Present) -> None:
        if now.get(ref).meta.resource_version != found.meta.resource_version:
            raise Conflict(f"{ref} changed since it was read")

    left = [subject for subject in subjects if subject != user]
    try:
        if not left:
            await store.delete(ref, by, uid=found.meta.uid, guard=is_unchanged)
        else:
            await store.update(field_managers.change_spec(found, {**found.spec, "subjects": left}, by, now), by)
    except Conflict:
        return False
    return True


def _subjects(resource: Resource) -> list[object]:
    """Reads any spec, also an invalid one."""
    subjects = resource.spec.get("subjects")
    return subjects if isinstance(subjects, list) else []


def _binding_warning(binding: Binding, user: str) -> Warn:
    verbs = " and ".join(verb for verb in VERBS if verb in binding.verbs)
    what = f"{binding.model}@{binding.alias}" if binding.alias else binding.model or f"namespace/{binding.namespace}"
    return Warn(
        "", f"RoleBinding {binding.namespace}/{binding.name} already named '{user}', so they may now {verbs} {what}"
    )


def _user_in_path(request: Request) -> str:
    return str(request.path_params["user"])


def _read_token_request(body: Mapping[str, Any]) -> tuple[timedelta | None, str]:
    faults, lasting = list(unknown(body, ("expiresIn", "note"))), None
    span, note = body.get("expiresIn"), body.get("note")
    try:
        lasting = None if span is None else _parse_lifetime(span)
    except ValueError as error:
        faults.append(Fault("expiresIn", str(error)))
    if note is not None and (not isinstance(note, str) or len(note) > MAX_NOTE_LENGTH):
        faults.append(Fault("note", f"must be a text of at most {MAX_NOTE_LENGTH} characters"))
    if faults:
        raise Invalid.of("the token", tuple(faults))
    return lasting, note or ""


def _parse_lifetime(span: object) -> timedelta:
    seconds = durations.seconds(span if isinstance(span, str) else str(span))
    if not 0 < seconds <= MAX_LIFETIME.total_seconds():
        raise ValueError(f"must be above 0 and at most {MAX_LIFETIME.days}d; without it, the token never expires")
    return timedelta(seconds=seconds)


def _render_user(principal: Principal) -> dict[str, Any]:
    return {
        "name": principal.name, "created": format_time(principal.created), "createdBy": principal.created_by,
    }  # fmt: skip


def _render_token(token: Token, context: ServerContext) -> dict[str, Any]:
    return {
        "id": token.id, "user": token.principal, "created": format_time(token.created), "createdBy": token.created_by,
        "expires": token.expires and format_time(token.expires),
        "revoked": token.revoked and format_time(token.revoked),
        "valid": token.valid(context.now()), "note": token.note,
    }  # fmt: skip


def _render_binding(binding: Binding) -> dict[str, Any]:
    about = {"namespace": binding.namespace, "model": binding.model, "alias": binding.alias}
    return {
        "name": binding.name,
        "verbs": [verb for verb in VERBS if verb in binding.verbs],
        "target": {name: value for name, value in about.items() if value},
    }

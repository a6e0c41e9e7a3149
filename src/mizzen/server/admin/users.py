"""Users and their tokens, for admins of the plane; everybody may ask who they are, and list and revoke their own.

What a user may do is not said here: RoleBindings say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access import credentials
from mizzen.access.policy import ANONYMOUS, VERBS, Binding, speaks_of
from mizzen.errors import AlreadyExists, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import format_time
from mizzen.kinds.text import durations
from mizzen.server.auth import role_bindings, targets, tokens
from mizzen.server.auth.authorization import actor_of, require
from mizzen.server.http import warning_headers
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.stores.records.protocol import Principal, Token

SMALL = 64 << 10
LONGEST_NOTE = 200
LONGEST = timedelta(days=3660)
NOT_KEPT = {"Cache-Control": "no-store"}


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
    given = [_binding(binding) for binding in request.state.bindings if speaks_of(binding, actor)]
    body = {
        "name": actor.name, "groups": sorted(actor.groups), "admin": actor.admin, "bindings": given,
        "open": plane_of(request).anonymous,
    }  # fmt: skip
    return JSONResponse(body, headers=NOT_KEPT)


async def create(request: Request) -> Response:
    require(request, "admin", targets.user())
    Query(request)
    body = await read_object(request, SMALL)
    name, wrong = body.get("name"), tokens.name_fault(body.get("name"))
    faults = (*unknown(body, ("name",)), *((Fault("name", wrong),) if wrong else ()))
    if faults:
        raise Invalid.of("the user", faults)
    actor, plane = require(request, "admin", targets.user(str(name))), plane_of(request)
    principal = Principal(str(name), plane.now(), actor.name)
    try:
        await plane.identities.add_principal(principal)
    except AlreadyExists:
        hint = f"'mizzen token create {name}' gives them a token, 'mizzen permit {name} …' more rights"
        raise AlreadyExists(f"user '{name}' already exists", hint=hint) from None
    answer = JSONResponse(_user(principal), 201, headers={"Location": f"/user/{principal.name}"})
    return warning_headers.attach(
        answer, [_awaited(binding, principal.name) for binding in _naming(request, principal.name)]
    )


async def list_all(request: Request) -> Response:
    require(request, "admin", targets.user())
    Query(request)
    principals = await plane_of(request).identities.principals()
    return JSONResponse({"items": [_user(principal) for principal in principals], "metadata": {"continue": ""}})


async def describe(request: Request) -> Response:
    name = _name(request)
    require(request, "read", targets.user(name))
    Query(request)
    principal = await _principal(plane_of(request), name)
    given = [_binding(binding) for binding in _naming(request, name)]
    return JSONResponse(_user(principal) | {"bindings": given})


async def delete(request: Request) -> Response:
    """Revokes all their tokens, and takes them out of the RoleBindings that name them, which are listed as they were:
    a new user of that name must not get their rights."""
    name = _name(request)
    actor = require(request, "admin", targets.user(name))
    Query(request)
    plane = plane_of(request)
    await _principal(plane, name)
    # The rights first: who is cut off here can ask for the same again.
    named = await role_bindings.take_out(plane.store, name, actor.name, plane.now())
    await plane.identities.remove_principal(name, plane.now())
    granted = [_binding(binding) for resource in named if (binding := role_bindings.binding_of(resource)) is not None]
    return JSONResponse({"name": name, "deleted": True, "bindings": granted})


async def create_token(request: Request) -> Response:
    """The one time that the token is shown."""
    name = _name(request)
    actor = require(request, "admin", targets.user(name))
    Query(request)
    lasting, note = _wanted(await read_object(request, SMALL))
    plane = plane_of(request)
    await _principal(plane, name)
    now, secret = plane.now(), tokens.new_token()
    expires = now + lasting if lasting else None
    token = Token(tokens.new_token_id(), name, credentials.digest(secret), now, actor.name, expires, note=note)
    await plane.identities.add_token(token)
    body = {"id": token.id, "token": secret, "user": name, "expires": expires and format_time(expires)}
    return JSONResponse(body, 201, headers={**NOT_KEPT, "Location": f"/user/{name}/token/{token.id}"})


async def list_tokens(request: Request) -> Response:
    name = _name(request)
    require(request, "read", targets.user(name))
    Query(request)
    plane = plane_of(request)
    await _principal(plane, name)
    items = [_token(token, plane) for token in await plane.identities.tokens(name)]
    return JSONResponse({"items": items, "metadata": {"continue": ""}})


async def revoke_token(request: Request) -> Response:
    name, id_ = _name(request), request.path_params["token"]
    require(request, "write", targets.user(name))
    Query(request)
    plane = plane_of(request)
    if all(token.id != id_ for token in await plane.identities.tokens(name)):
        raise NotFound(f"{name} has no token '{id_[:40]}'", hint=f"'mizzen token list {name}' lists them")
    return JSONResponse(_token(await plane.identities.revoke_token(id_, plane.now()), plane))


async def _principal(plane: Plane, name: str) -> Principal:
    for principal in await plane.identities.principals():
        if principal.name == name:
            return principal
    raise NotFound(f"no user '{name}'", hint=f"'mizzen user list' lists them, 'mizzen user add {name}' makes one")


def _naming(request: Request, user: str) -> list[Binding]:
    return [binding for binding in request.state.bindings if user in binding.subjects]


def _awaited(binding: Binding, user: str) -> Warn:
    verbs = " and ".join(verb for verb in VERBS if verb in binding.verbs)
    what = f"{binding.model}@{binding.alias}" if binding.alias else binding.model or f"namespace/{binding.namespace}"
    return Warn("", f"RoleBinding {binding.namespace}/{binding.name} named '{user}' already: they may {verbs} {what}")


def _name(request: Request) -> str:
    return str(request.path_params["user"])


def _wanted(body: Mapping[str, Any]) -> tuple[timedelta | None, str]:
    faults, lasting = list(unknown(body, ("expiresIn", "note"))), None
    span, note = body.get("expiresIn"), body.get("note")
    try:
        lasting = None if span is None else _lasting(span)
    except ValueError as error:
        faults.append(Fault("expiresIn", str(error)))
    if note is not None and (not isinstance(note, str) or len(note) > LONGEST_NOTE):
        faults.append(Fault("note", f"must be a text of at most {LONGEST_NOTE} characters"))
    if faults:
        raise Invalid.of("the token", tuple(faults))
    return lasting, note or ""


def _lasting(span: object) -> timedelta:
    seconds = durations.seconds(span if isinstance(span, str) else str(span))
    if not 0 < seconds <= LONGEST.total_seconds():
        raise ValueError(f"must be above 0 and at most {LONGEST.days}d; without it the token does not expire")
    return timedelta(seconds=seconds)


def _user(principal: Principal) -> dict[str, Any]:
    return {
        "name": principal.name, "created": format_time(principal.created), "createdBy": principal.created_by,
    }  # fmt: skip


def _token(token: Token, plane: Plane) -> dict[str, Any]:
    return {
        "id": token.id, "user": token.principal, "created": format_time(token.created), "createdBy": token.created_by,
        "expires": token.expires and format_time(token.expires),
        "revoked": token.revoked and format_time(token.revoked),
        "valid": token.valid(plane.now()), "note": token.note,
    }  # fmt: skip


def _binding(binding: Binding) -> dict[str, Any]:
    about = {"namespace": binding.namespace, "model": binding.model, "alias": binding.alias}
    return {
        "name": binding.name,
        "verbs": [verb for verb in VERBS if verb in binding.verbs],
        "target": {name: value for name, value in about.items() if value},
    }

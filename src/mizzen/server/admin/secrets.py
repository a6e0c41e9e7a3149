"""Secrets: callers that may write in a namespace set, replace and delete them. The API never returns their values.

No response, error or log contains a value. The error for a malformed body gives the position of the fault, not the
content.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, Fault, Forbidden, Invalid, NotFound, UnsupportedMediaType
from mizzen.kinds.rules import references
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import Ref, format_time, name_fault
from mizzen.server.admission import namespaced_store
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import require
from mizzen.server.http import warning_headers
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import JSON_TYPES, media_type, read_object
from mizzen.stores.all_pages import each
from mizzen.stores.records.protocol import SealedSecret
from mizzen.stores.store import Store, Where

MOST_KEYS = 64
LONGEST_VALUE = 64 << 10
LARGEST_BODY = 8 << 20
NO_STORE = {"Cache-Control": "no-store"}
REFERRING_KINDS = ("InferenceModel", "TrainingJob")
"""Kinds whose specs refer to secrets."""

KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")


def routes() -> list[Route]:
    return [
        Route("/secret", list_all, methods=["GET"]),
        Route("/secret/{secret}", put, methods=["PUT"]),
        Route("/secret/{secret}", change, methods=["PATCH"]),
        Route("/secret/{secret}", describe, methods=["GET"]),
        Route("/secret/{secret}", delete, methods=["DELETE"]),
    ]


async def put(request: Request) -> Response:
    """Replaces all values of the secret."""
    return await _set(request, whole=True)


async def change(request: Request) -> Response:
    """Sets some values and keeps the others. Creates the secret if it is absent."""
    return await _set(request, whole=False)


async def list_all(request: Request) -> Response:
    """Names and keys of secrets. Needs `write`: readers do not need to know which secrets exist."""
    namespace = Query(request, "namespace").namespace()
    require(request, "write", targets.secret(namespace))
    items = [_render(secret) for secret in await context_of(request).vault.list(namespace)]
    return JSONResponse({"items": items, "metadata": {"continue": ""}}, headers=NO_STORE)


async def describe(request: Request) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    require(request, "write", targets.secret(namespace, name))
    return JSONResponse(_render(await context_of(request).vault.get(namespace, name)), headers=NO_STORE)


async def delete(request: Request) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    require(request, "write", targets.secret(namespace, name))
    context = context_of(request)
    await context.vault.delete(namespace, name)
    answer = JSONResponse({"name": name, "namespace": namespace, "deleted": True})
    users = await _find_references(context.store, namespace, name)
    return warning_headers.attach(answer, [Warn("", f"{ref} still refers to secret '{name}'") for ref in users])


async def _find_references(store: Store, namespace: str, secret: str) -> list[Ref]:
    """Objects whose environment variables use it; objects with an invalid spec are skipped."""
    found = []
    async with store.snapshot() as moment:
        for kind in REFERRING_KINDS:
            async for resource in each(moment, kind, Where(namespace=namespace)):
                with suppress(Invalid):
                    if not resource.deleting and secret in references.references_of(resource).secrets:
                        found.append(resource.ref)
    return found


async def _set(request: Request, *, whole: bool) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    actor = require(request, "write", targets.secret(namespace, name))
    body, context = await _read_body(request), context_of(request)
    there = await _find_keys(request, namespace, name)
    faults = tuple(_faults(name, body, () if whole else there or ()))
    if faults:
        raise Invalid.of("the secret", faults)
    await namespaced_store.check_active(context.store, namespace)
    write = context.vault.put if whole else context.vault.merge
    stored = await write(namespace, name, body["data"], actor.name, context.now())
    await _ensure_namespace(context, stored)
    return JSONResponse(_render(stored), 201 if there is None else 200, headers=NO_STORE)


async def _ensure_namespace(context: ServerContext, secret: SealedSecret) -> None:
    """Creates its namespace. If that is being deleted, its cleanup may have missed the secret, so remove it."""
    namespace = await namespaced_store.ensure(context.store, secret.namespace, secret.updated_by)
    try:
        namespaced_store.refuse_terminating(namespace)
    except Forbidden:
        with suppress(NotFound):
            await context.vault.delete(secret.namespace, secret.name)
        raise


async def _find_keys(request: Request, namespace: str, name: str) -> tuple[str, ...] | None:
    """The keys; None if there is no such secret."""
    try:
        return (await context_of(request).vault.get(namespace, name)).keys
    except NotFound:
        return None


async def _read_body(request: Request) -> dict[str, Any]:
    """The body, JSON only: errors about YAML quote its content."""
    if media_type(request) not in JSON_TYPES:
        hint = 'send application/json: {"data": {"KEY": "value"}}'
        raise UnsupportedMediaType("a secret must be sent as JSON", hint=hint)
    try:
        return await read_object(request, LARGEST_BODY)
    except BadRequest as error:
        # `from None`: the cause may contain the text itself.
        raise BadRequest(
            "the body is not a valid JSON object; it is not quoted here because it may contain a secret",
            hint=f'send {{"data": {{"KEY": "value"}}}}; {_fault_position(error)}'.rstrip("; "),
        ) from None


def _fault_position(error: BadRequest) -> str:
    match = re.search(r"line [0-9]+,? column [0-9]+", error.message)
    return f"the fault is at {match[0]}" if match else ""


def _faults(name: str, body: Mapping[str, Any], there: Collection[str]) -> Iterator[Fault]:
    wrong = name_fault(name, "name")
    if wrong:
        yield wrong
    yield from unknown(body, ("data",))
    data = body.get("data")
    if not isinstance(data, Mapping) or not data:
        yield Fault("data", "required: an object of texts")
        return
    count = len({*data, *there})
    if count > MOST_KEYS:
        yield Fault("data", f"at most {MOST_KEYS} keys, not {count}")
    for key, value in data.items():
        short = key[:100]
        if not KEY.fullmatch(key):
            yield Fault("data", f"'{short}' is not a valid key; expected at most 253 letters, digits, '-', '_' and '.'")
        elif not isinstance(value, str):
            yield Fault(f"data.{short}", "must be a text; quote it")
        elif len(value.encode()) > LONGEST_VALUE:
            yield Fault(f"data.{short}", f"at most {LONGEST_VALUE} bytes, not {len(value.encode())}")
        elif "\0" in value:
            yield Fault(f"data.{short}", "must not contain NUL: environment variables cannot hold it")


def _render(secret: SealedSecret) -> dict[str, Any]:
    return {
        "name": secret.name, "namespace": secret.namespace, "keys": list(secret.keys),
        "updated": format_time(secret.updated), "updatedBy": secret.updated_by,
    }  # fmt: skip

"""Secrets: set, replaced and removed by those who may write in a namespace, and shown to nobody.

Values go in and never come out here: no answer, no error and no log holds one. Whoever sends a bad body is told where
it is bad, not what it says.
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
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import JSON_TYPES, read_object
from mizzen.stores.all_pages import each
from mizzen.stores.records.protocol import SealedSecret
from mizzen.stores.store import Store, Where

MOST_KEYS = 64
LONGEST_VALUE = 64 << 10
LARGEST_BODY = 8 << 20
NOT_KEPT = {"Cache-Control": "no-store"}
NAMING = ("InferenceModel", "TrainingJob")
"""Kinds whose specs name secrets."""

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
    """All values of the secret at once: what was there before is replaced."""
    return await _set(request, whole=True)


async def change(request: Request) -> Response:
    """Some values: others that are there stay. Makes the secret when it is not there."""
    return await _set(request, whole=False)


async def list_all(request: Request) -> Response:
    """Their names and keys. For who may write, not for who may read: strangers need not know what there is."""
    namespace = Query(request, "namespace").namespace()
    require(request, "write", targets.secret(namespace))
    items = [_view(secret) for secret in await plane_of(request).vault.list(namespace)]
    return JSONResponse({"items": items, "metadata": {"continue": ""}}, headers=NOT_KEPT)


async def describe(request: Request) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    require(request, "write", targets.secret(namespace, name))
    return JSONResponse(_view(await plane_of(request).vault.get(namespace, name)), headers=NOT_KEPT)


async def delete(request: Request) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    require(request, "write", targets.secret(namespace, name))
    plane = plane_of(request)
    await plane.vault.delete(namespace, name)
    answer = JSONResponse({"name": name, "namespace": namespace, "deleted": True})
    users = await _naming(plane.store, namespace, name)
    return warning_headers.attach(answer, [Warn("", f"{ref} still names secret '{name}'") for ref in users])


async def _naming(store: Store, namespace: str, secret: str) -> list[Ref]:
    """The objects whose variables take their values from it, as far as they can be read."""
    found = []
    async with store.snapshot() as moment:
        for kind in NAMING:
            async for resource in each(moment, kind, Where(namespace=namespace)):
                with suppress(Invalid):
                    if not resource.deleting and secret in references.named(resource).secrets:
                        found.append(resource.ref)
    return found


async def _set(request: Request, *, whole: bool) -> Response:
    namespace, name = Query(request, "namespace").namespace(), request.path_params["secret"]
    actor = require(request, "write", targets.secret(namespace, name))
    body, plane = await _body(request), plane_of(request)
    there = await _keys(request, namespace, name)
    faults = tuple(_faults(name, body, () if whole else there or ()))
    if faults:
        raise Invalid.of("the secret", faults)
    await namespaced_store.refuse_closed(plane.store, namespace)
    write = plane.vault.put if whole else plane.vault.merge
    stored = await write(namespace, name, body["data"], actor.name, plane.now())
    await _settled(plane, stored)
    return JSONResponse(_view(stored), 201 if there is None else 200, headers=NOT_KEPT)


async def _settled(plane: Plane, secret: SealedSecret) -> None:
    """Its namespace is there now. When that began to go meanwhile, who empties it may not have seen the secret."""
    try:
        namespaced_store.refuse_going(await namespaced_store.ensure(plane.store, secret.namespace, secret.updated_by))
    except Forbidden:
        with suppress(NotFound):
            await plane.vault.delete(secret.namespace, secret.name)
        raise


async def _keys(request: Request, namespace: str, name: str) -> tuple[str, ...] | None:
    """None when there is no such secret."""
    try:
        return (await plane_of(request).vault.get(namespace, name)).keys
    except NotFound:
        return None


async def _body(request: Request) -> dict[str, Any]:
    """JSON only: what is wrong with YAML is explained by quoting it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in JSON_TYPES:
        raise UnsupportedMediaType("a secret is sent as JSON", hint='send application/json: {"data": {"KEY": "value"}}')
    try:
        return await read_object(request, LARGEST_BODY)
    except BadRequest as error:
        # `from None`: the cause may hold the text itself.
        raise BadRequest(
            "the body is not a readable JSON object; it is not shown here, for it may hold a secret",
            hint=f'send {{"data": {{"KEY": "value"}}}}; {_place(error)}'.rstrip("; "),
        ) from None


def _place(error: BadRequest) -> str:
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
        shown = key[:100]
        if not KEY.fullmatch(key):
            yield Fault("data", f"'{shown}' is no key: letters, digits, '-', '_' and '.', at most 253")
        elif not isinstance(value, str):
            yield Fault(f"data.{shown}", "must be a text; quote it")
        elif len(value.encode()) > LONGEST_VALUE:
            yield Fault(f"data.{shown}", f"at most {LONGEST_VALUE} bytes, not {len(value.encode())}")
        elif "\0" in value:
            yield Fault(f"data.{shown}", "must hold no NUL: it could not be given to a process")


def _view(secret: SealedSecret) -> dict[str, Any]:
    return {
        "name": secret.name, "namespace": secret.namespace, "keys": list(secret.keys),
        "updated": format_time(secret.updated), "updatedBy": secret.updated_by,
    }  # fmt: skip

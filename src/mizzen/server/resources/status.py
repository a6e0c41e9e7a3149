"""The status subresource: the reports of controllers. Callers may read it; admins may also change it.

Such a change does not bind controllers: their next pass overwrites it with their observations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, Conflict, Fault, Invalid
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.schema.validation_errors import faults_of
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object, read_patch, run_in_worker, size_hint
from mizzen.server.resources import representation, request_path, write

QUERY = ("dryRun", "fieldManager", "fieldValidation", "force", "includeObject", "pretty", "timeout")


def routes(path: str) -> list[Route]:
    return [
        Route(path, read, methods=["GET"]),
        Route(path, replace_status, methods=["PUT"]),
        Route(path, patch, methods=["PATCH"]),
    ]


async def read(request: Request) -> Response:
    query = Query(request, "includeObject", "pretty", "timeout")
    form = representation.negotiate(request, request_path.kind_of(request), query)
    return JSONResponse(form.render((await request_path.find_object(request, "read")).wire()))


async def replace_status(request: Request) -> Response:
    await _require_admin(request)
    query = Query(request, *QUERY)
    body = await read_object(request)
    return await _write(request, lambda _old: body, query)


async def patch(request: Request) -> Response:
    """An apply is a merge here: only controllers own a status."""
    await _require_admin(request)
    query = Query(request, *QUERY)
    sent = await read_patch(request, write.PATCHES)
    make = write.patcher_of(sent)
    return await _write(request, lambda old: make(old.wire(), sent.body), query, sent.size)


async def _require_admin(request: Request) -> Resource:
    resource = await request_path.find_object(request, "write")
    authorization.require(request, "admin", targets.of(resource))
    return resource


async def _write(request: Request, wanted: Callable[[Resource], Any], query: Query, size: int = 0) -> Response:
    form, store = representation.negotiate(request, request_path.kind_of(request), query), context_of(request).store
    actor = authorization.actor_of(request)
    while True:
        old = await store.get(request_path.ref_of(request))
        document = await run_in_worker(request, size + size_hint(old.spec), partial(wanted, old))
        status = await run_in_worker(request, size_hint(document), partial(_parse_status, request, document, old))
        new = replace(old, status=status)
        if query.dry_run():
            return JSONResponse(form.render(new.wire()))
        try:
            stored = await store.update_status(new, actor.name, decision="status")
        except Conflict:
            continue  # another writer changed it meanwhile: read it again
        return JSONResponse(form.render(stored.wire()))


def _parse_status(request: Request, document: Any, old: Resource) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise BadRequest("the body is not an object")
    metadata, status = document.get("metadata"), document.get("status")
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    write.refuse_stale(version or "", "", old)
    if not isinstance(status, Mapping | None):
        raise Invalid.of(str(old.ref), (Fault("status", "must be an object"),))
    try:
        request_path.kind_of(request).status.model_validate(status or {}, strict=True)
    except ValidationError as error:
        raise Invalid.of(str(old.ref), tuple(faults_of(error, "status"))) from error
    return status or {}

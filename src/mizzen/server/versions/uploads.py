"""Files sent by digest, before the version that names them: only what is missing, and from where it broke off.

    POST /model/<n>/upload           {files: [{path, digest, size}]} -> {missing: [digest, …]}
    HEAD /model/<n>/upload/<digest>  Upload-Offset: how much of it has come
    PUT  /model/<n>/upload/<digest>  Content-Range: bytes a-b/total, or the whole; `bytes */total` only asks

What is asked for here is told to nobody else: content that only others sent is missing, as if it were not there.
"""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.blobs.file_store import Blob
from mizzen.blobs.fs import content
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import model_family
from mizzen.server.auth import targets
from mizzen.server.auth.authorization import require
from mizzen.server.http import multipart
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.server.versions import ingest, sources

OFFSET = "Upload-Offset"
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})")


def routes() -> list[Route]:
    return [
        Route("/model/{model}/upload", ask, methods=["POST"]),
        Route("/model/{model}/upload/{digest}", head, methods=["HEAD"]),
        Route("/model/{model}/upload/{digest}", put, methods=["PUT"]),
    ]


async def ask(request: Request) -> Response:
    """Which of these have to be sent."""
    plane, model, actor = await _permitted(request)
    files = sources.files_of(await read_object(request))
    missing = await ingest.not_to_be_named(plane, model, actor, (file.digest for file in files))
    return JSONResponse({"missing": sorted(missing)})


async def head(request: Request) -> Response:
    plane, model, actor = await _permitted(request)
    digest = _digest(request)
    if not await ingest.not_to_be_named(plane, model, actor, [digest]):
        return Response(headers={OFFSET: str(plane.blobs.head(digest).size)})
    offset = _uploads(plane).offset(actor.name, digest)
    if not offset:
        raise NotFound(f"nothing of {digest} has come yet")
    return Response(headers={OFFSET: str(offset)})


async def put(request: Request) -> Response:
    """201 when all of it is there, 202 while more is to come. What came before a connection broke is kept."""
    plane, _, actor = await _permitted(request)
    digest, uploads = _digest(request), _uploads(plane)
    start, size, total = _range(request)
    if start is None:
        return _answer(digest, uploads.offset(actor.name, digest), None)
    most = plane.limits.upload_bytes
    with uploads.piece(actor.name, digest, start, most if total is None else total) as piece:
        came = 0
        async for chunk in multipart.chunks(request):
            came += len(chunk)
            if size is not None and came > size:
                raise BadRequest("more bytes came than Content-Range says")
            await asyncio.to_thread(piece.write, chunk)
        if size is not None and came < size:
            raise BadRequest("fewer bytes came than Content-Range says")
        whole = start + came if total is None else total
        blob = await asyncio.to_thread(uploads.finish, actor.name, digest, whole)
        return _answer(digest, start + came, blob)


async def _permitted(request: Request) -> tuple[Plane, Ref, Actor]:
    ref = views.model_at(request, Query(request, "namespace"))
    actor = require(request, "write", targets.model(ref))
    plane = plane_of(request)
    model_family.refuse_deleting(await plane.store.get(ref))
    return plane, ref, actor


def _uploads(plane: Plane) -> Uploads:
    return Uploads(plane.blobs, plane.limits)


def _digest(request: Request) -> str:
    digest = str(request.path_params["digest"])
    content.hex_of(digest)
    return digest


def _range(request: Request) -> tuple[int | None, int | None, int | None]:
    """(where it starts, how much comes, how large the file is). No start: nothing comes, it is only asked."""
    said = request.headers.get("content-range")
    if said is None:
        length = request.headers.get("content-length", "")
        known = int(length) if length.isdecimal() and len(length) < 18 else None
        return 0, known, known
    match = _RANGE.fullmatch(said.strip())
    if match is None:
        raise BadRequest(f"cannot read Content-Range {said[:100]!r}", hint="write 'bytes 0-1023/4096'")
    total = int(match[3])
    if match[1] is None:
        return None, None, total
    first, last = int(match[1]), int(match[2])
    if not first <= last < total:
        raise BadRequest(f"Content-Range {said[:100]!r} makes no sense", hint="write 'bytes 0-1023/4096'")
    return first, last - first + 1, total


def _answer(digest: str, offset: int, blob: Blob | None) -> Response:
    body = {"digest": digest, "offset": offset, "complete": blob is not None}
    return JSONResponse(body, 202 if blob is None else 201, headers={OFFSET: str(offset)})

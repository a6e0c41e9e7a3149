"""Uploads of files by digest, before the version that names them: only missing files, and resumable.

    POST /model/<n>/upload           {files: [{path, digest, size}]} -> {missing: [digest, …]}
    HEAD /model/<n>/upload/<digest>  Upload-Offset: how many bytes the plane has
    PUT  /model/<n>/upload/<digest>  Content-Range: bytes a-b/total, or the whole file; `bytes */total` only queries

Content that only other users uploaded counts as missing, so that callers learn nothing about it.
"""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.access.policy import Actor
from mizzen.blobs.file_store import BlobDescriptor
from mizzen.blobs.fs import content
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import BadRequest, NotFound
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import model_family
from mizzen.server.http import multipart
from mizzen.server.http.context import ServerContext
from mizzen.server.http.request_bodies import read_object
from mizzen.server.models import views
from mizzen.server.versions import ingest, sources

OFFSET = "Upload-Offset"
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})")


def routes() -> list[Route]:
    return [
        Route("/model/{model}/upload", list_missing, methods=["POST"]),
        Route("/model/{model}/upload/{digest}", get_offset, methods=["HEAD"]),
        Route("/model/{model}/upload/{digest}", receive, methods=["PUT"]),
    ]


async def list_missing(request: Request) -> Response:
    """The files that the client has to upload."""
    model, actor, context = await _authorize(request)
    files = sources.files_of(await read_object(request))
    missing = await ingest.find_unavailable(context, model, actor, (file.digest for file in files))
    return JSONResponse({"missing": sorted(missing)})


async def get_offset(request: Request) -> Response:
    model, actor, context = await _authorize(request)
    digest = _digest_in_path(request)
    if not await ingest.find_unavailable(context, model, actor, [digest]):
        return Response(headers={OFFSET: str(context.blobs.head(digest).size)})
    offset = _uploads_of(context).offset(actor.name, digest)
    if not offset:
        raise NotFound(f"nothing of {digest} has been uploaded yet")
    return Response(headers={OFFSET: str(offset)})


async def receive(request: Request) -> Response:
    """201 once the file is complete, 202 before that. Bytes received before a connection broke are kept."""
    _, actor, context = await _authorize(request)
    digest, uploads = _digest_in_path(request), _uploads_of(context)
    start, size, total = _parse_range(request)
    if start is None:
        return _respond(digest, uploads.offset(actor.name, digest), None)
    most = context.limits.upload_bytes
    with uploads.piece(actor.name, digest, start, most if total is None else total) as piece:
        received = 0
        async for chunk in multipart.read_chunks(request):
            received += len(chunk)
            if size is not None and received > size:
                raise BadRequest("the body has more bytes than Content-Range says")
            await asyncio.to_thread(piece.write, chunk)
        if size is not None and received < size:
            raise BadRequest("the body has fewer bytes than Content-Range says")
        whole = start + received if total is None else total
        blob = await asyncio.to_thread(uploads.finish, actor.name, digest, whole)
        return _respond(digest, start + received, blob)


async def _authorize(request: Request) -> tuple[Ref, Actor, ServerContext]:
    ref, actor, context = views.authorize(request, "write")
    model_family.refuse_deleting(await context.store.get(ref))
    return ref, actor, context


def _uploads_of(context: ServerContext) -> Uploads:
    return Uploads(context.blobs, context.limits)


def _digest_in_path(request: Request) -> str:
    digest = str(request.path_params["digest"])
    content.hex_of(digest)
    return digest


def _parse_range(request: Request) -> tuple[int | None, int | None, int | None]:
    """Start, length, and total size of the file. No start: the request has no content and only queries the offset."""
    header = request.headers.get("content-range")
    if header is None:
        length = request.headers.get("content-length", "")
        known = int(length) if length.isdecimal() and len(length) < 18 else None
        return 0, known, known
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        raise BadRequest(f"cannot parse Content-Range {header[:100]!r}", hint="write 'bytes 0-1023/4096'")
    total = int(match[3])
    if match[1] is None:
        return None, None, total
    first, last = int(match[1]), int(match[2])
    if not first <= last < total:
        raise BadRequest(f"Content-Range {header[:100]!r} is not a valid range", hint="write 'bytes 0-1023/4096'")
    return first, last - first + 1, total


def _respond(digest: str, offset: int, blob: BlobDescriptor | None) -> Response:
    body = {"digest": digest, "offset": offset, "complete": blob is not None}
    return JSONResponse(body, 202 if blob is None else 201, headers={OFFSET: str(offset)})

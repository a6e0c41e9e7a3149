"""`/openapi/v3`: an OpenAPI document for each group and version, and an empty v2 document.

`make gen` generates the documents from the code; this module only serves them. The index gives each a URL with a hash
of its content, so that clients may cache it forever: kubectl keeps a cache of HTTP responses on disk.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.server.auth import authorization, targets
from mizzen.server.http.query import Query

ROOT = "/openapi/v3"
V2_PATH = "/openapi/v2"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_PROTOBUF_ACCEPT = "proto-openapi.spec.v2@v1.0+protobuf"
"""The same type as clients name it in `Accept`. As a response's Content-Type it would not parse, because of the `@`."""
FOLDER = Path(__file__).with_name("openapi")
CACHE_FOREVER = "private, immutable, max-age=31536000"
REVALIDATE = "no-cache"


def routes() -> list[Route]:
    """Reads the documents once: `openapi/api/v1.json` is the document of `api/v1`."""
    files = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.json"))}
    documents = {name: path.read_bytes() for name, path in files.items()}
    hashes = {name: hashlib.sha256(content).hexdigest()[:32] for name, content in documents.items()}
    return [
        Route(V2_PATH, get_v2, methods=["GET"]),
        _index_route(hashes),
        *(_document_route(name, content, hashes[name]) for name, content in documents.items()),
    ]


async def get_v2(request: Request) -> Response:
    """An empty document. kubectl consults only v2 before it sends the objects of a `List`, its output for several.
    It accepts kinds that the document lacks, and the server validates each object."""
    authorization.require(request, "read", targets.PLANE)
    Query(request, "timeout")
    if V2_PROTOBUF_ACCEPT in request.headers.get("accept", ""):
        return Response(b"\x0a\x032.0", media_type=V2_PROTOBUF)
    return JSONResponse({"swagger": "2.0", "info": {"title": "Mizzen", "version": "v1alpha1"}, "paths": {}})


def _index_route(hashes: dict[str, str]) -> Route:
    paths = {name: {"serverRelativeURL": f"{ROOT}/{name}?hash={digest}"} for name, digest in hashes.items()}

    async def index(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, "timeout")
        return JSONResponse({"paths": paths}, headers={"Cache-Control": REVALIDATE})

    return Route(ROOT, index, methods=["GET"])


def _document_route(name: str, content: bytes, digest: str) -> Route:
    tag = f'"{digest}"'

    async def document(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        query = Query(request, "hash", "timeout")
        # An old hash gets the current document, which clients may cache only under its own URL.
        headers = {"ETag": tag, "Cache-Control": CACHE_FOREVER if query.text("hash") == digest else REVALIDATE}
        known = [known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")]
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")

    return Route(f"{ROOT}/{name}", document, methods=["GET"])

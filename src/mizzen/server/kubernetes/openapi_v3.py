"""`/openapi/v3`: the kinds and their paths as OpenAPI, a document for each group and version; and an empty one of v2.

`make gen` makes the documents from the code; here they are only handed out. The index gives each an address with a hash
of its content, so that a client may keep what it got there for ever: kubectl keeps a cache of HTTP answers on disk.
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
OLDER = "/openapi/v2"
OLDER_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_WITH = "proto-openapi.spec.v2@v1.0+protobuf"
"""So the same type is called by who asks for it; as the type of an answer this could not be read, for its `@`."""
FOLDER = Path(__file__).with_name("openapi")
FOR_EVER = "private, immutable, max-age=31536000"
ASK_AGAIN = "no-cache"


def routes() -> list[Route]:
    """The documents are read here, once: `openapi/api/v1.json` is the one of `api/v1`."""
    files = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.json"))}
    documents = {name: path.read_bytes() for name, path in files.items()}
    hashes = {name: hashlib.sha256(content).hexdigest()[:32] for name, content in documents.items()}
    return [
        Route(OLDER, older, methods=["GET"]),
        _index(hashes),
        *(_document(name, content, hashes[name]) for name, content in documents.items()),
    ]


async def older(request: Request) -> Response:
    """A document that says nothing. kubectl looks into one, and only into this, before it sends what is in a `List`,
    which is how it prints several objects; it lets pass what is not in it, and the server looks at each object."""
    authorization.require(request, "read", targets.PLANE)
    Query(request, "timeout")
    if ASKED_WITH in request.headers.get("accept", ""):
        return Response(b"\x0a\x032.0", media_type=OLDER_PROTOBUF)
    return JSONResponse({"swagger": "2.0", "info": {"title": "Mizzen", "version": "v1alpha1"}, "paths": {}})


def _index(hashes: dict[str, str]) -> Route:
    paths = {name: {"serverRelativeURL": f"{ROOT}/{name}?hash={digest}"} for name, digest in hashes.items()}

    async def index(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request, "timeout")
        return JSONResponse({"paths": paths}, headers={"Cache-Control": ASK_AGAIN})

    return Route(ROOT, index, methods=["GET"])


def _document(name: str, content: bytes, digest: str) -> Route:
    tag = f'"{digest}"'

    async def document(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        query = Query(request, "hash", "timeout")
        # An old hash is answered with what there is now; only under its own address may it be kept.
        headers = {"ETag": tag, "Cache-Control": FOR_EVER if query.text("hash") == digest else ASK_AGAIN}
        known = [known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")]
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")

    return Route(f"{ROOT}/{name}", document, methods=["GET"])

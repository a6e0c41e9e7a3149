"""GET /openapi.json: the OpenAPI document of this API. `make gen` generates it; this module only serves it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mizzen.server.auth import authorization, targets
from mizzen.server.http.query import Query

DOCUMENT = Path(__file__).with_name("openapi.json")


def routes() -> list[Route]:
    """Reads the document once."""
    content = DOCUMENT.read_bytes()
    headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "Cache-Control": "no-cache"}

    async def document(request: Request) -> Response:
        authorization.require(request, "read", targets.PLANE)
        Query(request)
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if headers["ETag"] in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")

    return [Route("/openapi.json", document, methods=["GET"])]

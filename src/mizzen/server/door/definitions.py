"""CustomResourceDefinitions: our kinds as a cluster would tell of them, for clients that look there for kinds.

They are those of deploy/crds, made by `make gen` from the kinds. Nobody changes them but a newer Mizzen.
"""

from __future__ import annotations

import json
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import NotFound
from mizzen.server import auth, targets
from mizzen.server.door.discovery import DEFINITIONS
from mizzen.server.query import Query

ROOT = f"/apis/{DEFINITIONS}/customresourcedefinitions"
FILE = Path(__file__).with_name("definitions.json")
QUERY = ("resourceVersion", "pretty", "timeout")
LISTING = (*QUERY, "resourceVersionMatch", "limit")
"""A limit is no promise that there are pages: here all come at once."""


def routes() -> list[Route]:
    """The definitions are read here, once."""
    items = json.loads(FILE.read_bytes())
    listing = {"kind": "CustomResourceDefinitionList", "apiVersion": DEFINITIONS, "metadata": {"resourceVersion": "1"}}
    all_of_them = JSONResponse({**listing, "items": items}).body
    each = {item["metadata"]["name"]: JSONResponse(item).body for item in items}

    async def listed(request: Request) -> Response:
        auth.require(request, "read", targets.PLANE)
        Query(request, *LISTING).limit(len(items))
        return Response(all_of_them, media_type="application/json")

    async def read(request: Request) -> Response:
        auth.require(request, "read", targets.PLANE)
        Query(request, *QUERY)
        name = str(request.path_params["name"])
        if name not in each:
            raise NotFound(f"CustomResourceDefinition/{name[:200]} does not exist", hint=f"there are {', '.join(each)}")
        return Response(each[name], media_type="application/json")

    return [Route(ROOT, listed, methods=["GET"]), Route(f"{ROOT}/{{name}}", read, methods=["GET"])]

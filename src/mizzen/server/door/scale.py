"""The scale subresource of InferenceModels: how many replicas, in the shape of `kubectl scale` and autoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, Fault, Invalid, NotFound
from mizzen.kinds.meta import Resource
from mizzen.patches import json_patch, merge
from mizzen.server import addressed, writing
from mizzen.server.bodies import read_object, read_patch
from mizzen.server.query import Query
from mizzen.server.writing import Wish

KIND = "InferenceModel"


def routes(path: str) -> list[Route]:
    return [
        Route(path, read, methods=["GET"]),
        Route(path, replace, methods=["PUT"]),
        Route(path, patch, methods=["PATCH"]),
    ]


async def read(request: Request) -> Response:
    _refuse_other_kinds(request)
    Query(request, "pretty", "timeout")
    return JSONResponse(shown(await addressed.found(request, "read")))


async def replace(request: Request) -> Response:
    _refuse_other_kinds(request)
    await addressed.found(request, "write")
    query = Query(request, *writing.QUERY)
    body = await read_object(request)
    return await writing.changed(request, lambda old: _scaled(old, body), query, show=shown)


async def patch(request: Request) -> Response:
    _refuse_other_kinds(request)
    await addressed.found(request, "write")
    query = Query(request, *writing.QUERY, "force")
    media_type, body = await read_patch(request, writing.PATCHES)
    make = json_patch.patched if media_type == writing.JSON else merge.merged
    return await writing.changed(request, lambda old: _scaled(old, make(shown(old), body)), query, show=shown)


def shown(resource: Resource) -> dict[str, Any]:
    meta = resource.meta.wire()
    told = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in told if name in meta},
        "spec": {"replicas": resource.spec.get("replicas", 1)},
        "status": {"replicas": resource.status.get("readyReplicas") or 0, "selector": ""},
    }  # fmt: skip


def _scaled(old: Resource, scale: Any) -> Wish:
    if not isinstance(scale, Mapping):
        raise BadRequest("what is sent is no Scale")
    spec, metadata = scale.get("spec"), scale.get("metadata")
    replicas = spec.get("replicas") if isinstance(spec, Mapping) else None
    if replicas is None:
        raise Invalid.of("the Scale", (Fault("spec.replicas", "required"),))
    wire = old.wire()
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    told = {**wire["metadata"], "resourceVersion": version or ""}
    return Wish({**wire, "metadata": told, "spec": {**old.spec, "replicas": replicas}})


def _refuse_other_kinds(request: Request) -> None:
    if addressed.kind_of(request).name != KIND:
        raise NotFound(f"{request.path_params['plural']} have no scale", hint="inferencemodels have one")

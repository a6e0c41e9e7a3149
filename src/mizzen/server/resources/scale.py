"""The scale subresource of InferenceModels: how many replicas, in the shape of `kubectl scale` and autoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import Resource
from mizzen.patches import json_patch, merge_patch
from mizzen.server.admission import field_validation
from mizzen.server.admission.field_validation import Strictness
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object, read_patch
from mizzen.server.resources import request_path, write
from mizzen.server.resources.write import Wish

KIND = "InferenceModel"
VERSION = "autoscaling/v1"
TOP = ("kind", "apiVersion", "metadata", "spec", "status")
TOLD = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""Of the metadata of the object."""


def routes(path: str) -> list[Route]:
    return [
        Route(path, read, methods=["GET"]),
        Route(path, replace, methods=["PUT"]),
        Route(path, patch, methods=["PATCH"]),
    ]


async def read(request: Request) -> Response:
    _refuse_other_kinds(request)
    Query(request, "pretty", "timeout")
    return JSONResponse(shown(await request_path.found(request, "read")))


async def replace(request: Request) -> Response:
    _refuse_other_kinds(request)
    await request_path.found(request, "write")
    query = Query(request, *write.QUERY)
    body, strictness = await read_object(request), field_validation.of(query)
    return await write.changed(request, lambda old: _scaled(old, body, strictness), query, show=shown)


async def patch(request: Request) -> Response:
    _refuse_other_kinds(request)
    await request_path.found(request, "write")
    query = Query(request, *write.QUERY, "force")
    sent, strictness = await read_patch(request, write.PATCHES), field_validation.of(query)
    make = json_patch.patched if sent.media_type == write.JSON else merge_patch.merged

    def wanted(old: Resource) -> Wish:
        return _scaled(old, make(shown(old), sent.body), strictness)

    return await write.changed(request, wanted, query, show=shown, size=sent.size)


def shown(resource: Resource) -> dict[str, Any]:
    meta = resource.meta.wire()
    return {
        "kind": "Scale", "apiVersion": VERSION,
        "metadata": {name: meta[name] for name in TOLD if name in meta},
        "spec": {"replicas": _asked(resource)},
        "status": {"replicas": resource.status.get("readyReplicas") or 0, "selector": ""},
    }  # fmt: skip


def _scaled(old: Resource, scale: Any, strictness: Strictness) -> Wish:
    if not isinstance(scale, Mapping):
        raise BadRequest("what is sent is no Scale")
    spec, metadata = _within(scale, "spec"), _within(scale, "metadata")
    strange = (*unknown(scale, TOP), *unknown(metadata, TOLD, "metadata"), *unknown(spec, ("replicas",), "spec"))
    faults = [*(strange if strictness == "Strict" else ()), *_other_faults(old, scale, metadata)]
    if spec.get("replicas") is None:
        faults.append(Fault("spec.replicas", "required"))
    elif _follows_load(old) and spec["replicas"] not in (0, _asked(old)):
        faults.append(
            Fault("spec.replicas", "follows the load, within spec.autoScale; only 0 may be given, to stop it")
        )
        hint = f"'mizzen scale {old.meta.name} MIN-MAX' changes the limits, a number with --fixed ends them"
        raise Invalid("the Scale is invalid: " + "; ".join(map(str, faults)), hint=hint, faults=tuple(faults))
    if faults:
        raise Invalid.of("the Scale", tuple(faults))
    wire = old.wire()
    # Which state and which object is meant is asked of these, where it is of every change.
    meant = {name: metadata.get(name) or "" for name in ("resourceVersion", "uid")}
    told = tuple(Warn(fault.path, fault.message) for fault in strange) if strictness == "Warn" else ()
    document = {**wire, "metadata": {**wire["metadata"], **meant}, "spec": {**old.spec, "replicas": spec["replicas"]}}
    return Wish(document, warnings=told)


def _follows_load(server: Resource) -> bool:
    """Does autoScale say how many there are? Not of what is stopped: that is begun with as many as are given."""
    scaled = isinstance(server.spec.get("autoScale"), Mapping) and server.spec.get("deployToLayer") != "edge"
    return scaled and _asked(server) != 0


def _asked(server: Resource) -> Any:
    return server.spec.get("replicas", 1)


def _other_faults(old: Resource, scale: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Fault]:
    """Is it a Scale, and that of this object? Who leaves it out means what the path says."""
    asked = [
        ("kind", scale.get("kind"), "Scale"),
        ("apiVersion", scale.get("apiVersion"), VERSION),
        ("metadata.name", metadata.get("name"), old.meta.name),
        ("metadata.namespace", metadata.get("namespace"), old.meta.namespace),
    ]
    return [Fault(path, f"must be '{right}' here") for path, said, right in asked if said not in (None, "", right)]


def _within(scale: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = scale.get(name)
    return found if isinstance(found, Mapping) else {}


def _refuse_other_kinds(request: Request) -> None:
    if request_path.kind_of(request).name != KIND:
        raise NotFound(f"{request.path_params['plural']} have no scale", hint="inferencemodels have one")

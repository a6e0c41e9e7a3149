"""The scale subresource of InferenceModels: the number of replicas, for `kubectl scale` and autoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import BadRequest, Fault, Invalid, NotFound
from mizzen.kinds.schema.findings import Warn, unknown
from mizzen.kinds.schema.resource import Resource
from mizzen.server.admission import field_validation
from mizzen.server.admission.field_validation import Strictness
from mizzen.server.http.query import Query
from mizzen.server.http.request_bodies import read_object, read_patch
from mizzen.server.resources import request_path, write
from mizzen.server.resources.write import DesiredObject

KIND = "InferenceModel"
VERSION = "autoscaling/v1"
TOP_FIELDS = ("kind", "apiVersion", "metadata", "spec", "status")
METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""The metadata of the object that a Scale shows."""


def routes(path: str) -> list[Route]:
    return [
        Route(path, read, methods=["GET"]),
        Route(path, replace, methods=["PUT"]),
        Route(path, patch, methods=["PATCH"]),
    ]


async def read(request: Request) -> Response:
    _refuse_other_kinds(request)
    Query(request, "pretty", "timeout")
    return JSONResponse(to_scale(await request_path.find_object(request, "read")))


async def replace(request: Request) -> Response:
    _refuse_other_kinds(request)
    await request_path.find_object(request, "write")
    query = Query(request, *write.QUERY)
    body, strictness = await read_object(request), field_validation.strictness_of(query)
    return await write.update_object(request, lambda old: _parse_scale(old, body, strictness), query, show=to_scale)


async def patch(request: Request) -> Response:
    _refuse_other_kinds(request)
    await request_path.find_object(request, "write")
    query = Query(request, *write.QUERY, "force")
    sent, strictness = await read_patch(request, write.PATCHES), field_validation.strictness_of(query)
    make = write.patcher_of(sent)

    def desire(old: Resource) -> DesiredObject:
        return _parse_scale(old, make(to_scale(old), sent.body), strictness)

    return await write.update_object(request, desire, query, show=to_scale, size=sent.size)


def to_scale(resource: Resource) -> dict[str, Any]:
    meta = resource.meta.wire()
    return {
        "kind": "Scale", "apiVersion": VERSION,
        "metadata": {name: meta[name] for name in METADATA_FIELDS if name in meta},
        "spec": {"replicas": _requested_replicas(resource)},
        "status": {"replicas": resource.status.get("readyReplicas") or 0, "selector": ""},
    }  # fmt: skip


def _parse_scale(old: Resource, scale: Any, strictness: Strictness) -> DesiredObject:
    if not isinstance(scale, Mapping):
        raise BadRequest("the body is not a Scale")
    spec, metadata = _mapping_at(scale, "spec"), _mapping_at(scale, "metadata")
    strange = (
        *unknown(scale, TOP_FIELDS),
        *unknown(metadata, METADATA_FIELDS, "metadata"),
        *unknown(spec, ("replicas",), "spec"),
    )
    faults = [*(strange if strictness == "Strict" else ()), *_identity_faults(old, scale, metadata)]
    if spec.get("replicas") is None:
        faults.append(Fault("spec.replicas", "required"))
    elif _follows_load(old) and spec["replicas"] not in (0, _requested_replicas(old)):
        message = "is set by autoscaling, within spec.autoScale; only 0 is allowed, to stop the server"
        faults.append(Fault("spec.replicas", message))
        hint = f"'mizzen scale {old.meta.name} MIN-MAX' changes the limits; a number with --fixed turns autoscaling off"
        raise Invalid("the Scale is invalid: " + "; ".join(map(str, faults)), hint=hint, faults=tuple(faults))
    if faults:
        raise Invalid.of("the Scale", tuple(faults))
    wire = old.wire()
    # `update_object` compares these with the stored object, as for every change.
    meant = {name: metadata.get(name) or "" for name in ("resourceVersion", "uid")}
    warnings = tuple(Warn(fault.path, fault.message) for fault in strange) if strictness == "Warn" else ()
    document = {**wire, "metadata": {**wire["metadata"], **meant}, "spec": {**old.spec, "replicas": spec["replicas"]}}
    return DesiredObject(document, warnings=warnings)


def _follows_load(server: Resource) -> bool:
    """Whether autoScale sets the number of replicas. It does not for a stopped server, which any number starts."""
    scaled = isinstance(server.spec.get("autoScale"), Mapping) and server.spec.get("deployToLayer") != "edge"
    return scaled and _requested_replicas(server) != 0


def _requested_replicas(server: Resource) -> Any:
    return server.spec.get("replicas", 1)


def _identity_faults(old: Resource, scale: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Fault]:
    """Returns the faults if it is not a Scale, or that of another object. Absent fields default to the path."""
    expected = [
        ("kind", scale.get("kind"), "Scale"),
        ("apiVersion", scale.get("apiVersion"), VERSION),
        ("metadata.name", metadata.get("name"), old.meta.name),
        ("metadata.namespace", metadata.get("namespace"), old.meta.namespace),
    ]
    return [Fault(path, f"must be '{right}' here") for path, sent, right in expected if sent not in (None, "", right)]


def _mapping_at(scale: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = scale.get(name)
    return found if isinstance(found, Mapping) else {}


def _refuse_other_kinds(request: Request) -> None:
    if request_path.kind_of(request).name != KIND:
        raise NotFound(f"{request.path_params['plural']} have no scale", hint="inferencemodels have one")

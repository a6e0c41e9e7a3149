"""The shapes of the /model API, and its paths back to resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Target
from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds.meta import API_VERSION, Ref, Resource, format_time
from mizzen.kinds.model import normal_version, version_object_name
from mizzen.kinds.serving import url_of
from mizzen.server.family import Family, ready, version_of
from mizzen.server.query import Query


def model_at(request: Request, query: Query) -> Ref:
    return Ref("Model", request.path_params["model"], query.namespace())


def version_at(request: Request, model: Ref) -> Ref:
    """NotFound for what can be no version."""
    try:
        version = normal_version(request.path_params["version"])
    except ValueError as error:
        raise NotFound(f"{model} has no such version: {error}") from error
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def target(ref: Ref) -> Target:
    return Target(ref.namespace, ref.kind, ref.name)


def manifest(kind: str, ref: Ref, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """What the resource API would be sent for this, so that both doors are guarded by one admission."""
    known = {key: value for key, value in metadata.items() if value is not None}
    return {
        "apiVersion": API_VERSION, "kind": kind, "spec": spec,
        "metadata": {"name": ref.name, "namespace": ref.namespace, **known},
    }  # fmt: skip


def flat(what: str, error: Invalid) -> Invalid:
    """Faults of a manifest, with the paths of a body that has no metadata and spec of its own."""
    faults = []
    for fault in error.faults:
        path = f"{fault.path}." if fault.path in ("metadata", "spec") else fault.path
        faults.append(Fault(path.removeprefix("metadata.").removeprefix("spec."), fault.message))
    return Invalid.of(what, tuple(faults))


def model(resource: Resource) -> dict[str, Any]:
    current = resource.status.get("current") or {}
    return {
        "name": resource.meta.name,
        **_common(resource),
        "framework": resource.spec.get("framework"),
        "track": resource.spec.get("track", "manual"),
        "current": current.get("version"),
        "previous": resource.status.get("previous"),
    }


def described(members: Family, inference_url: str) -> dict[str, Any]:
    return model(members.model) | {
        "versions": [version(item, members.model) for item in members.versions],
        "servers": [server(item, inference_url) for item in members.servers],
    }


def version(resource: Resource, of: Resource) -> dict[str, Any]:
    current = of.status.get("current") or {}
    return {
        "name": resource.meta.name,
        **_common(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource),
        "current": current.get("version") == version_of(resource),
        "framework": resource.spec.get("framework"),
        "entrypoint": resource.spec.get("entrypoint"),
        "artifacts": resource.spec.get("artifacts", []),
        "createdBy": resource.spec.get("createdBy", ""),
    }


def server(resource: Resource, inference_url: str) -> dict[str, Any]:
    return {
        "id": resource.meta.name,
        **_common(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource),
        "url": resource.status.get("url") or url_of(inference_url, resource.ref),
        "ready": ready(resource),
        "replicas": resource.spec.get("replicas", 1),
        "readyReplicas": resource.status.get("readyReplicas", 0),
    }


def _common(resource: Resource) -> dict[str, Any]:
    meta = resource.meta
    return {
        "namespace": meta.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "createdAt": format_time(meta.created) if meta.created else None,
        "deleting": resource.deleting,
        "status": {"conditions": [], **resource.status},
    }

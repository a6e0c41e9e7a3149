"""The shapes of the /model API, and its paths back to resources."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.requests import Request

from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds.model import normal_version, version_object_name
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_VERSION, DEFAULT_NAMESPACE, Ref, Resource, format_time
from mizzen.kinds.serving import url_of
from mizzen.kinds.training import TrainingJobStatus
from mizzen.server.admission import model_family
from mizzen.server.admission.model_family import Family, ready, version_of
from mizzen.server.http.query import Query


def model_at(request: Request, query: Query) -> Ref:
    return Ref("Model", request.path_params["model"], query.namespace())


def version_at(request: Request, model: Ref) -> Ref:
    """NotFound for what can be no version."""
    try:
        version = normal_version(request.path_params["version"])
    except ValueError as error:
        raise NotFound(
            f"{model} has no such version: {error}", hint=f"'mizzen version list {model.name}' lists those it has"
        ) from error
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def located(path: str, namespace: str) -> str:
    """Where something is found again."""
    return path if namespace == DEFAULT_NAMESPACE else f"{path}?namespace={namespace}"


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
    return {
        "name": resource.meta.name,
        **_common(resource),
        "framework": resource.spec.get("framework"),
        "track": resource.spec.get("track", "manual"),
        "current": model_family.current_of(resource),
        "previous": resource.status.get("previous"),
        "aliases": model_family.aliases_of(resource),
        "aliasOf": model_family.is_second_name(resource),
    }


def described(members: Family, inference_url: str) -> dict[str, Any]:
    """With at most the newest versions, and how many there are."""
    changed = members.last_change
    return model(members.model) | {
        "versions": [version(item, members.model) for item in members.versions],
        "versionCount": members.version_count,
        "servers": [server(item, inference_url) for item in members.servers],
        "jobs": [job(item) for item in members.jobs if not model_family.ended(item)],
        "jobCount": len(members.jobs),
        "monitor": next((monitor(item) for item in members.monitors), None),
        "rollouts": [item.meta.name for item in members.rollouts],
        "secondNames": [item.meta.name for item in members.second_names],
        "lastChanged": changed and {"actor": changed.actor, "time": format_time(changed.time)},
    }


def job(resource: Resource) -> dict[str, Any]:
    """A job set as lists show it; `server/training/job_lookup.py` tells more."""
    told = TrainingJobStatus.of(resource)
    state = told.state or "Created"
    why = told.condition(state)
    return {
        "id": resource.meta.name,
        **_common(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource) or None,
        "state": state,
        "reason": why.reason if why is not None else "",
        "message": why.message if why is not None else "",
        "createdBy": resource.meta.annotations.get(ACTOR_ANNOTATION, ""),
        "startTime": told.start_time,
        "completionTime": told.completion_time,
        "progress": told.progress.wire() if told.progress is not None else None,
        "checkpoints": told.checkpoints,
        "newestCheckpoint": told.newest_checkpoint,
    }


def monitor(resource: Resource) -> dict[str, Any]:
    return {
        "name": resource.meta.name,
        **_common(resource),
        "tool": resource.status.get("tool") or resource.spec.get("tool"),
        "url": resource.status.get("url"),
        "ready": ready(resource),
    }


def version(resource: Resource, of: Resource) -> dict[str, Any]:
    return {
        "name": resource.meta.name,
        **_common(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource),
        "current": model_family.current_of(of) == version_of(resource),
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
        "checkpoint_id": model_family.checkpoint_of(resource),
        "parent_job": _job_of(model_family.checkpoint_of(resource)),
        "url": resource.status.get("url") or url_of(inference_url, resource.ref),
        "ready": ready(resource),
        "replicas": _wanted(resource),
        "readyReplicas": resource.status.get("readyReplicas", 0),
    }


def _job_of(checkpoint: str | None) -> str | None:
    """Its id begins with that of the job set that saved it."""
    return checkpoint.rpartition("-")[0] or None if checkpoint else None


def _wanted(server: Resource) -> Any:
    """Replicas that there should be: the load says so, or the spec."""
    desired = server.status.get("desiredReplicas")
    return server.spec.get("replicas", 1) if desired is None else desired


def _time(time: datetime | None) -> str:
    return format_time(time) if time else ""


def _common(resource: Resource) -> dict[str, Any]:
    meta = resource.meta
    return {
        "namespace": meta.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "createdAt": _time(meta.created) or None,
        "deleting": resource.deleting,
        "status": {"conditions": [], **resource.status},
    }

"""The /model API: rights to a model, the meaning of paths and bodies, and the form of responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request

from mizzen.access.policy import Actor, Verb
from mizzen.errors import Fault, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.catalog import NOTHING_KNOWN
from mizzen.kinds.model import normal_version, version_object_name
from mizzen.kinds.schema.findings import Context, Warn
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, API_VERSION, DEFAULT_NAMESPACE, Ref, Resource, format_time
from mizzen.kinds.serving import url_of
from mizzen.kinds.training import TrainingJobStatus
from mizzen.server.admission import decode, model_family
from mizzen.server.admission.model_family import ModelObjects, is_ready, version_of
from mizzen.server.auth import authorization, targets
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.query import Query


def authorize(
    request: Request, verb: Verb, query: Query | None = None, *, alias: str = "", subresource: str = ""
) -> tuple[Ref, Actor, ServerContext]:
    """Returns the model in the path, the caller, and the context of the server. The caller has this right to the model.

    Raises as `authorization.require` does. Without `query`, the request may only name a namespace.
    """
    query = Query(request, "namespace") if query is None else query
    model = Ref("Model", request.path_params["model"], query.namespace())
    actor = authorization.require(request, verb, targets.model(model, alias=alias, subresource=subresource))
    return model, actor, context_of(request)


def version_at(request: Request, model: Ref) -> Ref:
    """Raises NotFound for an invalid version."""
    try:
        version = normal_version(request.path_params["version"])
    except ValueError as error:
        raise NotFound(
            f"{model} has no such version: {error}", hint=f"'mizzen version list {model.name}' lists those it has"
        ) from error
    return Ref("ModelVersion", version_object_name(model.name, version), model.namespace)


def location_of(path: str, namespace: str) -> str:
    """The value of a `Location` header."""
    return path if namespace == DEFAULT_NAMESPACE else f"{path}?namespace={namespace}"


def decode_object(
    ref: Ref, spec: Mapping[str, Any], what: str, known: Context = NOTHING_KNOWN, *, metadata: Mapping[str, Any] = {}
) -> decode.Draft:
    """Decodes the equivalent manifest of the resource API, so that one admission guards both APIs.

    Raises Invalid; the paths of its faults are those of a body that has no metadata and spec.
    """
    more = {key: value for key, value in metadata.items() if value is not None}
    manifest = {
        "apiVersion": API_VERSION, "kind": ref.kind, "spec": spec,
        "metadata": {"name": ref.name, "namespace": ref.namespace, **more},
    }  # fmt: skip
    try:
        return decode.decode(catalog.BY_NAME[ref.kind], manifest, namespace=ref.namespace, known=known)
    except Invalid as error:
        raise _flatten_faults(what, error) from error


def _flatten_faults(what: str, error: Invalid) -> Invalid:
    faults = []
    for fault in error.faults:
        path = f"{fault.path}." if fault.path in ("metadata", "spec") else fault.path
        faults.append(Fault(path.removeprefix("metadata.").removeprefix("spec."), fault.message))
    return Invalid.of(what, tuple(faults))


def flatten_warnings(warnings: Iterable[Warn]) -> tuple[Warn, ...]:
    return tuple(Warn(warn.path.removeprefix("spec."), warn.message) for warn in warnings)


def render_model(resource: Resource) -> dict[str, Any]:
    return {
        "name": resource.meta.name,
        **_common_fields(resource),
        "framework": resource.spec.get("framework"),
        "track": resource.spec.get("track", "manual"),
        "current": model_family.current_of(resource),
        "previous": resource.status.get("previous"),
        "aliases": model_family.aliases_of(resource),
        "aliasOf": model_family.first_name_of(resource),
    }


def render_description(members: ModelObjects, inference_url: str) -> dict[str, Any]:
    """With the newest versions only, and the number of all."""
    changed = members.last_change
    return render_model(members.model) | {
        "versions": [render_version(item, members.model) for item in members.versions],
        "versionCount": members.version_count,
        "servers": [render_server(item, inference_url) for item in members.servers],
        "jobs": [render_job(item) for item in members.jobs if not model_family.has_ended(item)],
        "jobCount": len(members.jobs),
        "monitor": next((render_monitor(item) for item in members.monitors), None),
        "rollouts": [item.meta.name for item in members.rollouts],
        "secondNames": [item.meta.name for item in members.second_names],
        "lastChanged": changed and {"actor": changed.actor, "time": format_time(changed.time)},
    }


def render_job(resource: Resource) -> dict[str, Any]:
    """A job set as in lists; `server/training/job_lookup.py` adds more."""
    status = TrainingJobStatus.of(resource)
    state = status.state or "Created"
    cause = status.condition(state)
    return {
        "id": resource.meta.name,
        **_common_fields(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource) or None,
        "state": state,
        "reason": cause.reason if cause is not None else "",
        "message": cause.message if cause is not None else "",
        "createdBy": resource.meta.annotations.get(ACTOR_ANNOTATION, ""),
        "startTime": status.start_time,
        "completionTime": status.completion_time,
        "progress": status.progress.wire() if status.progress is not None else None,
        "checkpoints": status.checkpoints,
        "newestCheckpoint": status.newest_checkpoint,
    }


def render_monitor(resource: Resource) -> dict[str, Any]:
    return {
        "name": resource.meta.name,
        **_common_fields(resource),
        "tool": resource.status.get("tool") or resource.spec.get("tool"),
        "url": resource.status.get("url"),
        "ready": is_ready(resource),
    }


def render_version(resource: Resource, of: Resource) -> dict[str, Any]:
    return {
        "name": resource.meta.name,
        **_common_fields(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource),
        "current": model_family.current_of(of) == version_of(resource),
        "framework": resource.spec.get("framework"),
        "entrypoint": resource.spec.get("entrypoint"),
        "artifacts": resource.spec.get("artifacts", []),
        "createdBy": resource.spec.get("createdBy", ""),
    }


def render_server(resource: Resource, inference_url: str) -> dict[str, Any]:
    return {
        "id": resource.meta.name,
        **_common_fields(resource),
        "model": resource.spec.get("modelName"),
        "version": version_of(resource),
        "checkpoint_id": model_family.checkpoint_of(resource),
        "parent_job": _job_of(model_family.checkpoint_of(resource)),
        "url": resource.status.get("url") or url_of(inference_url, resource.ref),
        "ready": is_ready(resource),
        "replicas": _desired_replicas(resource),
        "readyReplicas": resource.status.get("readyReplicas", 0),
    }


def _job_of(checkpoint: str | None) -> str | None:
    """The job set that saved a checkpoint: its id is the prefix of the checkpoint's id."""
    return checkpoint.rpartition("-")[0] or None if checkpoint else None


def _desired_replicas(server: Resource) -> Any:
    """The desired replicas: from autoscaling, else from the spec."""
    desired = server.status.get("desiredReplicas")
    return server.spec.get("replicas", 1) if desired is None else desired


def _common_fields(resource: Resource) -> dict[str, Any]:
    meta = resource.meta
    return {
        "namespace": meta.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "createdAt": format_time(meta.created) if meta.created else None,
        "deleting": resource.deleting,
        "status": {"conditions": [], **resource.status},
    }

"""Finds the job set in a path, also if its object is deleted, and renders it with its live state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from mizzen.errors import Expired, Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref, Resource, format_time, parse_time
from mizzen.kinds.training import LEADERS, TrainingJobSpec, TrainingJobStatus
from mizzen.runs import progress, records
from mizzen.runs.checkpoints import Checkpoint
from mizzen.runs.paths import UNVERSIONED, JobPlace
from mizzen.runs.records import Progress
from mizzen.server.admission import model_family
from mizzen.server.http.context import ServerContext, context_of
from mizzen.server.http.streaming import aclose_on_exit
from mizzen.server.models import views
from mizzen.stores.name_errors import Missing
from mizzen.stores.store import Store

LEADER_NAMES = frozenset(f"{type_.lower()}-0" for type_ in LEADERS)


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """A job set of a version. Its checkpoints and logs stay when its object is deleted or expires."""

    ref: Ref
    uid: str
    job: Resource | None


def version_at(request: Request, model: Ref) -> str:
    """The version in the path; empty for `unversioned`, the jobs without a version. Raises NotFound."""
    if request.path_params["version"] == UNVERSIONED:
        return ""
    return views.version_at(request, model).name.partition(".")[2]


async def find_job(request: Request, model: Ref) -> Resource:
    """The job set in the path. Raises NotFound unless it belongs to this model and version."""
    ref = Ref("TrainingJob", request.path_params["job"], model.namespace)
    version = version_at(request, model)
    job = await context_of(request).store.get(ref)
    if catalog.model_of(job) != model.name or model_family.version_of(job) != version:
        version = request.path_params["version"]
        raise NotFound(
            f"{ref} does not train version {version} of {model}",
            hint=f"GET /model/{model.name}/train/{version}?state=all lists its job sets",
        )
    return job


async def find_identity(request: Request, model: Ref) -> JobIdentity:
    """As `find_job`, but also for a job set whose object is deleted, from its history or its checkpoints."""
    try:
        job = await find_job(request, model)
    except Missing as error:
        uid = await _uid_of_deleted(context_of(request), error.ref, model, version_at(request, model))
        if uid is None:
            raise
        return JobIdentity(error.ref, uid, None)
    return JobIdentity(job.ref, job.meta.uid, job)


async def describe(context: ServerContext, job: Resource, *, with_log: bool) -> dict[str, Any]:
    """The job set with its live progress from its files, its checkpoints, and the servers that use them.

    `with_log`: include the last lines before a failure, for callers that may read the log."""
    model, version = str(job.spec.get("modelName")), model_family.version_of(job)
    list_saved = context.checkpoints.of_job
    saved = await asyncio.to_thread(list_saved, job.meta.namespace, model, version, job.meta.uid)
    serving = await servers_of(context.store, job, saved)
    status = TrainingJobStatus.of(job)
    live = await asyncio.to_thread(_read_progress, context, job, status)
    lines = await asyncio.to_thread(_read_last_lines, context, job, status) if with_log else ""
    view = views.render_job(job)
    return view | {
        "spec": dict(job.spec),
        "replicas": {type_: counts.wire() for type_, counts in status.replicas.items()},
        "replicaStates": [replica.wire() for replica in status.replica_states],
        "progress": live or view["progress"],
        "lastLines": lines or None,
        "metrics": (live or view["progress"] or {}).get("metrics", {}),
        "checkpoints": len(saved),
        "newestCheckpoint": saved[0].id if saved else None,
        "servers": serving,
    }


def render_summary(context: ServerContext, job: Resource) -> dict[str, Any]:
    """The job set as in lists, with live progress unless it has ended. Blocking."""
    view = views.render_job(job)
    if model_family.has_ended(job):
        return view
    now = progress.read(JobPlace(context.data_dir, job.meta.uid).replica(leader_of(job)))
    return view if now is None else view | {"progress": _render_progress(now)}


async def servers_of(store: Store, job: Resource, saved: list[Checkpoint]) -> list[dict[str, str]]:
    """The servers that serve these checkpoints."""
    if not saved:
        return []
    by_id = await servers_by_checkpoint(store, Ref("Model", str(job.spec.get("modelName")), job.meta.namespace))
    return [{"id": server, "checkpoint_id": one.id} for one in saved for server in by_id.get(one.id, ())]


async def servers_by_checkpoint(store: Store, model: Ref) -> dict[str, list[str]]:
    """Names of servers by the checkpoint of this model that they serve or will serve."""
    found: dict[str, list[str]] = {}
    for server in (await store.list("InferenceModel", model_family.where_model(model))).items:
        for checkpoint in model_family.checkpoints_of(server):
            found.setdefault(checkpoint, []).append(server.meta.name)
    return found


async def wait_ended(store: Store, job: Resource) -> Resource:
    """Waits until the job set has ended, and returns it; its last state if it was deleted."""
    while True:
        since = (await store.list("TrainingJob", limit=1)).resource_version
        try:
            job = await store.get(job.ref)
            if model_family.has_ended(job):
                return job
            async with aclose_on_exit(store.watch("TrainingJob", since)) as events:
                async for event in events:
                    if event.resource.meta.uid != job.meta.uid:
                        continue
                    if event.type == "DELETED" or model_family.has_ended(event.resource):
                        return event.resource
        except NotFound:
            return job
        except Expired:
            continue


def replica_names(job: Resource) -> list[str]:
    """The names of its replicas; empty if its spec is not valid."""
    try:
        types = TrainingJobSpec.of(job).replica_map
    except Invalid:
        return []
    return [f"{type_.lower()}-{index}" for type_, one in types.items() for index in range(one.replicas)]


def leader_of(job: Resource) -> str:
    """The replica whose success is that of the job, and whose progress is shown."""
    names = replica_names(job)
    return next((name for name in names if name in LEADER_NAMES), "worker-0")


def _read_progress(context: ServerContext, job: Resource, status: TrainingJobStatus) -> dict[str, Any] | None:
    """Blocking."""
    place = JobPlace(context.data_dir, job.meta.uid).replica(leader_of(job))
    now = progress.read(place)
    if now is None:
        return None
    left = None
    if status.state in ("Running", None):
        started = parse_time(status.running_since or status.start_time)
        left = progress.eta(place, now, started.timestamp() if started else None)
    return _render_progress(now) | {"eta_seconds": None if left is None else round(left, 1)}


def _read_last_lines(context: ServerContext, job: Resource, status: TrainingJobStatus) -> str:
    """The last lines of the replica that failed first; empty while none has failed. Blocking."""
    place = JobPlace(context.data_dir, job.meta.uid)
    bad = (replica for replica in status.replica_states if replica.state in ("failed", "restarting"))
    ends = (records.read(place.replica(replica.name).exit(replica.attempt)) for replica in bad)
    found = [end for end in ends if end is not None and end.get("last_lines")]
    return str(min(found, key=lambda end: float(end.get("ended") or 0.0))["last_lines"]) if found else ""


def _render_progress(now: Progress) -> dict[str, Any]:
    return {
        "step": now.step,
        "total": now.total,
        "fraction": now.fraction,
        "metrics": dict(now.metrics),
        "message": now.message,
        "time": format_timestamp(now.time),
    }


async def _uid_of_deleted(context: ServerContext, ref: Ref, model: Ref, version: str) -> str | None:
    for revision in reversed(await context.store.history(ref)):
        spec = revision.after or revision.before or {}
        if spec.get("modelName") == model.name and model_family.normalize(spec.get("version") or "") == version:
            return revision.uid
    saved = await asyncio.to_thread(context.checkpoints.of_version, model.namespace, model.name, version)
    return next((one.job_uid for one in saved if one.job == ref.name), None)


def format_timestamp(seconds: float) -> str | None:
    """Formats seconds since 1970; None if they are not a valid time."""
    try:
        return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None

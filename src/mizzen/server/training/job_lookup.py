"""Job sets: finding the one that a path names, also when its object is gone, and all that is known of one."""

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
from mizzen.server.http.context import Plane, plane_of
from mizzen.server.http.streaming import closing
from mizzen.server.models import views
from mizzen.stores.store import Store

LEADING = frozenset(f"{type_.lower()}-0" for type_ in LEADERS)


@dataclass(frozen=True, slots=True)
class Known:
    """A job set of a version. What it saved and printed stays when its object goes, by age or by hand."""

    ref: Ref
    uid: str
    job: Resource | None


def version_at(request: Request, model: Ref) -> str:
    """The version that the path names; empty for jobs that name none, `unversioned` there. NotFound."""
    if request.path_params["version"] == UNVERSIONED:
        return ""
    return views.version_at(request, model).name.partition(".")[2]


async def at(request: Request, model: Ref) -> Resource:
    """The job set that the path names, when it is one of this model and version. NotFound."""
    job = await plane_of(request).store.get(_ref(request, model))
    if not _belongs(job, model, version_at(request, model)):
        raise _stranger(request, model)
    return job


async def known_at(request: Request, model: Ref) -> Known:
    """As `at`, also of one whose object is gone: as history tells, or the checkpoints it left."""
    plane, ref, version = plane_of(request), _ref(request, model), version_at(request, model)
    try:
        job = await plane.store.get(ref)
    except NotFound:
        uid = await _uid_of_gone(plane, ref, model, version)
        if uid is None:
            raise
        return Known(ref, uid, None)
    if not _belongs(job, model, version):
        raise _stranger(request, model)
    return Known(ref, job.meta.uid, job)


async def described(plane: Plane, job: Resource, *, heard: bool) -> dict[str, Any]:
    """With what it does just now, as its files tell; with its checkpoints, and who serves them. `heard`: and with what
    it printed before a bad end, for somebody who may read its log."""
    saved = await asyncio.to_thread(
        plane.shelf.of_job,
        job.meta.namespace,
        str(job.spec.get("modelName")),
        model_family.version_of(job),
        job.meta.uid,
    )
    serving = await servers_of(plane.store, job, saved)
    told = TrainingJobStatus.of(job)
    live = await asyncio.to_thread(_progress, plane, job, told)
    lines = await asyncio.to_thread(_last_lines, plane, job, told) if heard else ""
    shown = views.job(job)
    return shown | {
        "spec": dict(job.spec),
        "replicas": {type_: counts.wire() for type_, counts in told.replicas.items()},
        "replicaStates": [replica.wire() for replica in told.replica_states],
        "progress": live or shown["progress"],
        "lastLines": lines or None,
        "metrics": (live or shown["progress"] or {}).get("metrics", {}),
        "checkpoints": len(saved),
        "newestCheckpoint": saved[0].id if saved else None,
        "servers": serving,
    }


def listed(plane: Plane, job: Resource) -> dict[str, Any]:
    """As lists show it; with how far it is just now, if it goes on. Blocking."""
    shown = views.job(job)
    now = (
        None if model_family.ended(job) else progress.read(JobPlace(plane.data_dir, job.meta.uid).replica(leader(job)))
    )
    return shown if now is None else shown | {"progress": _shown(now)}


async def servers_of(store: Store, job: Resource, saved: list[Checkpoint]) -> list[dict[str, str]]:
    """Which servers serve which of these checkpoints."""
    if not saved:
        return []
    by_id = await served(store, Ref("Model", str(job.spec.get("modelName")), job.meta.namespace))
    return [{"id": server, "checkpoint_id": one.id} for one in saved for server in by_id.get(one.id, ())]


async def served(store: Store, model: Ref) -> dict[str, list[str]]:
    """Names of servers by the checkpoint of this model that they serve, or are to serve."""
    found: dict[str, list[str]] = {}
    for server in (await store.list("InferenceModel", model_family.of_model(model))).items:
        for checkpoint in model_family.checkpoints_of(server):
            found.setdefault(checkpoint, []).append(server.meta.name)
    return found


async def until_ended(store: Store, job: Resource) -> Resource:
    """The job set once it has ended, or as it was last when it is gone."""
    while True:
        since = (await store.list("TrainingJob", limit=1)).resource_version
        try:
            job = await store.get(job.ref)
            if model_family.ended(job):
                return job
            async with closing(store.watch("TrainingJob", since)) as events:
                async for event in events:
                    if event.resource.meta.uid != job.meta.uid:
                        continue
                    if event.type == "DELETED" or model_family.ended(event.resource):
                        return event.resource
        except NotFound:
            return job
        except Expired:
            continue


def replicas(job: Resource) -> list[str]:
    """What its replicas are called; empty when its spec cannot be read."""
    try:
        types = TrainingJobSpec.of(job).replica_map
    except Invalid:
        return []
    return [f"{type_.lower()}-{index}" for type_, one in types.items() for index in range(one.replicas)]


def leader(job: Resource) -> str:
    """The replica whose success is the job's, and whose progress is shown."""
    names = replicas(job)
    return next((name for name in names if name in LEADING), "worker-0")


def _progress(plane: Plane, job: Resource, told: TrainingJobStatus) -> dict[str, Any] | None:
    """Blocking."""
    place = JobPlace(plane.data_dir, job.meta.uid).replica(leader(job))
    now = progress.read(place)
    if now is None:
        return None
    left = None
    if told.state in ("Running", None):
        started = parse_time(told.running_since or told.start_time)
        left = progress.eta(place, now, started.timestamp() if started else None)
    return _shown(now) | {"eta_seconds": None if left is None else round(left, 1)}


def _last_lines(plane: Plane, job: Resource, told: TrainingJobStatus) -> str:
    """Of the replica that ended badly before others did; empty while none has. Blocking."""
    place = JobPlace(plane.data_dir, job.meta.uid)
    bad = (replica for replica in told.replica_states if replica.state in ("failed", "restarting"))
    ends = (records.read(place.replica(replica.name).exit(replica.attempt)) for replica in bad)
    found = [end for end in ends if end is not None and end.get("last_lines")]
    return str(min(found, key=lambda end: float(end.get("ended") or 0.0))["last_lines"]) if found else ""


def _shown(now: Progress) -> dict[str, Any]:
    return {
        "step": now.step,
        "total": now.total,
        "fraction": now.fraction,
        "metrics": dict(now.metrics),
        "message": now.message,
        "time": told_time(now.time),
    }


async def _uid_of_gone(plane: Plane, ref: Ref, model: Ref, version: str) -> str | None:
    for revision in reversed(await plane.store.history(ref)):
        spec = revision.after or revision.before or {}
        if spec.get("modelName") == model.name and model_family.normal(spec.get("version") or "") == version:
            return revision.uid
    saved = await asyncio.to_thread(plane.shelf.of_version, model.namespace, model.name, version)
    return next((one.job_uid for one in saved if one.job == ref.name), None)


def told_time(seconds: float) -> str | None:
    """Seconds since 1970, as all times are written; None for what is no time of ours."""
    try:
        return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _belongs(job: Resource, model: Ref, version: str) -> bool:
    return catalog.model_of(job) == model.name and model_family.version_of(job) == version


def _ref(request: Request, model: Ref) -> Ref:
    return Ref("TrainingJob", request.path_params["job"], model.namespace)


def _stranger(request: Request, model: Ref) -> NotFound:
    version = request.path_params["version"]
    return NotFound(
        f"{_ref(request, model)} does not train version {version} of {model}",
        hint=f"GET /model/{model.name}/train/{version}?state=all lists those that do",
    )

"""The status of a TrainingJob: its phase, conditions, counts and progress. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mizzen.controllers.training.facts import JobContext
from mizzen.controllers.training.replica_states import BEGUN, Trouble
from mizzen.kinds.schema.resource import Condition, format_time, parse_time
from mizzen.kinds.training import REPLICA_TYPES, JobProgress, JobReplica, JobState, ReplicaCounts, TrainingJobStatus

PROGRESS_INTERVAL = 30.0
"""Seconds between two writes of progress."""
_ACTIVE = frozenset({"waiting", "starting", "running", "restarting"})


def build_created() -> Condition:
    return Condition(type="Created", status="True", reason="Accepted", message="the job was created")


def build_queued(trouble: Trouble) -> Condition:
    return Condition(type="Queued", status="True", reason=trouble.reason, message=trouble.message)


def build_running(replicas: Iterable[JobReplica]) -> Condition:
    replicas = tuple(replicas)
    up = sum(replica.state == "running" for replica in replicas)
    if up:
        message = f"{up} of {len(replicas)} replicas running" if len(replicas) > 1 else ""
        return Condition(type="Running", status="True", reason="ReplicasRunning", message=message)
    message = next((replica.message for replica in replicas if replica.state in BEGUN and replica.message), "")
    return Condition(type="Running", status="True", reason="Starting", message=message)


def build_restarting(replicas: Iterable[JobReplica]) -> Condition:
    again = [replica for replica in replicas if replica.state == "restarting"]
    message = "; ".join(f"{each.name} ended, attempt {each.attempt + 1} starts at {each.restart_at}" for each in again)
    return Condition(type="Restarting", status="True", reason="BackOff", message=message)


def build_suspended(stopping: int) -> Condition:
    message = f"{stopping} replicas are stopping" if stopping else "spec.suspend is true; set it to false to resume"
    return Condition(type="Suspended", status="True", reason="Suspended", message=message)


def build_succeeded(message: str) -> Condition:
    return Condition(type="Succeeded", status="True", reason="Succeeded", message=message)


def build_failed(trouble: Trouble) -> Condition:
    return Condition(type="Failed", status="True", reason=trouble.reason, message=trouble.message)


def build_no_checkpoint() -> Condition:
    message = "the job succeeded but saved nothing in MIZZEN_CHECKPOINT_DIR, so there is nothing to serve"
    return Condition(type="NoCheckpoint", status="True", reason="NothingSaved", message=message)


def is_over(last_status: TrainingJobStatus) -> bool:
    return last_status.is_true("Succeeded") or last_status.is_true("Failed")


def count_replicas(replicas: Iterable[JobReplica]) -> dict[str, ReplicaCounts]:
    """By replica type."""
    names = {type_.lower(): type_ for type_ in REPLICA_TYPES}
    states: dict[str, list[str]] = {}
    for replica in replicas:
        type_ = replica.name.rpartition("-")[0]
        states.setdefault(names.get(type_, type_), []).append(replica.state)
    return {
        type_: ReplicaCounts(
            active=sum(state in _ACTIVE for state in there),
            succeeded=there.count("succeeded"),
            failed=there.count("failed"),
        )
        for type_, there in states.items()
    }


def build_status(
    context: JobContext,
    conditions: tuple[Condition, ...],
    phase: JobState,
    replicas: tuple[JobReplica, ...],
    **more: object,
) -> TrainingJobStatus:
    """The new status, with running time, counts, progress and checkpoints up to date."""
    facts, last_status, now = context.facts, context.last_status, context.now
    over = phase in ("Succeeded", "Failed")
    runs = not over and any(replica.state in BEGUN for replica in replicas)
    since = parse_time(last_status.running_since)
    fields: dict[str, object] = {
        "conditions": conditions,
        "state": phase,
        "replica_states": replicas,
        "replicas": count_replicas(replicas),
        "admitted": facts.admission.admitted,
        "progress": _choose_progress(context, over=over),
    }
    if runs:
        fields |= {"start_time": last_status.start_time or format_time(now)}
        if since is None or (now - since).total_seconds() >= PROGRESS_INTERVAL:
            fields |= {"running_since": format_time(now), "ran_seconds": seconds_run(last_status, now)}
    elif since is not None:
        fields |= {"running_since": None, "ran_seconds": seconds_run(last_status, now)}
    if facts.saved is not None:
        fields |= {"checkpoints": facts.saved.count, "newest_checkpoint": facts.saved.newest}
    return last_status.model_copy(update={**fields, **more})


def seconds_run(last_status: TrainingJobStatus, now: datetime) -> float:
    """Seconds that the job ran, over all restarts."""
    since = parse_time(last_status.running_since)
    return round(last_status.ran_seconds + (max(0.0, (now - since).total_seconds()) if since is not None else 0.0), 3)


def _choose_progress(context: JobContext, *, over: bool) -> JobProgress | None:
    """The progress that the code reports, written so rarely that it costs next to nothing."""
    new, last_status = context.facts.progress, context.last_status.progress
    if new is None or last_status is None or over:
        return new or last_status
    before = parse_time(last_status.time)
    return new if before is None or (context.now - before).total_seconds() >= PROGRESS_INTERVAL else last_status

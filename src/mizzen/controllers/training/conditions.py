"""The status of a TrainingJob: which one of its phases holds, and what is counted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mizzen.controllers.training.facts import Moment
from mizzen.controllers.training.replica_states import BEGUN, Trouble
from mizzen.kinds.schema.resource import Condition, format_time, parse_time
from mizzen.kinds.training import REPLICA_TYPES, JobProgress, JobReplica, JobState, ReplicaCounts, TrainingJobStatus

PROGRESS = 30.0
"""Seconds between two times that progress is written down."""
_ACTIVE = frozenset({"waiting", "starting", "running", "restarting"})


def created() -> Condition:
    return Condition(type="Created", status="True", reason="Accepted", message="the job set is known")


def queued(reason: str, message: str) -> Condition:
    return Condition(type="Queued", status="True", reason=reason, message=message)


def running(replicas: Iterable[JobReplica]) -> Condition:
    told = tuple(replicas)
    up = sum(replica.state == "running" for replica in told)
    if up:
        message = f"{up} of {len(told)} replicas running" if len(told) > 1 else ""
        return Condition(type="Running", status="True", reason="ReplicasRunning", message=message)
    said = next((replica.message for replica in told if replica.state in BEGUN and replica.message), "")
    return Condition(type="Running", status="True", reason="Starting", message=said)


def restarting(replicas: Iterable[JobReplica]) -> Condition:
    again = [replica for replica in replicas if replica.state == "restarting"]
    message = "; ".join(f"{each.name} ended, attempt {each.attempt + 1} starts at {each.restart_at}" for each in again)
    return Condition(type="Restarting", status="True", reason="BackOff", message=message)


def suspended(stopping: int) -> Condition:
    message = f"{stopping} replicas are stopping" if stopping else "spec.suspend is true; false lets it go on"
    return Condition(type="Suspended", status="True", reason="Suspended", message=message)


def succeeded(message: str) -> Condition:
    return Condition(type="Succeeded", status="True", reason="Succeeded", message=message)


def failed(trouble: Trouble) -> Condition:
    return Condition(type="Failed", status="True", reason=trouble.reason, message=trouble.message)


def no_checkpoint() -> Condition:
    message = "it ended well and saved nothing in MIZZEN_CHECKPOINT_DIR, so there is nothing of it to serve"
    return Condition(type="NoCheckpoint", status="True", reason="NothingSaved", message=message)


def is_over(told: TrainingJobStatus) -> bool:
    return told.is_true("Succeeded") or told.is_true("Failed")


def counts(replicas: Iterable[JobReplica]) -> dict[str, ReplicaCounts]:
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


def status(
    moment: Moment,
    conditions: tuple[Condition, ...],
    phase: JobState,
    replicas: tuple[JobReplica, ...],
    **more: object,
) -> TrainingJobStatus:
    """With running time, counts, progress and checkpoints brought up to date."""
    facts, told, now = moment.facts, moment.told, moment.now
    over = phase in ("Succeeded", "Failed")
    runs = not over and any(replica.state in BEGUN for replica in replicas)
    since = parse_time(told.running_since)
    fields: dict[str, object] = {
        "conditions": conditions,
        "state": phase,
        "replica_states": replicas,
        "replicas": counts(replicas),
        "admitted": facts.verdict.admitted,
        "progress": _progress(moment, over=over),
    }
    if runs:
        fields |= {"start_time": told.start_time or format_time(now)}
        if since is None or (now - since).total_seconds() >= PROGRESS:
            fields |= {"running_since": format_time(now), "ran_seconds": ran(told, now)}
    elif since is not None:
        fields |= {"running_since": None, "ran_seconds": ran(told, now)}
    if facts.saved is not None:
        fields |= {"checkpoints": facts.saved.count, "newest_checkpoint": facts.saved.newest}
    return told.model_copy(update={**fields, **more})


def ran(told: TrainingJobStatus, now: datetime) -> float:
    """Seconds that it ran, over all restarts."""
    since = parse_time(told.running_since)
    return round(told.ran_seconds + (max(0.0, (now - since).total_seconds()) if since is not None else 0.0), 3)


def _progress(moment: Moment, *, over: bool) -> JobProgress | None:
    """As the code says it; between two writes so much time passes that they cost nothing."""
    new, told = moment.facts.progress, moment.told.progress
    if new is None or told is None or over:
        return new or told
    before = parse_time(told.time)
    return new if before is None or (moment.now - before).total_seconds() >= PROGRESS else told

"""The end of a job, which is final, and the work after it: cleanup, and removal of the object. Pure."""

from __future__ import annotations

from datetime import datetime

from mizzen.controllers.training import conditions as training_conditions
from mizzen.controllers.training import exit_policy
from mizzen.controllers.training.facts import AcceptedJob, JobContext, TrainingFacts, attempt_of, find_observation
from mizzen.controllers.training.replica_states import BEGUN, ReplicaStates, Trouble, stop
from mizzen.errors import Invalid
from mizzen.kinds.schema.resource import Condition, Resource, format_time, parse_time
from mizzen.kinds.text import durations
from mizzen.kinds.training import JobReplica, JobState, TrainingJobSpec, TrainingJobStatus
from mizzen.reconcile.controller import Decision

STOPS_ALL = frozenset({"Terminated", "DeadlineExceeded"})
"""After these ends no replica keeps running, with any `cleanPodPolicy`."""


def finish(job: AcceptedJob, states: ReplicaStates, trouble: Trouble | None) -> Decision:
    """The job ends now: it succeeds, or fails with this trouble."""
    left = _children_left(job.facts, job.spec.clean_pod_policy, trouble.reason if trouble is not None else "")
    names = {child.meta.name.partition(".")[2] for child in left}
    replicas = tuple(each if each.name in names else stop((each,))[0] for each in states.replicas)
    status = training_conditions.build_status(
        job, (job.accepted, training_conditions.build_created(), *_final_conditions(job, states, trouble)),
        "Failed" if trouble is not None else "Succeeded", replicas,
        completion_time=format_time(job.now), restarts=states.restarts,
    )  # fmt: skip
    return Decision(children=left, status=status)


def _final_conditions(job: AcceptedJob, states: ReplicaStates, trouble: Trouble | None) -> tuple[Condition, ...]:
    if trouble is not None:
        return (training_conditions.build_failed(trouble),)
    saved = job.facts.saved.count if job.facts.saved is not None else job.last_status.checkpoints
    well = training_conditions.build_succeeded(_summarize_success(states.replicas))
    return (well,) if saved else (well, training_conditions.build_no_checkpoint())


def decide_finished(context: JobContext) -> Decision:
    """The decision for a job that has already ended."""
    facts, last_status, now = context.facts, context.last_status, context.now
    try:
        spec = TrainingJobSpec.of(facts.resource)
    except Invalid:
        spec = None
    failed = last_status.condition("Failed")
    ended_by = "Terminated" if last_status.terminated is not None else failed.reason if failed is not None else ""
    left = _children_left(facts, spec.clean_pod_policy if spec is not None else "", ended_by)
    names = {child.meta.name.partition(".")[2] for child in left}
    replicas = tuple(_final_state(facts, each, runs=each.name in names) for each in last_status.replica_states)
    conditions = last_status.conditions
    if facts.saved is not None and facts.saved.count:
        conditions = tuple(condition for condition in conditions if condition.type != "NoCheckpoint")
    phase: JobState = "Failed" if failed is not None else "Succeeded"
    status = training_conditions.build_status(context, conditions, phase, replicas)
    ttl = spec.ttl_seconds_after_finished if spec is not None else None
    to_removal = seconds_until(last_status, ttl, now)
    waits = (to_removal, seconds_until(last_status, log_retention_of(spec), now))
    ahead = [wait for wait in waits if wait is not None and wait > 0]
    due = ttl is not None and (to_removal or 0.0) <= 0
    return Decision(children=left, status=status, requeue_after=min(ahead, default=None), remove=due)


def log_retention_of(spec: TrainingJobSpec | None) -> float | None:
    """Seconds that logs are kept after the end; None: forever."""
    kept = spec.retention.logs if spec is not None and spec.retention is not None else None
    return durations.seconds(kept) if kept is not None else None


def seconds_until(last_status: TrainingJobStatus, seconds: float | None, now: datetime) -> float | None:
    """Seconds left until this many seconds after the end; None: there is no such time."""
    end = parse_time(last_status.completion_time)
    return None if seconds is None or end is None else seconds - (now - end).total_seconds()


def _children_left(facts: TrainingFacts, clean: str, reason: str) -> tuple[Resource, ...]:
    """Children that may keep running until they end."""
    if clean != "None" or reason in STOPS_ALL:
        return ()
    return tuple(child for child in facts.children if not child.deleting and _is_up(child))


def _is_up(child: Resource) -> bool:
    seen = find_observation(child, attempt_of(child))
    return seen is not None and seen.state in ("starting", "ready")


def _final_state(facts: TrainingFacts, replica: JobReplica, *, runs: bool) -> JobReplica:
    """The state of a replica that was left running when the job ended."""
    if replica.state not in (*BEGUN, "waiting", "restarting") or runs:
        return replica
    child = facts.child(f"{facts.resource.meta.name}.{replica.name}")
    seen = find_observation(child, replica.attempt)
    if seen is None or seen.state != "ended":
        return stop((replica,))[0]
    state = "succeeded" if exit_policy.code_of(seen) == 0 else "failed"
    ended = {"state": state, "exit_code": seen.exit_code, "reason": seen.reason, "message": seen.message}
    return replica.model_copy(update=ended)


def _summarize_success(replicas: tuple[JobReplica, ...]) -> str:
    well = [replica.name for replica in replicas if replica.state == "succeeded"]
    return f"{', '.join(well[:10])} succeeded" if len(replicas) > 1 else ""

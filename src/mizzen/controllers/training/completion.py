"""The end of a job set, which is for ever, and what is left to do then: cleaning up, and removing the object. Pure."""

from __future__ import annotations

from datetime import datetime

from mizzen.controllers.training import conditions as training_conditions
from mizzen.controllers.training import exit_policy
from mizzen.controllers.training.facts import Given, Moment, TrainingFacts, attempt_of, seen_of
from mizzen.controllers.training.replica_states import BEGUN, Course, Trouble, stopped
from mizzen.errors import Invalid
from mizzen.kinds.schema.resource import Condition, Resource, format_time, parse_time
from mizzen.kinds.text import durations
from mizzen.kinds.training import JobReplica, TrainingJobSpec, TrainingJobStatus
from mizzen.reconcile.controller import Decision

STOPS_ALL = frozenset({"Terminated", "DeadlineExceeded"})
"""After such an end nothing runs on, whatever `cleanPodPolicy` says."""


def ended(given: Given, found: Course, trouble: Trouble | None) -> Decision:
    """The set ends now: well, or with this trouble."""
    left = _left(given.facts, given.spec.clean_pod_policy, trouble.reason if trouble is not None else "")
    names = {child.meta.name.partition(".")[2] for child in left}
    going = {each.name: each for each in stopped(found.replicas)}
    replicas = tuple(each if each.name in names else going[each.name] for each in found.replicas)
    status = training_conditions.status(
        given, (given.accepted, training_conditions.created(), *_conditions(given, found, trouble)),
        "Failed" if trouble is not None else "Succeeded", replicas,
        completion_time=format_time(given.now), restarts=found.restarts,
    )  # fmt: skip
    return Decision(children=left, status=status)


def _conditions(given: Given, found: Course, trouble: Trouble | None) -> tuple[Condition, ...]:
    if trouble is not None:
        return (training_conditions.failed(trouble),)
    saved = given.facts.saved.count if given.facts.saved is not None else given.told.checkpoints
    well = training_conditions.succeeded(_said_well(found.replicas))
    return (well,) if saved else (well, training_conditions.no_checkpoint())


def over(moment: Moment) -> Decision:
    """It has ended before."""
    facts, told, now = moment.facts, moment.told, moment.now
    try:
        spec = TrainingJobSpec.of(facts.resource)
    except Invalid:
        spec = None
    failed = told.condition("Failed")
    ended_by = "Terminated" if told.terminated is not None else failed.reason if failed is not None else ""
    left = _left(facts, spec.clean_pod_policy if spec is not None else "", ended_by)
    names = {child.meta.name.partition(".")[2] for child in left}
    replicas = tuple(_gone_on(facts, each, runs=each.name in names) for each in told.replica_states)
    conditions = told.conditions
    if facts.saved is not None and facts.saved.count:
        conditions = tuple(condition for condition in conditions if condition.type != "NoCheckpoint")
    status = training_conditions.status(moment, conditions, "Failed" if failed is not None else "Succeeded", replicas)
    ttl = spec.ttl_seconds_after_finished if spec is not None else None
    waits = [wait for wait in (until(told, ttl, now), until(told, logs_kept(spec), now)) if wait is not None]
    ahead = [wait for wait in waits if wait > 0]
    due = ttl is not None and (until(told, ttl, now) or 0.0) <= 0
    return Decision(children=left, status=status, again=min(ahead, default=None), remove=due)


def logs_kept(spec: TrainingJobSpec | None) -> float | None:
    """Seconds that logs are kept after the end; None: always."""
    kept = spec.retention.logs if spec is not None and spec.retention is not None else None
    return durations.seconds(kept) if kept is not None else None


def until(told: TrainingJobStatus, seconds: float | None, now: datetime) -> float | None:
    """Seconds from now until so long after the end."""
    end = parse_time(told.completion_time)
    return None if seconds is None or end is None else seconds - (now - end).total_seconds()


def _left(facts: TrainingFacts, clean: str, reason: str) -> tuple[Resource, ...]:
    """What may run on until it ends."""
    if clean != "None" or reason in STOPS_ALL:
        return ()
    return tuple(child for child in facts.children if not child.deleting and _is_up(child))


def _is_up(child: Resource) -> bool:
    seen = seen_of(child, attempt_of(child))
    return seen is not None and seen.state in ("starting", "ready")


def _gone_on(facts: TrainingFacts, replica: JobReplica, *, runs: bool) -> JobReplica:
    """What became of one that was left running."""
    if replica.state not in (*BEGUN, "waiting", "restarting") or runs:
        return replica
    child = facts.child(f"{facts.resource.meta.name}.{replica.name}")
    seen = seen_of(child, replica.attempt)
    if seen is None or seen.state != "ended":
        return stopped((replica,))[0]
    state = "succeeded" if exit_policy.code_of(seen) == 0 else "failed"
    ended = {"state": state, "exit_code": seen.exit_code, "reason": seen.reason, "message": seen.message}
    return replica.model_copy(update=ended)


def _said_well(replicas: tuple[JobReplica, ...]) -> str:
    well = [replica.name for replica in replicas if replica.state == "succeeded"]
    return f"{', '.join(well[:10])} ended well" if len(replicas) > 1 else ""

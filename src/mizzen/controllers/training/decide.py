"""The decisions for a TrainingJob: which replicas may run, and its status. Pure and total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mizzen.controllers.training import completion, start_checks
from mizzen.controllers.training.conditions import (
    build_created,
    build_failed,
    build_queued,
    build_restarting,
    build_running,
    build_status,
    build_suspended,
    is_over,
    seconds_run,
)
from mizzen.controllers.training.facts import AcceptedJob, JobContext, TrainingFacts, attempt_of
from mizzen.controllers.training.replica_states import (
    ReplicaStates,
    Trouble,
    advance,
    initial_replicas,
    resume,
    seconds_until_restart,
    stop,
)
from mizzen.controllers.training.replicas import replicas_for_success, replicas_of, workload_of
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import references
from mizzen.kinds.schema.findings import Context, Findings
from mizzen.kinds.schema.resource import Condition, Resource, format_time
from mizzen.kinds.training import JobReplica, JobState, TrainingJobSpec, TrainingJobStatus
from mizzen.reconcile.controller import Decision

RECHECK_SECONDS = 30.0
"""Seconds until a waiting or running job is reconciled again without any event."""


def decide(facts: TrainingFacts, context: Context, here: str, now: datetime) -> Decision:
    """`context` lists the capabilities of the engine; `here` is the name of this machine's Node."""
    if facts.resource.deleting:
        return Decision()
    last_status = TrainingJobStatus.of(facts.resource)
    if facts.inherited and last_status.running_since is not None:
        last_status = last_status.model_copy(update={"running_since": format_time(now)})
    if is_over(last_status):
        return completion.decide_finished(JobContext(facts, last_status, now))
    accepted, findings = catalog.check_accepted(facts.resource, context)
    if findings.faults:
        return _decide_invalid(JobContext(facts, last_status, now), accepted)
    warnings = Findings.of(references.findings(facts.resource, facts.referenced)).warnings
    spec = TrainingJobSpec.of(facts.resource)
    return _decide(AcceptedJob(facts, last_status, now, spec, catalog.add_warnings(accepted, warnings)), here)


def _decide(job: AcceptedJob, here: str) -> Decision:
    facts, last_status, spec = job.facts, job.last_status, job.spec
    before = initial_replicas(spec, last_status)
    if last_status.terminated is not None:
        trouble = Trouble("Terminated", f"terminated by {last_status.terminated.actor}")
        return _finish(job, advance(job, before), trouble)
    if spec.suspend:
        return _decide_suspended(job, advance(job, before))
    # An admitted job continues, whatever is missing now.
    blocked = None if last_status.admitted else start_checks.find_obstacle(facts, spec, here)
    if blocked is not None and blocked.final:
        return _finish(job, ReplicaStates(before, last_status.restarts), Trouble(blocked.reason, blocked.message))
    if blocked is not None or not facts.admission.admitted:
        cause = blocked or facts.admission
        return _decide_queued(job, before, Trouble(cause.reason, cause.message))
    if not last_status.admitted or facts.ports:
        # Its share and ports are recorded before anything starts with them.
        waiting = _decide_queued(job, before, Trouble("Starting", "the job is about to start"))
        return replace(waiting, requeue_after=0.0)
    return _decide_running(job, advance(job, resume(before)))


def _decide_invalid(moment: JobContext, accepted: Condition) -> Decision:
    """A store may hold an object that never passed our admission. Running replicas continue; a user may still
    terminate the job."""
    facts, last_status = moment.facts, moment.last_status
    if last_status.terminated is not None:
        conditions = (accepted, build_created(), build_failed(Trouble("Terminated", "the job was terminated")))
        gone, ended = stop(last_status.replica_states), format_time(moment.now)
        return Decision(status=build_status(moment, conditions, "Failed", gone, completion_time=ended))
    others = tuple(condition for condition in last_status.conditions if condition.type != accepted.type)
    if last_status.state is None:
        others = (build_created(), build_queued(Trouble(accepted.reason, accepted.message)))
    status = last_status.model_copy(update={"conditions": (accepted, *others), "state": last_status.state or "Queued"})
    return Decision(children=tuple(child for child in facts.children if not child.deleting), status=status)


def _decide_queued(job: AcceptedJob, replicas: tuple[JobReplica, ...], trouble: Trouble) -> Decision:
    facts, last_status = job.facts, job.last_status
    conditions = (job.accepted, build_created(), build_queued(trouble))
    ports = {**last_status.ports, **facts.ports}
    status = build_status(job, conditions, "Queued", replicas, ports=ports)
    there = tuple(child for child in facts.children if not child.deleting) if last_status.admitted else ()
    return Decision(children=there, status=status, requeue_after=RECHECK_SECONDS)


def _decide_suspended(job: AcceptedJob, states: ReplicaStates) -> Decision:
    if _has_ended(job, states):
        return _finish(job, states, states.failure)
    begun = job.last_status.start_time is not None or bool(job.facts.children)
    replicas = stop(states.replicas, begun=begun)
    conditions = (job.accepted, build_created(), build_suspended(len(job.facts.children)))
    status = build_status(job, conditions, "Suspended", replicas, restarts=states.restarts)
    return Decision(status=status)


def _decide_running(job: AcceptedJob, states: ReplicaStates) -> Decision:
    last_status, spec, now = job.last_status, job.spec, job.now
    if _has_ended(job, states):
        return _finish(job, states, states.failure)
    limit = spec.active_deadline_seconds
    left = limit - seconds_run(last_status, now) if limit is not None else None
    if left is not None and left <= 0:
        late = f"the job ran for {limit} s, the limit in spec.activeDeadlineSeconds"
        return _finish(job, states, Trouble("DeadlineExceeded", late))
    try:
        children = tuple(_children(job, states))
    except _NoVersionError as gone:
        return _finish(job, states, Trouble("VersionNotFound", str(gone)))
    phase, condition = _phase(states)
    conditions = (job.accepted, build_created(), condition)
    status = build_status(job, conditions, phase, states.replicas, restarts=states.restarts)
    restarting = (each for each in states.replicas if each.state == "restarting")
    waits = [RECHECK_SECONDS, *(seconds_until_restart(each, now) for each in restarting)]
    if left is not None and states.runs:
        waits.append(left)
    return Decision(children=children, status=status, requeue_after=max(0.0, min(waits)), notes=states.notes)


def _phase(states: ReplicaStates) -> tuple[JobState, Condition]:
    if any(replica.state == "restarting" for replica in states.replicas):
        return "Restarting", build_restarting(states.replicas)
    if states.runs:
        return "Running", build_running(states.replicas)
    trouble = states.obstacle or Trouble("Starting", "its processes are about to start")
    return "Queued", build_queued(trouble)


def _has_ended(job: AcceptedJob, states: ReplicaStates) -> bool:
    return states.failure is not None or states.has_succeeded(replicas_for_success(job.spec))


def _finish(job: AcceptedJob, states: ReplicaStates, trouble: Trouble | None) -> Decision:
    """A job that has succeeded stays so, even if there is trouble by now."""
    return completion.finish(job, states, None if states.has_succeeded(replicas_for_success(job.spec)) else trouble)


class _NoVersionError(Exception):
    """The next attempt needs the version, which no longer exists."""


def _children(job: AcceptedJob, states: ReplicaStates) -> list[Resource]:
    """The Workload of a started attempt stays as it was started, even if the spec has changed since."""
    wanted = []
    by_name: Mapping[str, JobReplica] = {replica.name: replica for replica in states.replicas}
    for each in replicas_of(job.spec):
        state, child = by_name[each.name], job.facts.child(each.workload(job.facts.resource))
        if child is not None and (state.state in ("succeeded", "restarting") or attempt_of(child) == state.attempt):
            wanted.append(child)
        elif state.state not in ("succeeded", "restarting"):
            _refuse_without_version(job)
            wanted.append(workload_of(job, each, attempt=state.attempt))
    return wanted


def _refuse_without_version(job: AcceptedJob) -> None:
    spec, version = job.spec, job.facts.version
    if spec.version is None:
        return
    if version is None:
        raise _NoVersionError(f"model '{spec.model_name}' no longer has version {spec.version}")
    try:
        ModelVersionSpec.of(version)
    except Invalid as fault:
        raise _NoVersionError(fault.message) from fault

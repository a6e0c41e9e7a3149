"""What a TrainingJob calls for: the course of a decision, from what is given to what may run. Pure and total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mizzen.controllers.training import completion, start_checks
from mizzen.controllers.training import conditions as training_conditions
from mizzen.controllers.training.facts import Given, Moment, TrainingFacts, attempt_of
from mizzen.controllers.training.replica_states import Course, Trouble, begin, course, resumed, stopped, wait_of
from mizzen.controllers.training.replicas import counting, replicas_of, workload_of
from mizzen.errors import Invalid
from mizzen.kinds import catalog
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import references
from mizzen.kinds.schema.findings import Context, Findings
from mizzen.kinds.schema.resource import Condition, Resource, format_time
from mizzen.kinds.training import JobReplica, JobState, TrainingJobSpec, TrainingJobStatus
from mizzen.reconcile.controller import Decision

AGAIN = 30.0
"""Seconds after which a job that waits, or runs, is looked at though nothing was heard of it."""


def decide(facts: TrainingFacts, context: Context, here: str, now: datetime) -> Decision:
    """`context` tells what the engine of this home can do; `here` is the name of the Node of this machine."""
    if facts.resource.deleting:
        return Decision()
    told = TrainingJobStatus.of(facts.resource)
    if facts.inherited and told.running_since is not None:
        told = told.model_copy(update={"running_since": format_time(now)})
    if training_conditions.is_over(told):
        return completion.over(Moment(facts, told, now))
    accepted, findings = catalog.accepted(facts.resource, context)
    if findings.faults:
        return _invalid(Moment(facts, told, now), accepted)
    odd = Findings.of(references.findings(facts.resource, facts.there)).warnings
    spec = TrainingJobSpec.of(facts.resource)
    return _decide(Given(facts, told, now, spec, catalog.warned(accepted, odd)), here)


def _decide(given: Given, here: str) -> Decision:
    facts, told, spec = given.facts, given.told, given.spec
    before = begin(spec, told)
    if told.terminated is not None:
        return _ended(given, course(given, before), Trouble("Terminated", f"{told.terminated.actor} ended it"))
    if spec.suspend:
        return _suspended(given, course(given, before))
    # What has begun goes on, whatever is missing now.
    blocked = None if told.admitted else start_checks.blocked(facts, spec, here)
    if blocked is not None:
        trouble = Trouble(blocked.reason, blocked.message)
        return (
            _ended(given, Course(before, told.restarts), trouble) if blocked.final else _queued(given, before, trouble)
        )
    if not facts.verdict.admitted:
        return _queued(given, before, Trouble(facts.verdict.reason, facts.verdict.message))
    if not told.admitted or facts.ports:
        # What it is given is written down before anything starts with it.
        waiting = _queued(given, before, Trouble("Starting", "it is about to start"))
        return replace(waiting, again=0.0)
    return _running(given, course(given, resumed(before)))


def _invalid(moment: Moment, accepted: Condition) -> Decision:
    """A store may hold what never passed our admission. What runs, runs on; somebody may end it all the same."""
    facts, told = moment.facts, moment.told
    if told.terminated is not None:
        conditions = (
            accepted,
            training_conditions.created(),
            training_conditions.failed(Trouble("Terminated", "it was ended")),
        )
        gone = stopped(told.replica_states)
        return Decision(
            status=training_conditions.status(
                moment, conditions, "Failed", gone, completion_time=format_time(moment.now)
            )
        )
    others = tuple(condition for condition in told.conditions if condition.type != accepted.type)
    if told.state is None:
        others = (training_conditions.created(), training_conditions.queued(accepted.reason, accepted.message))
    status = told.model_copy(update={"conditions": (accepted, *others), "state": told.state or "Queued"})
    return Decision(children=tuple(child for child in facts.children if not child.deleting), status=status)


def _queued(given: Given, replicas: tuple[JobReplica, ...], trouble: Trouble) -> Decision:
    facts, told = given.facts, given.told
    conditions = (
        given.accepted,
        training_conditions.created(),
        training_conditions.queued(trouble.reason, trouble.message),
    )
    ports = {**told.ports, **facts.ports}
    status = training_conditions.status(given, conditions, "Queued", replicas, ports=ports)
    there = tuple(child for child in facts.children if not child.deleting) if told.admitted else ()
    return Decision(children=there, status=status, again=AGAIN)


def _suspended(given: Given, found: Course) -> Decision:
    if found.has_succeeded(counting(given.spec)):
        return _ended(given, found, None)
    if found.failure is not None:
        return _ended(given, found, found.failure)
    begun = given.told.start_time is not None or bool(given.facts.children)
    replicas = stopped(found.replicas, begun=begun)
    conditions = (
        given.accepted,
        training_conditions.created(),
        training_conditions.suspended(len(given.facts.children)),
    )
    status = training_conditions.status(given, conditions, "Suspended", replicas, restarts=found.restarts)
    return Decision(status=status)


def _running(given: Given, found: Course) -> Decision:
    told, spec, now = given.told, given.spec, given.now
    if found.has_succeeded(counting(spec)):
        return _ended(given, found, None)
    if found.failure is not None:
        return _ended(given, found, found.failure)
    limit = spec.active_deadline_seconds
    left = limit - training_conditions.ran(told, now) if limit is not None else None
    if left is not None and left <= 0:
        late = f"it ran for {limit} s, which is spec.activeDeadlineSeconds"
        return _ended(given, found, Trouble("DeadlineExceeded", late))
    try:
        children = tuple(_children(given, found))
    except _NoVersionError as gone:
        return _ended(given, found, Trouble("VersionNotFound", str(gone)))
    phase, condition = _phase(found)
    conditions = (given.accepted, training_conditions.created(), condition)
    status = training_conditions.status(given, conditions, phase, found.replicas, restarts=found.restarts)
    waits = [AGAIN, *(wait_of(each, now) for each in found.replicas if each.state == "restarting")]
    if left is not None and found.runs:
        waits.append(left)
    return Decision(children=children, status=status, again=max(0.0, min(waits)), notes=found.notes)


def _phase(found: Course) -> tuple[JobState, Condition]:
    if any(replica.state == "restarting" for replica in found.replicas):
        return "Restarting", training_conditions.restarting(found.replicas)
    if found.runs:
        return "Running", training_conditions.running(found.replicas)
    trouble = found.obstacle or Trouble("Starting", "its processes are about to start")
    return "Queued", training_conditions.queued(trouble.reason, trouble.message)


def _ended(given: Given, found: Course, trouble: Trouble | None) -> Decision:
    """A set that has succeeded has done so, whatever else happened in the meantime."""
    return completion.ended(given, found, None if found.has_succeeded(counting(given.spec)) else trouble)


class _NoVersionError(Exception):
    """The next attempt needs the version, which is there no more."""


def _children(given: Given, found: Course) -> list[Resource]:
    """What is there of an attempt stays as it was started, whatever the spec says by now."""
    wanted = []
    states: Mapping[str, JobReplica] = {replica.name: replica for replica in found.replicas}
    for each in replicas_of(given.spec):
        state, child = states[each.name], given.facts.child(each.workload(given.facts.resource))
        if child is not None and (state.state in ("succeeded", "restarting") or attempt_of(child) == state.attempt):
            wanted.append(child)
        elif state.state not in ("succeeded", "restarting"):
            _refuse_without_version(given)
            wanted.append(
                workload_of(
                    given.facts.resource, given.spec, each, given.facts.version,
                    attempt=state.attempt, ports=given.told.ports,
                )
            )  # fmt: skip
    return wanted


def _refuse_without_version(given: Given) -> None:
    spec, version = given.spec, given.facts.version
    if spec.version is None:
        return
    if version is None:
        raise _NoVersionError(f"model '{spec.model_name}' has no version {spec.version} any more")
    try:
        ModelVersionSpec.of(version)
    except Invalid as fault:
        raise _NoVersionError(fault.message) from fault

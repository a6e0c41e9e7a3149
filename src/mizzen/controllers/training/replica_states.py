"""The states of a job's replicas, and their transitions. Pure.

waiting ──> starting ──> running ──exit──> succeeded
               ^            │
               │            ├──exit, retried──────> restarting ──back-off──> starting (the next attempt)
               │            ├──exit, for good─────> failed, and the job with it
               └─(resumed)─ stopped <── suspended, or the job has ended
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mizzen.controllers.training import exit_policy
from mizzen.controllers.training.facts import AcceptedJob, find_observation
from mizzen.controllers.training.replicas import TrainingReplica, policy_of, replicas_for_success, replicas_of
from mizzen.kinds.schema.resource import format_time, parse_time
from mizzen.kinds.training import JobReplica, RestartPolicy, TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import ReplicaStatus
from mizzen.reconcile.recorder import EventNote

BEGUN = frozenset({"starting", "running"})
"""States in which a process exists."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why the job has failed, or waits."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReplicaStates:
    replicas: tuple[JobReplica, ...]
    restarts: int
    """Restarts that count towards `backoffLimit`."""
    failure: Trouble | None = None
    obstacle: Trouble | None = None
    """Why the first waiting replica cannot be started."""
    notes: tuple[EventNote, ...] = ()

    def has_succeeded(self, counted: Iterable[str]) -> bool:
        well = {replica.name for replica in self.replicas if replica.state == "succeeded"}
        names = set(counted)
        return bool(names) and names <= well

    @property
    def runs(self) -> bool:
        return any(replica.state in BEGUN for replica in self.replicas)


def initial_replicas(spec: TrainingJobSpec, last_status: TrainingJobStatus) -> tuple[JobReplica, ...]:
    """The replicas in the last status, and new ones as waiting."""
    known = {replica.name: replica for replica in last_status.replica_states}
    return tuple(known.get(each.name) or JobReplica(name=each.name, state="waiting") for each in replicas_of(spec))


def resume(replicas: Iterable[JobReplica]) -> tuple[JobReplica, ...]:
    """Stopped replicas continue with their next attempt."""
    return tuple(
        _update(replica, state="waiting", attempt=replica.attempt + 1, message="")
        if replica.state == "stopped"
        else replica
        for replica in replicas
    )


def stop(replicas: Iterable[JobReplica], *, begun: bool = True) -> tuple[JobReplica, ...]:
    """All replicas that have not ended by themselves, as stopped. If nothing has begun, waiting ones stay waiting."""
    return tuple(
        replica
        if replica.state in ("succeeded", "failed") or (not begun and replica.state == "waiting")
        else _update(replica, state="stopped", message="", restart_at=None)
        for replica in replicas
    )


def advance(job: AcceptedJob, before: Iterable[JobReplica]) -> ReplicaStates:
    """The next states, from those `before` and the observations now."""
    facts, spec, now = job.facts, job.spec, job.now
    was = {replica.name: replica for replica in before}
    states = ReplicaStates((), job.last_status.restarts)
    ends: list[tuple[str, Trouble]] = []
    for each in replicas_of(spec):
        replica = _start_if_due(was[each.name], now)
        observed = find_observation(facts.child(each.workload(facts.resource)), replica.attempt)
        if observed is None or replica.state in ("succeeded", "restarting", "stopped"):
            states = replace(states, replicas=(*states.replicas, replica))
        elif observed.state in ("ended", "failed"):
            pending = any(
                other.state == "restarting" and other.name != each.name for other in (*was.values(), *states.replicas)
            )
            states, end = _apply_exit(_ReplicaExit(job, states, each, replica, observed, pending))
            if end is not None:
                ends.append((observed.ended or "", end))
        else:
            states = _apply_observation(states, replica, observed, policy_of(spec, each))
    if not ends or (facts.leader_is_done and _leader_runs(states)):
        # Peers often fail because the leader's command has ended. Whether the leader succeeded is known as soon as its
        # results are saved.
        return states
    # The first failure may have caused the others.
    return replace(states, failure=min(ends, key=lambda pair: pair[0])[1])


def _leader_runs(states: ReplicaStates) -> bool:
    return bool(states.replicas) and states.replicas[0].state in BEGUN


def _start_if_due(replica: JobReplica, now: datetime) -> JobReplica:
    if replica.state != "restarting" or seconds_until_restart(replica, now) > 0:
        return replica
    return _update(replica, state="starting", attempt=replica.attempt + 1, restart_at=None, message="")


def seconds_until_restart(replica: JobReplica, now: datetime) -> float:
    """Seconds until the replica is restarted."""
    due = parse_time(replica.restart_at)
    return (due - now).total_seconds() if due is not None else 0.0


def _apply_observation(
    states: ReplicaStates, replica: JobReplica, observed: ReplicaStatus, rule: RestartPolicy
) -> ReplicaStates:
    state = {"starting": "starting", "ready": "running", "waiting": "waiting"}.get(observed.state)
    after = replica if state is None else _update(replica, state=state, message=observed.message)
    states = replace(states, replicas=(*states.replicas, after))
    if state != "waiting":
        return states
    if observed.reason == "EnvironmentFailed" and rule == "Never":
        failed = Trouble(observed.reason, f"{replica.name}: {observed.message}")
        return replace(states, failure=states.failure or failed)
    return replace(states, obstacle=states.obstacle or Trouble(observed.reason or "Starting", observed.message))


@dataclass(frozen=True, slots=True)
class _ReplicaExit:
    """The exit of one replica, with its context."""

    job: AcceptedJob
    states: ReplicaStates
    """The states of the replicas before it."""
    each: TrainingReplica
    replica: JobReplica
    observed: ReplicaStatus
    pending: bool
    """Another replica waits for its restart."""

    @property
    def restarts(self) -> int:
        """The job's restarts, with one more of this replica.

        One cause, such as a reboot, often ends several processes. So an exit while another replica waits for its
        restart counts as the same restart, unless this replica has already been restarted as often as the job.
        """
        before = self.states.restarts
        return before if self.pending and self.replica.restarts < before else before + 1


def _apply_exit(this: _ReplicaExit) -> tuple[ReplicaStates, Trouble | None]:
    states, spec, observed, name = this.states, this.job.spec, this.observed, this.each.name
    end = exit_policy.judge_exit(name, observed, policy_of(spec, this.each), counts=name in replicas_for_success(spec))
    report = {"exit_code": observed.exit_code, "reason": observed.reason, "message": observed.message}
    ended = _update(this.replica, **report, restart_at=None)
    if end.meaning == "succeeded":
        return replace(states, replicas=(*states.replicas, _update(ended, state="succeeded"))), None
    failed = replace(states, replicas=(*states.replicas, _update(ended, state="failed")))
    if end.meaning == "failed":
        return failed, Trouble(end.reason, end.message)
    if this.restarts > spec.backoff_limit:
        times = {0: "never", 1: "once"}.get(states.restarts, f"{states.restarts} times")
        message = f"the job was restarted {times}, and spec.backoffLimit is {spec.backoff_limit}"
        return failed, Trouble("BackoffLimitExceeded", f"{message}; {exit_policy.describe_exit(name, observed)}")
    pause = exit_policy.restart_delay(this.replica.restarts)
    due = format_time(this.job.now + timedelta(seconds=pause))
    again = _update(ended, state="restarting", restarts=this.replica.restarts + 1, restart_at=due)
    message = f"{exit_policy.describe_exit(name, observed)}; restarting in {pause:g} s"
    notes = (*states.notes, EventNote("ReplicaEnded", message, warning=exit_policy.code_of(observed) != 0))
    return ReplicaStates((*states.replicas, again), this.restarts, states.failure, states.obstacle, notes), None


def _update(replica: JobReplica, **fields: object) -> JobReplica:
    return replica.model_copy(update=fields)

"""What the replicas of a set that runs have come to, and what comes next. Pure.

waiting ──> starting ──> running ──exit──> succeeded
               ^            │
               │            ├──exit, tried again──> restarting ──back-off──> starting (the next attempt)
               │            ├──exit, for good─────> failed, and the set with it
               └─(resumed)─ stopped <── suspended, or the set has ended
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mizzen.controllers.training import exit_policy
from mizzen.controllers.training.facts import Given, seen_of
from mizzen.controllers.training.replicas import Replica, counting, policy_of, replicas_of
from mizzen.kinds.schema.resource import format_time, parse_time
from mizzen.kinds.training import JobReplica, RestartPolicy, TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import ReplicaStatus
from mizzen.reconcile.recorder import Note

BEGUN = frozenset({"starting", "running"})
"""There is a process."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the set has failed, or what it waits for."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Course:
    replicas: tuple[JobReplica, ...]
    restarts: int
    """What counts towards `backoffLimit`."""
    failure: Trouble | None = None
    obstacle: Trouble | None = None
    """What keeps the first replica that waits from being started."""
    notes: tuple[Note, ...] = ()

    def has_succeeded(self, counted: Iterable[str]) -> bool:
        well = {replica.name for replica in self.replicas if replica.state == "succeeded"}
        names = set(counted)
        return bool(names) and names <= well

    @property
    def runs(self) -> bool:
        return any(replica.state in BEGUN for replica in self.replicas)


def begin(spec: TrainingJobSpec, told: TrainingJobStatus) -> tuple[JobReplica, ...]:
    """The replicas as they were told of last, and those that never were."""
    known = {replica.name: replica for replica in told.replica_states}
    return tuple(known.get(each.name) or JobReplica(name=each.name, state="waiting") for each in replicas_of(spec))


def resumed(replicas: Iterable[JobReplica]) -> tuple[JobReplica, ...]:
    """Those that were stopped go on with their next attempt."""
    return tuple(
        _changed(replica, state="waiting", attempt=replica.attempt + 1, message="")
        if replica.state == "stopped"
        else replica
        for replica in replicas
    )


def stopped(replicas: Iterable[JobReplica], *, begun: bool = True) -> tuple[JobReplica, ...]:
    """All that had not ended by themselves. Where nothing has begun there is nothing to stop."""
    return tuple(
        replica
        if replica.state in ("succeeded", "failed") or (not begun and replica.state == "waiting")
        else _changed(replica, state="stopped", message="", restart_at=None)
        for replica in replicas
    )


def course(given: Given, before: Iterable[JobReplica]) -> Course:
    """From what was told `before` to what is seen now."""
    facts, spec, now = given.facts, given.spec, given.now
    was = {replica.name: replica for replica in before}
    found = Course((), given.told.restarts)
    ends: list[tuple[str, Trouble]] = []
    for each in replicas_of(spec):
        replica = _due(was[each.name], now)
        seen = seen_of(facts.child(each.workload(facts.resource)), replica.attempt)
        if seen is None or replica.state in ("succeeded", "restarting", "stopped"):
            found = replace(found, replicas=(*found.replicas, replica))
        elif seen.state in ("ended", "failed"):
            pending = any(
                other.state == "restarting" and other.name != each.name for other in (*was.values(), *found.replicas)
            )
            found, end = _ended(_Ended(given, found, each, replica, seen, pending))
            if end is not None:
                ends.append((seen.ended or "", end))
        else:
            found = _observed(found, replica, seen, policy_of(spec, each))
    if not ends or (facts.leader_is_done and _leader_runs(found)):
        # Peers often fail because the leader is done and away. Whether it did well is known as soon as what it saved
        # is put away.
        return found
    # The first to end may be the reason why the others did.
    return replace(found, failure=min(ends, key=lambda pair: pair[0])[1])


def _leader_runs(found: Course) -> bool:
    return bool(found.replicas) and found.replicas[0].state in BEGUN


def _due(replica: JobReplica, now: datetime) -> JobReplica:
    if replica.state != "restarting" or wait_of(replica, now) > 0:
        return replica
    return _changed(replica, state="starting", attempt=replica.attempt + 1, restart_at=None, message="")


def wait_of(replica: JobReplica, now: datetime) -> float:
    """Seconds until it is started again."""
    due = parse_time(replica.restart_at)
    return (due - now).total_seconds() if due is not None else 0.0


def _observed(found: Course, replica: JobReplica, seen: ReplicaStatus, rule: RestartPolicy) -> Course:
    match seen.state:
        case "starting":
            after = _changed(replica, state="starting", message=seen.message)
        case "ready":
            after = _changed(replica, state="running", message=seen.message)
        case "waiting":
            after = _changed(replica, state="waiting", message=seen.message)
            if seen.reason == "EnvironmentFailed" and rule == "Never":
                failed = Trouble(seen.reason, f"{replica.name}: {seen.message}")
                return replace(found, replicas=(*found.replicas, after), failure=found.failure or failed)
            obstacle = Trouble(seen.reason or "Starting", seen.message)
            return replace(found, replicas=(*found.replicas, after), obstacle=found.obstacle or obstacle)
        case _:
            after = replica
    return replace(found, replicas=(*found.replicas, after))


@dataclass(frozen=True, slots=True)
class _Ended:
    """One replica has, and this is what is known of it."""

    given: Given
    found: Course
    """What the replicas before it have come to."""
    each: Replica
    replica: JobReplica
    seen: ReplicaStatus
    pending: bool
    """Another one waits to be started again."""

    @property
    def restarts(self) -> int:
        """What the set's restarts come to with one more of this replica.

        What ends one process often ends its peers, as a reboot does. So one that ends while another waits to be started
        again counts with that one, unless it has been started again as often as any.
        """
        before = self.found.restarts
        return before if self.pending and self.replica.restarts < before else before + 1


def _ended(this: _Ended) -> tuple[Course, Trouble | None]:
    found, spec, seen, name = this.found, this.given.spec, this.seen, this.each.name
    end = exit_policy.meaning(name, seen, policy_of(spec, this.each), counts=name in counting(spec))
    told = {"exit_code": seen.exit_code, "reason": seen.reason, "message": seen.message, "restart_at": None}
    ended = _changed(this.replica, **told)
    if end.meaning == "succeeded":
        return replace(found, replicas=(*found.replicas, _changed(ended, state="succeeded"))), None
    failed = replace(found, replicas=(*found.replicas, _changed(ended, state="failed")))
    if end.meaning == "failed":
        return failed, Trouble(end.reason, end.message)
    if this.restarts > spec.backoff_limit:
        times = {0: "never", 1: "once"}.get(found.restarts, f"{found.restarts} times")
        message = f"it was started again {times}, and spec.backoffLimit is {spec.backoff_limit}"
        return failed, Trouble("BackoffLimitExceeded", f"{message}; {exit_policy.said(name, seen)}")
    pause = exit_policy.delay(this.replica.restarts)
    due = format_time(this.given.now + timedelta(seconds=pause))
    again = _changed(ended, state="restarting", restarts=this.replica.restarts + 1, restart_at=due)
    said = f"{exit_policy.said(name, seen)}; it is started again in {pause:g} s"
    notes = (*found.notes, Note("ReplicaEnded", said, warning=exit_policy.code_of(seen) != 0))
    return Course((*found.replicas, again), this.restarts, found.failure, found.obstacle, notes), None


def _changed(replica: JobReplica, **fields: object) -> JobReplica:
    return replica.model_copy(update=fields)

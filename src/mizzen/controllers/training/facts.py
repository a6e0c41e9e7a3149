"""What is known when it is decided how a job set goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mizzen.controllers.training.admission_queue import Verdict
from mizzen.kinds.rules.references import Surroundings
from mizzen.kinds.schema.resource import Condition, Resource
from mizzen.kinds.training import JobProgress, TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus

WAITS = Verdict(admitted=False, reason="Starting", message="it is looked at")


@dataclass(frozen=True, slots=True)
class Saved:
    """Checkpoints of the job that are kept."""

    count: int = 0
    newest: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    version: Resource | None = None
    """The ModelVersion whose code runs, when it is there."""
    nodes: tuple[Resource, ...] = ()
    """Those of the namespace, when it asks for one."""
    there: Surroundings = field(default_factory=Surroundings)
    """What there is of what it names."""
    verdict: Verdict = WAITS
    """Whether it has its share of the machine."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Free ones, for replicas that have none yet."""
    progress: JobProgress | None = None
    """As the leader's code reported it last."""
    saved: Saved | None = None
    """None: nobody knows just now."""
    inherited: bool = False
    """What its status says was written by a plane before this one; nobody knows how long it did not run between."""
    leader_is_done: bool = False
    """The leader's command has ended, and its runner puts away what it left."""

    def child(self, name: str) -> Resource | None:
        """The Workload of this name. One that is being deleted does not count, whatever its status still says."""
        return next((child for child in self.children if child.meta.name == name and not child.deleting), None)


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of a job now, and what was told of it last."""

    facts: TrainingFacts
    told: TrainingJobStatus
    now: datetime


@dataclass(frozen=True, slots=True)
class Given(Moment):
    """Of one whose spec can be worked with."""

    spec: TrainingJobSpec
    accepted: Condition


def attempt_of(workload: Resource) -> int:
    task = workload.spec.get("task")
    attempt = task.get("attempt", 0) if isinstance(task, Mapping) else 0
    return attempt if isinstance(attempt, int) else 0


def seen_of(workload: Resource | None, attempt: int) -> ReplicaStatus | None:
    """What was reported of this attempt; None when nothing was, or only of an earlier one."""
    if workload is None or attempt_of(workload) != attempt:
        return None
    status = WorkloadStatus.of(workload)
    replica = next(iter(status.replicas), None)
    if replica is None or replica.attempt not in (None, attempt):
        return None
    current = replica.attempt == attempt or status.observed_generation == workload.meta.generation
    return replica if current else None

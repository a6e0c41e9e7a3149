"""The facts from which the controller decides how a job continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mizzen.controllers.training.admission_queue import Admission
from mizzen.kinds.rules.references import ReferencedObjects
from mizzen.kinds.schema.resource import Condition, Resource
from mizzen.kinds.training import JobProgress, TrainingJobSpec, TrainingJobStatus
from mizzen.kinds.workload import ReplicaStatus, WorkloadStatus
from mizzen.reconcile.workloads import find_child

PENDING = Admission(admitted=False, reason="Starting", message="the job is being checked")


@dataclass(frozen=True, slots=True)
class SavedCheckpoints:
    """Checkpoints of the job that are kept."""

    count: int = 0
    newest: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    resource: Resource
    children: tuple[Resource, ...] = ()
    version: Resource | None = None
    """The ModelVersion whose code runs, if it exists."""
    nodes: tuple[Resource, ...] = ()
    """The Nodes of the namespace, when the spec selects one."""
    referenced: ReferencedObjects = field(default_factory=ReferencedObjects)
    """Those referenced objects that exist."""
    admission: Admission = PENDING
    """Whether the job holds its share of the machine."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Free ports for replicas that have none yet."""
    progress: JobProgress | None = None
    """The progress that the leader's code reported last."""
    saved: SavedCheckpoints | None = None
    """None: currently unknown."""
    inherited: bool = False
    """An earlier plane wrote its status, so it is unknown how long the job did not run in between."""
    leader_is_done: bool = False
    """The leader's command has ended, and its runner is still saving the results."""

    def child(self, name: str) -> Resource | None:
        return find_child(self.children, name)


@dataclass(frozen=True, slots=True)
class JobContext:
    """The facts of a job now, and its last status."""

    facts: TrainingFacts
    last_status: TrainingJobStatus
    now: datetime


@dataclass(frozen=True, slots=True)
class AcceptedJob(JobContext):
    """The context of a job whose spec is accepted."""

    spec: TrainingJobSpec
    accepted: Condition


def attempt_of(workload: Resource) -> int:
    task = workload.spec.get("task")
    attempt = task.get("attempt", 0) if isinstance(task, Mapping) else 0
    return attempt if isinstance(attempt, int) else 0


def find_observation(workload: Resource | None, attempt: int) -> ReplicaStatus | None:
    """The reported status of this attempt; None when there is none, or only that of an earlier attempt."""
    if workload is None or attempt_of(workload) != attempt:
        return None
    status = WorkloadStatus.of(workload)
    replica = next(iter(status.replicas), None)
    if replica is None or replica.attempt not in (None, attempt):
        return None
    current = replica.attempt == attempt or status.observed_generation == workload.meta.generation
    return replica if current else None

"""What is known when it is decided how to serve an InferenceModel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.rules.archive_progress import Progress
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.workload import WorkloadStatus
from mizzen.runs.checkpoints import Checkpoint


class Traffic(Protocol):
    """What gateways know (`controllers/table_acks.py`)."""

    def reaches(self, addresses: Collection[str]) -> bool:
        """Does every gateway send to one of these?"""

    def has_left(self, addresses: Collection[str]) -> bool:
        """Does no gateway send to these any more?"""


class Scaled(Protocol):
    """What the load asks for."""

    @property
    def replicas(self) -> int:
        """So many there should be."""

    @property
    def in_flight(self) -> float: ...

    @property
    def quiet(self) -> float:
        """Seconds without need, before there are fewer."""


class Scaling(Protocol):
    """What `autoScale` comes to (`controllers/scaling`)."""

    def replicas(self, ref: Ref, spec: InferenceModelSpec, recorded: int | None, *, proven: bool) -> Scaled | None:
        """How many it should have; None: its spec says so. `recorded` is what the status says there should be,
        `proven` whether what the spec asks for has answered."""

    def forget(self, ref: Ref) -> None: ...


class Checkpoints(Protocol):
    """As `runs.checkpoints.Shelf`. Blocking. Unavailable."""

    def find(self, namespace: str, model: str, version: str, id_: str) -> Checkpoint | None: ...

    def newest(self, namespace: str, model: str, version: str, version_uid: str = "") -> Checkpoint | None: ...


@dataclass(frozen=True, slots=True)
class ServingFacts:
    resource: Resource
    target: Resource | None
    """The ModelVersion asked for."""
    serving: Resource | None
    """The ModelVersion that answers now, when it is another one, or another checkpoint of it is asked for."""
    children: tuple[Resource, ...]
    nodes: tuple[Resource, ...] = ()
    """Those of the namespace, when it asks for one."""
    fetched: Progress | None = None
    """How far the archive of a manifest is, when the version asked for is not there."""
    left: frozenset[str] = frozenset()
    """Names of children that no gateway sends to any more."""
    unreached: frozenset[str] = frozenset()
    """Names of children that some gateway does not know yet."""
    scaled: Scaled | None = None
    """None: the spec says how many replicas there should be."""
    checkpoint: Checkpoint | None = None
    """That of the version asked for, which is to be served; None: the version's own files, or it is not there."""
    serving_checkpoint: Checkpoint | None = None
    """That of `serving`."""

    @property
    def serving_version(self) -> ModelVersionSpec | None:
        """What `serving` holds, with its checkpoint."""
        if self.serving is None:
            return None
        version = ModelVersionSpec.of(self.serving)
        return (
            version
            if self.serving_checkpoint is None
            else workload_template.with_checkpoint(version, self.serving_checkpoint)
        )

    def child(self, name: str | None) -> Resource | None:
        """The Workload of this name. One that is being deleted does not count, whatever its status still says."""
        return next((child for child in self.children if child.meta.name == name and not child.deleting), None)


def is_available(workload: Resource) -> bool:
    return WorkloadStatus.of(workload).is_true("Available")

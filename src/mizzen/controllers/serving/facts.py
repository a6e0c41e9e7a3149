"""The facts from which the controller decides how to serve an InferenceModel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.rules.archive_progress import FetchProgress
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.workload import WorkloadStatus
from mizzen.runs.checkpoints import Checkpoint


class Traffic(Protocol):
    """What gateways route to (`controllers/table_acks.py`)."""

    def reaches(self, addresses: Collection[str]) -> bool:
        """Does every gateway route to at least one of these?"""

    def has_left(self, addresses: Collection[str]) -> bool:
        """Has every gateway stopped routing to these?"""


class Scale(Protocol):
    """The scale that the load needs."""

    @property
    def replicas(self) -> int:
        """The desired number."""

    @property
    def in_flight(self) -> float: ...

    @property
    def quiet(self) -> float:
        """Seconds without demand before the number shrinks."""


class Scaler(Protocol):
    """The implementation of `autoScale` (`controllers/scaling`)."""

    def replicas(self, ref: Ref, spec: InferenceModelSpec, recorded: int | None, *, proven: bool) -> Scale | None:
        """The desired scale; None: the spec sets it. `recorded` is the number in the status, `proven` whether the
        version in the spec has been ready before."""

    def forget(self, ref: Ref) -> None: ...


class Checkpoints(Protocol):
    """As `runs.checkpoints.Shelf`. Blocking. Raises Unavailable."""

    def find(self, namespace: str, model: str, version: str, id_: str) -> Checkpoint | None: ...

    def newest(self, namespace: str, model: str, version: str, version_uid: str = "") -> Checkpoint | None: ...


@dataclass(frozen=True, slots=True)
class ServingFacts:
    resource: Resource
    target: Resource | None
    """The ModelVersion that the spec means."""
    serving: Resource | None
    """The ModelVersion that is serving now, when it is another one or serves another checkpoint than the spec means."""
    children: tuple[Resource, ...]
    nodes: tuple[Resource, ...] = ()
    """The Nodes of the namespace, when the spec selects one."""
    fetched: FetchProgress | None = None
    """The progress of fetching a manifest's archive, when its version does not exist yet."""
    left: frozenset[str] = frozenset()
    """Names of children that no gateway routes to any more."""
    unreached: frozenset[str] = frozenset()
    """Names of children that some gateway does not route to yet."""
    scale: Scale | None = None
    """None: the spec sets the number of replicas."""
    checkpoint: Checkpoint | None = None
    """The checkpoint of `target` to serve; None: the version's own files, or the checkpoint does not exist."""
    serving_checkpoint: Checkpoint | None = None
    """The checkpoint of `serving`."""

    @property
    def serving_version(self) -> ModelVersionSpec | None:
        """The spec of `serving`, with its checkpoint."""
        if self.serving is None:
            return None
        version = ModelVersionSpec.of(self.serving)
        return (
            version
            if self.serving_checkpoint is None
            else workload_template.with_checkpoint(version, self.serving_checkpoint)
        )

    def child(self, name: str | None) -> Resource | None:
        """The Workload of this name. One that is being deleted does not count, whatever its status says."""
        return next((child for child in self.children if child.meta.name == name and not child.deleting), None)


def is_available(workload: Resource) -> bool:
    return WorkloadStatus.of(workload).is_true("Available")

"""The facts from which the controller decides how to serve an InferenceModel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import workload_template
from mizzen.kinds.rules.archive_progress import FetchProgress
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.reconcile.workloads import DesiredScale, find_child
from mizzen.runs.checkpoints import Checkpoint


class Scaler(Protocol):
    """The implementation of `autoScale` (`controllers/scaling`)."""

    def replicas(
        self, ref: Ref, spec: InferenceModelSpec, recorded: int | None, *, proven: bool
    ) -> DesiredScale | None:
        """The desired scale; None: the spec sets it. `recorded` is the number in the status, `proven` whether the
        version in the spec has been ready before."""

    def forget(self, ref: Ref) -> None: ...


class Checkpoints(Protocol):
    """As `runs.checkpoints.CheckpointStore`. Blocking. Raises Unavailable."""

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
    scale: DesiredScale | None = None
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
        if self.serving_checkpoint is None:
            return version
        return workload_template.with_checkpoint(version, self.serving_checkpoint)

    def child(self, name: str | None) -> Resource | None:
        return find_child(self.children, name)

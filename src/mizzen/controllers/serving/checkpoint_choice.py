"""Which checkpoint of a version an InferenceModel serves."""

from __future__ import annotations

from mizzen.controllers.serving.facts import Checkpoints
from mizzen.controllers.serving.version_resolution import takes_checkpoint
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.runs.checkpoints import Checkpoint


def choose_checkpoint(
    checkpoints: Checkpoints, resource: Resource, spec: InferenceModelSpec, version: Resource
) -> Checkpoint | None:
    """The checkpoint that the spec names, or else the newest one at the time the version is first served. That one is
    kept: continued training does not switch a serving model. None: the version's own files. Blocking."""
    if not takes_checkpoint(spec):
        return None
    if spec.checkpoint is not None:
        return find_checkpoint(checkpoints, version, spec.checkpoint)
    last_status = InferenceModelStatus.of(resource)
    kept = find_checkpoint(checkpoints, version, last_status.checkpoint) if last_status.checkpoint else None
    if kept is not None:
        return kept
    model, _, number = version.meta.name.partition(".")
    if last_status.serving_version == number and last_status.serving_checkpoint is None:
        return None  # the version's own files are serving
    return checkpoints.newest(version.meta.namespace, model, number, version.meta.uid)


def find_checkpoint(checkpoints: Checkpoints, version: Resource, id_: str) -> Checkpoint | None:
    """The checkpoint of this version, not of an earlier version with the same name. Blocking."""
    model, _, number = version.meta.name.partition(".")
    found = checkpoints.find(version.meta.namespace, model, number, id_)
    return found if found is not None and found.version_uid in ("", version.meta.uid) else None

"""Which checkpoint of a version an InferenceModel serves."""

from __future__ import annotations

from mizzen.controllers.serving.facts import Checkpoints
from mizzen.controllers.serving.version_resolution import takes_checkpoint
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus
from mizzen.runs.checkpoints import Checkpoint


def chosen(
    checkpoints: Checkpoints, resource: Resource, spec: InferenceModelSpec, version: Resource
) -> Checkpoint | None:
    """The one that its spec names. Else the newest there is when it begins to serve the version, and that one for as
    long as it does: no training that goes on switches what answers. None: the version's own files. Blocking."""
    if not takes_checkpoint(spec):
        return None
    if spec.checkpoint is not None:
        return checkpoint_of(checkpoints, version, spec.checkpoint)
    told = InferenceModelStatus.of(resource)
    kept = checkpoint_of(checkpoints, version, told.checkpoint) if told.checkpoint else None
    if kept is not None:
        return kept
    model, _, number = version.meta.name.partition(".")
    if told.serving_version == number and told.serving_checkpoint is None:
        return None  # its own files answer
    return checkpoints.newest(version.meta.namespace, model, number, version.meta.uid)


def checkpoint_of(checkpoints: Checkpoints, version: Resource, id_: str) -> Checkpoint | None:
    """Of this version, and not of an earlier one of the same name. Blocking."""
    model, _, number = version.meta.name.partition(".")
    found = checkpoints.find(version.meta.namespace, model, number, id_)
    return found if found is not None and found.version_uid in ("", version.meta.uid) else None

"""Which version an InferenceModel means, and whether it can be served here."""

from __future__ import annotations

from collections.abc import Collection

from mizzen import frameworks
from mizzen.controllers.serving.facts import ServingFacts
from mizzen.kinds.model import ModelSpec, ModelStatus, ModelVersionSpec
from mizzen.kinds.rules import placement, workload_template
from mizzen.kinds.rules.archive_progress import entry_of
from mizzen.kinds.schema.resource import Condition, Resource
from mizzen.kinds.serving import InferenceModelSpec, InferenceModelStatus, ModelFile
from mizzen.runs.checkpoints import Checkpoint

UNTRUSTED = "is not marked as trusted"
"""What a runtime says of code and pickles that nobody vouched for."""
UNTRAINED, LOST = "Untrained", "CheckpointNotFound"
"""Obstacles that go when a job saves something."""


class Obstacle(Exception):
    """Nothing is wrong with the spec, but it cannot be served here and now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def is_numbered(spec: InferenceModelSpec) -> bool:
    """A number is a version and nothing else: the model need not be asked what it means. Nor for a manifest."""
    return (spec.target_version or "").isdecimal() or entry_of(spec) is not None


def meant_version(resource: Resource, spec: InferenceModelSpec, model: Resource | None) -> str | None:
    """The version that `targetVersion` names, itself or as an alias of the model; without it, the current one.

    Of a manifest, the entry's.
    """
    entry = entry_of(spec)
    if entry is not None:
        return entry.version
    aliases = ModelSpec.readable(model.spec).aliases if model else {}
    asked = spec.target_version
    if asked is not None and asked not in aliases:
        return asked
    told = InferenceModelStatus.of(resource)
    if told.target_version and not spec.follow_alias and told.observed_generation == resource.meta.generation:
        return told.target_version
    if asked is not None:
        return aliases[asked]
    current = ModelStatus.of(model).current if model else None
    return current.version if current else None


def servable(
    facts: ServingFacts, spec: InferenceModelSpec, here: str, capabilities: Collection[str] = ()
) -> ModelVersionSpec | None:
    """The version to serve; None when there is none yet. Raises Obstacle, or Invalid when it cannot be read."""
    if spec.gpu is not None and "gpus" not in capabilities:
        raise Obstacle("NoGpu", "spec.gpu asks for a GPU, and this machine has none; leave it out to use processors")
    if spec.image:
        raise Obstacle("ContainersUnsupported", "this engine runs no container images; register a version and serve it")
    misplaced = placement.misplaced(spec, facts.nodes, here)
    if misplaced is not None:
        raise Obstacle(misplaced.reason, misplaced.message)
    if facts.fetched is not None:
        raise Obstacle({"fetching": "Fetching", "failed": "FetchFailed"}[facts.fetched.state], facts.fetched.message)
    if facts.target is None or facts.target.deleting:
        return None
    _refuse_lost_checkpoint(facts, spec)
    own = ModelVersionSpec.of(facts.target)
    _refuse_another_archive(entry_of(spec), own)
    version = own if facts.checkpoint is None else _as_saved(facts.checkpoint, own)
    if version.image is not None and not version.artifacts:
        raise Obstacle("ContainersUnsupported", f"{facts.target.ref} is a container image, and this engine runs none")
    if not version.artifacts:
        raise Obstacle("NoFiles", f"{facts.target.ref} has no files to serve; register a version with its files")
    if facts.checkpoint is None and workload_template.awaits_training(version):
        raise Obstacle(
            UNTRAINED,
            f"{facts.target.ref} is code, and no checkpoint of it was saved yet; train it: mizzen train start "
            f"{version.model_name} {version.version}",
        )
    framework = spec.framework_type or version.framework
    if frameworks.find(framework) is None:
        raise Obstacle("UnsupportedFramework", frameworks.unserved(framework))
    workload_template.entrypoint(version)
    _refuse_untrusted_packages(facts.target, own)
    return version


def awaits_trust(ready: Condition, facts: ServingFacts) -> bool:
    """Could it be served, had somebody vouched for its checkpoint?"""
    return UNTRUSTED in ready.message and facts.checkpoint is not None and not facts.checkpoint.trusted


def advised(ready: Condition, facts: ServingFacts) -> Condition:
    """With how to vouch for the checkpoint, where that is what is missing."""
    if facts.checkpoint is None or not awaits_trust(ready, facts):
        return ready
    command = f"mizzen train checkpoints {facts.checkpoint.job} --trust {facts.checkpoint.id}"
    return ready.model_copy(update={"message": f"{ready.message}; who may, does so by: {command}"})


def takes_checkpoint(spec: InferenceModelSpec) -> bool:
    """What comes from an image or a manifest is served as it is."""
    return not spec.image and not spec.manifest


def _refuse_lost_checkpoint(facts: ServingFacts, spec: InferenceModelSpec) -> None:
    if spec.checkpoint is not None and facts.checkpoint is None and takes_checkpoint(spec):
        raise Obstacle(
            LOST,
            f"there is no checkpoint '{spec.checkpoint}' of {facts.target.ref if facts.target else spec.model_name}; "
            "name another one in spec.checkpoint, or leave it out for the newest",
        )


def _as_saved(checkpoint: Checkpoint, version: ModelVersionSpec) -> ModelVersionSpec:
    served = workload_template.with_checkpoint(version, checkpoint)
    if served.entrypoint is None:
        raise Obstacle(
            "NoFiles",
            f"checkpoint {checkpoint.id} has {len(checkpoint.files)} files, and nothing tells which to load; save one "
            "file, or serve it with code: framework python and an entrypoint that loads the folder",
        )
    return served


def _refuse_untrusted_packages(target: Resource, version: ModelVersionSpec) -> None:
    """A package runs code when it is built from its sources, when it is imported, and some at every start of Python."""
    if version.requirements and not workload_template.is_trusted(version):
        raise Obstacle(
            "RequirementsUntrusted",
            f"{target.ref} requires packages, which are code, and is not marked as trusted; an admin of the model "
            f"vouches for it: mizzen version trust {version.model_name} {version.version}",
        )


def _refuse_another_archive(entry: ModelFile | None, version: ModelVersionSpec) -> None:
    """A version never changes: one that is there already must have come from the archive that is meant now."""
    wanted = entry.sha256sum if entry is not None else None
    source = version.source.sha256sum if version.source is not None else None
    if wanted is not None and wanted != source:
        it_is = f"the archive with the sha256 {source}" if source else "files that somebody registered"
        raise Obstacle(
            "VersionConflict",
            f"version {version.version} of model '{version.model_name}' was made from {it_is}, not from the one that "
            "the manifest names; versions never change, so give that one another version",
        )


def not_found(spec: InferenceModelSpec) -> str:
    if spec.target_version is None:
        return f"model '{spec.model_name}' has no current version; set spec.targetVersion to the one to serve"
    return (
        f"model '{spec.model_name}' has no version {spec.target_version}; "
        "register it, or set spec.targetVersion to a version that exists"
    )

"""Resolution of the version that an InferenceModel means, and of whether it can be served here."""

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
"""A runtime reports code and pickles that are not trusted with these words."""
UNTRAINED, CHECKPOINT_LOST = "Untrained", "CheckpointNotFound"
"""Reasons that pass when a job saves a checkpoint."""


class ServingObstacle(Exception):
    """The spec is valid, but it cannot be served here now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def is_numbered(spec: InferenceModelSpec) -> bool:
    """A number can only be a version, so the model need not be loaded to resolve it. The same holds for a manifest."""
    return (spec.target_version or "").isdecimal() or entry_of(spec) is not None


def resolve_version(resource: Resource, spec: InferenceModelSpec, model: Resource | None) -> str | None:
    """The version that `targetVersion` names, directly or as an alias of the model; without it, the current version.

    For a manifest, the version of its entry.
    """
    entry = entry_of(spec)
    if entry is not None:
        return entry.version
    aliases = ModelSpec.readable(model.spec).aliases if model else {}
    target = spec.target_version
    if target is not None and target not in aliases:
        return target
    last_status = InferenceModelStatus.of(resource)
    same_spec = last_status.observed_generation == resource.meta.generation
    if last_status.target_version and same_spec and not spec.follow_alias:
        return last_status.target_version
    if target is not None:
        return aliases[target]
    current = ModelStatus.of(model).current if model else None
    return current.version if current else None


def find_servable(
    facts: ServingFacts, spec: InferenceModelSpec, here: str, capabilities: Collection[str] = ()
) -> ModelVersionSpec | None:
    """The version to serve; None when it does not exist yet. Raises ServingObstacle, or Invalid for an invalid one."""
    if spec.gpu is not None and "gpus" not in capabilities:
        raise ServingObstacle(
            "NoGpu", "spec.gpu requests a GPU, but this machine has none; remove spec.gpu to run on CPUs"
        )
    if spec.image:
        raise ServingObstacle(
            "ContainersUnsupported", "this engine runs no container images; register a version and serve it"
        )
    misplaced = placement.find_obstacle(spec, facts.nodes, here)
    if misplaced is not None:
        raise ServingObstacle(misplaced.reason, misplaced.message)
    if facts.fetched is not None:
        reason = {"fetching": "Fetching", "failed": "FetchFailed"}[facts.fetched.state]
        raise ServingObstacle(reason, facts.fetched.message)
    if facts.target is None or facts.target.deleting:
        return None
    _refuse_lost_checkpoint(facts, spec)
    own = ModelVersionSpec.of(facts.target)
    _refuse_another_archive(entry_of(spec), own)
    version = own if facts.checkpoint is None else _with_checkpoint(facts.checkpoint, own)
    if version.image is not None and not version.artifacts:
        raise ServingObstacle(
            "ContainersUnsupported", f"{facts.target.ref} is a container image; this engine runs none"
        )
    if not version.artifacts:
        raise ServingObstacle("NoFiles", f"{facts.target.ref} has no files to serve; register a version with its files")
    if facts.checkpoint is None and workload_template.awaits_training(version):
        raise ServingObstacle(
            UNTRAINED,
            f"{facts.target.ref} is code that has no saved checkpoint yet; train it: mizzen train start "
            f"{version.model_name} {version.version}",
        )
    framework = spec.framework_type or version.framework
    if frameworks.find(framework) is None:
        raise ServingObstacle("UnsupportedFramework", frameworks.explain_unserved(framework))
    workload_template.entrypoint(version)
    _refuse_untrusted_packages(facts.target, own)
    return version


def awaits_trust(ready: Condition, facts: ServingFacts) -> bool:
    """Whether it would be served if its checkpoint were trusted."""
    return UNTRUSTED in ready.message and facts.checkpoint is not None and not facts.checkpoint.trusted


def add_trust_advice(ready: Condition, facts: ServingFacts) -> Condition:
    """The condition, with the command that trusts the checkpoint if only that is missing."""
    if facts.checkpoint is None or not awaits_trust(ready, facts):
        return ready
    command = f"mizzen train checkpoints {facts.checkpoint.job} --trust {facts.checkpoint.id}"
    return ready.model_copy(update={"message": f"{ready.message}; an admin of the model can trust it: {command}"})


def takes_checkpoint(spec: InferenceModelSpec) -> bool:
    """An image or a manifest is served without a checkpoint."""
    return not spec.image and not spec.manifest


def _refuse_lost_checkpoint(facts: ServingFacts, spec: InferenceModelSpec) -> None:
    if spec.checkpoint is not None and facts.checkpoint is None and takes_checkpoint(spec):
        raise ServingObstacle(
            CHECKPOINT_LOST,
            f"there is no checkpoint '{spec.checkpoint}' of {facts.target.ref if facts.target else spec.model_name}; "
            "set spec.checkpoint to another one, or remove it to use the newest",
        )


def _with_checkpoint(checkpoint: Checkpoint, version: ModelVersionSpec) -> ModelVersionSpec:
    served = workload_template.with_checkpoint(version, checkpoint)
    if served.entrypoint is None:
        raise ServingObstacle(
            "NoFiles",
            f"checkpoint {checkpoint.id} has {len(checkpoint.files)} files, and it is unclear which one to load; save "
            "a single file, or serve it with code: framework python and an entrypoint that loads the folder",
        )
    return served


def _refuse_untrusted_packages(target: Resource, version: ModelVersionSpec) -> None:
    """A package runs code when it is built from source and when it is imported; some do at every start of Python."""
    if version.requirements and not workload_template.is_trusted(version):
        raise ServingObstacle(
            "RequirementsUntrusted",
            f"{target.ref} requires packages, which are code, and is not marked as trusted; an admin of the model "
            f"can trust it: mizzen version trust {version.model_name} {version.version}",
        )


def _refuse_another_archive(entry: ModelFile | None, version: ModelVersionSpec) -> None:
    """A version never changes, so an existing one must have come from the archive that the manifest names now."""
    wanted = entry.sha256sum if entry is not None else None
    source = version.source.sha256sum if version.source is not None else None
    if wanted is not None and wanted != source:
        origin = f"the archive with sha256 {source}" if source else "registered files"
        raise ServingObstacle(
            "VersionConflict",
            f"version {version.version} of model '{version.model_name}' was made from {origin}, not from the archive "
            "in the manifest; versions never change, so give that archive another version",
        )


def explain_not_found(spec: InferenceModelSpec) -> str:
    if spec.target_version is None:
        return f"model '{spec.model_name}' has no current version; set spec.targetVersion to the one to serve"
    return (
        f"model '{spec.model_name}' has no version {spec.target_version}; "
        "register it, or set spec.targetVersion to a version that exists"
    )

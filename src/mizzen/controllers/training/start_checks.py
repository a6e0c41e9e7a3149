"""The checks before a job starts: missing objects, missing commands and untrusted code. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mizzen import frameworks
from mizzen.controllers.training.facts import TrainingFacts
from mizzen.controllers.training.replicas import TrainingReplica, command_of, is_trusted, replicas_of
from mizzen.errors import Invalid
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import placement, workload_template
from mizzen.kinds.training import TrainingJobSpec


@dataclass(frozen=True, slots=True)
class StartObstacle:
    reason: str
    message: str
    final: bool = False
    """It will not resolve by itself: the job fails."""


def find_obstacle(facts: TrainingFacts, spec: TrainingJobSpec, here: str) -> StartObstacle | None:
    """Why the job cannot be started; None when it can, as soon as it is admitted."""
    misplaced = placement.find_obstacle(spec, facts.nodes, here)
    if misplaced is not None:
        return StartObstacle(misplaced.reason, misplaced.message)
    if facts.version is None or facts.version.deleting:
        if spec.version is not None:
            missing = f"model '{spec.model_name}' has no version {spec.version}; the job starts once it is registered"
            return StartObstacle("VersionNotFound", missing)
        return _check_command(spec, None)
    try:
        version = ModelVersionSpec.of(facts.version)
    except Invalid as fault:
        return StartObstacle("InvalidSpec", fault.message)
    return _check_trust(facts, version) or _check_command(spec, version)


def _check_trust(facts: TrainingFacts, version: ModelVersionSpec) -> StartObstacle | None:
    if workload_template.is_trusted(version) or (not version.artifacts and is_trusted(facts.resource)):
        return None
    advice = "it has no files that could be trusted, so an admin of the model must start the job"
    if version.artifacts:
        advice = f"an admin of the model can trust it: mizzen version trust {version.model_name} {version.version}"
    code = f"version {version.version} of model '{version.model_name}' is code and is not marked as trusted"
    return StartObstacle("CodeUntrusted", f"{code}; {advice}", final=True)


def _check_command(spec: TrainingJobSpec, version: ModelVersionSpec | None) -> StartObstacle | None:
    for replica in replicas_of(spec):
        if command_of(spec, replica, version):
            continue
        if _has_image(spec, replica, version):
            message = "this engine runs no container images; set spec.command, or register a version with its code"
            return StartObstacle("ContainersUnsupported", message)
        cause = "the job names no version"
        if version is not None:
            cause = f"the version has no {frameworks.trainer(version.framework)}"
        message = f"{replica.name} has no command to run: {cause}, and spec.command is not set"
        return StartObstacle("NothingToRun", message, final=True)
    return None


def _has_image(spec: TrainingJobSpec, replica: TrainingReplica, version: ModelVersionSpec | None) -> bool:
    container = replica.container
    of_version = version.image if version is not None and not version.artifacts else None
    return bool(spec.image or (container is not None and container.image) or of_version)

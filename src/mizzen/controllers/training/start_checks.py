"""What keeps a job set from being started: what is missing, and what nobody vouched for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mizzen import frameworks
from mizzen.controllers.training.facts import TrainingFacts
from mizzen.controllers.training.replicas import Replica, command_of, is_trusted, replicas_of
from mizzen.errors import Invalid
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.rules import placement, workload_template
from mizzen.kinds.training import TrainingJobSpec


@dataclass(frozen=True, slots=True)
class Blocked:
    reason: str
    message: str
    final: bool = False
    """It will not pass by itself: the job has failed."""


def blocked(facts: TrainingFacts, spec: TrainingJobSpec, here: str) -> Blocked | None:
    """None when it can be started, as soon as it has its share of the machine."""
    misplaced = placement.misplaced(spec, facts.nodes, here)
    if misplaced is not None:
        return Blocked(misplaced.reason, misplaced.message)
    if facts.version is None or facts.version.deleting:
        if spec.version is not None:
            missing = f"model '{spec.model_name}' has no version {spec.version}; the job starts once it is registered"
            return Blocked("VersionNotFound", missing)
        return _nothing_to_run(spec, None)
    try:
        version = ModelVersionSpec.of(facts.version)
    except Invalid as fault:
        return Blocked("InvalidSpec", fault.message)
    return _untrusted(facts, version) or _nothing_to_run(spec, version)


def _untrusted(facts: TrainingFacts, version: ModelVersionSpec) -> Blocked | None:
    if workload_template.is_trusted(version) or (not version.artifacts and is_trusted(facts.resource)):
        return None
    vouch = (
        f"an admin of the model vouches for it: mizzen version trust {version.model_name} {version.version}"
        if version.artifacts
        else "it has no files that anybody could have vouched for, so an admin of the model has to start the job"
    )
    message = f"version {version.version} of model '{version.model_name}' is code, and not marked as trusted; {vouch}"
    return Blocked("CodeUntrusted", message, final=True)


def _nothing_to_run(spec: TrainingJobSpec, version: ModelVersionSpec | None) -> Blocked | None:
    for replica in replicas_of(spec):
        if command_of(spec, replica, version):
            continue
        if _image(spec, replica, version):
            message = "this engine runs no container images; give spec.command, or register a version with its code"
            return Blocked("ContainersUnsupported", message)
        what = (
            f"the version has no {frameworks.trainer(version.framework)}"
            if version is not None
            else "there is no version"
        )
        message = f"nothing says what {replica.name} runs: {what}, and there is no spec.command"
        return Blocked("NothingToRun", message, final=True)
    return None


def _image(spec: TrainingJobSpec, replica: Replica, version: ModelVersionSpec | None) -> bool:
    container = replica.container
    of_version = version.image if version is not None and not version.artifacts else None
    return bool(spec.image or (container is not None and container.image) or of_version)

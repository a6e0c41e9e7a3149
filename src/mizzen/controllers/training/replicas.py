"""The replicas of a job, and the Workload of each: command, environment, addresses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mizzen import frameworks
from mizzen.controllers.training.admission_queue import ResourceRequest, sum_of
from mizzen.controllers.training.facts import AcceptedJob
from mizzen.kinds.model import ModelVersionSpec
from mizzen.kinds.parts import env
from mizzen.kinds.parts.env import OWN_VARIABLES
from mizzen.kinds.parts.pods import Container
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text.quantities import ResourceRequirements, amount
from mizzen.kinds.training import (
    LEADERS,
    REPLICA_TYPES,
    TRUSTED_ANNOTATION,
    ReplicaSpec,
    RestartPolicy,
    TrainingJobSpec,
)
from mizzen.kinds.workload import MODEL_LABEL

HOST = "127.0.0.1"
_MAIN = ("tensorflow", "pytorch")
"""The names of the training containers in a TFJob and a PyTorchJob."""
_GPU = "nvidia.com/gpu"
_DATASET_KEYS = {
    "MIZZEN_DATASET_ACCESS_KEY_ID": "accessKeyId",
    "MIZZEN_DATASET_SECRET_ACCESS_KEY": "secretAccessKey",
}
"""Variables for the runner, which does not pass them on to the command."""


@dataclass(frozen=True, slots=True)
class TrainingReplica:
    type: str
    """As written in the replica map."""
    index: int
    spec: ReplicaSpec

    @property
    def name(self) -> str:
        return f"{self.type.lower()}-{self.index}"

    @property
    def container(self) -> Container | None:
        """The container that trains."""
        containers = self.spec.template.spec.containers if self.spec.template is not None else ()
        return next((each for each in containers if each.name in _MAIN), next(iter(containers), None))

    def workload(self, job: Resource) -> str:
        return f"{job.meta.name}.{self.name}"


def replicas_of(spec: TrainingJobSpec) -> tuple[TrainingReplica, ...]:
    """The leader first."""
    fields = spec.replica_map
    types = [type_ for type_ in (*LEADERS, *REPLICA_TYPES) if type_ in fields]
    return tuple(
        TrainingReplica(type_, index, fields[type_])
        for type_ in dict.fromkeys(types)
        for index in range(fields[type_].replicas)
    )


def replicas_for_success(spec: TrainingJobSpec) -> frozenset[str]:
    """Names of the replicas whose success makes the job succeed: the leader, or the leader and all workers."""
    replicas = replicas_of(spec)
    workers = [each for each in replicas if each.type == "Worker"] if spec.success_policy == "AllWorkers" else []
    return frozenset(each.name for each in (*replicas[:1], *workers))


def policy_of(spec: TrainingJobSpec, replica: TrainingReplica) -> RestartPolicy:
    return replica.spec.restart_policy or spec.restart_policy


def command_of(spec: TrainingJobSpec, replica: TrainingReplica, version: ModelVersionSpec | None) -> tuple[str, ...]:
    """Empty: no command is configured."""
    container = replica.container
    own = (*container.command, *container.args) if container is not None and container.command else ()
    script = script_of(version) if version is not None else ""
    return spec.command or own or (("python", script) if script else ())


def resource_request_of(spec: TrainingJobSpec, whole: ResourceRequest) -> ResourceRequest:
    """The request of all replicas together, on a machine of this size."""
    requests, defaulted = [], 0
    for replica in replicas_of(spec):
        resources, gpu = limits_of(spec, replica)
        cpu = amount(resources.cpu) if resources is not None and resources.cpu is not None else None
        memory = amount(resources.memory) if resources is not None and resources.memory is not None else 0.0
        requests.append(ResourceRequest(cpu or 0.0, int(memory), gpu or 0.0))
        defaulted += cpu is None
    return sum_of(requests, defaulted, whole)


def limits_of(spec: TrainingJobSpec, replica: TrainingReplica) -> tuple[ResourceRequirements | None, float | None]:
    """The limits of a replica, from its type, its container, or the job."""
    container = _container_limits(replica.container)
    resources = replica.spec.resources or _resources(container) or spec.resources
    gpu = replica.spec.gpu if replica.spec.gpu is not None else _amount(container.get(_GPU)) or spec.gpu
    return resources, gpu


def workload_of(accepted: AcceptedJob, replica: TrainingReplica, *, attempt: int) -> Resource:
    """The Workload of one attempt: plain data without empty fields, so that new defaults do not replace it."""
    job, spec, version = accepted.facts.resource, accepted.spec, accepted.facts.version
    code = ModelVersionSpec.of(version) if version is not None else None
    resources, gpu = limits_of(spec, replica)
    plain, secret = _environment(spec, replica)
    packages = {"python": code.python, "requirements": list(code.requirements)} if code is not None else {}
    container = replica.container
    optional = {
        "env": plain,
        "secretEnv": secret,
        "environment": {name: value for name, value in packages.items() if value},
        "artifacts": [artifact.wire() for artifact in code.artifacts] if code is not None else [],
        "resources": resources.wire() if resources is not None else {},
        "gpu": gpu,
        "workingDir": container.working_dir if container is not None else None,
    }
    task = {**_task(job, spec, version, code), **_addresses(spec, accepted.last_status.ports)}
    fields = {
        "purpose": "train",
        "command": list(command_of(spec, replica, code)),
        "task": {**task, "replica": replica.name, "attempt": attempt},
        "replicas": 1,
        "restart": "Never",
        **{field: value for field, value in optional.items() if value},
    }
    meta = Meta(replica.workload(job), job.meta.namespace, labels={MODEL_LABEL: spec.model_name})
    return Resource("Workload", meta, fields)


def is_trusted(job: Resource) -> bool:
    """Whether a user that may trust code started the job."""
    return job.meta.annotations.get(TRUSTED_ANNOTATION) == "true"


def _task(
    job: Resource, spec: TrainingJobSpec, version: Resource | None, code: ModelVersionSpec | None
) -> dict[str, Any]:
    """The part of the task that is the same for all replicas."""
    git = code.code.git if code is not None and code.code is not None and not code.artifacts else None
    optional = {
        "version": spec.version,
        "versionUid": version.meta.uid if version is not None else "",
        "git": {"repo": git.repo, "commit": git.commit} if git is not None else None,
        "dataset": spec.dataset.wire() if spec.dataset is not None else None,
        "hyperparameters": dict(spec.hyperparameters),
        "framework": spec.framework_type or (code.framework if code is not None else ""),
        "trusted": is_trusted(job),
    }
    return {
        "job": job.meta.name,
        "jobUid": job.meta.uid,
        "model": spec.model_name,
        **{field: value for field, value in optional.items() if value},
    }


def _addresses(spec: TrainingJobSpec, ports: Mapping[str, int]) -> dict[str, Any]:
    """The addresses of all replicas. A single replica needs none."""
    found: dict[str, list[str]] = {}
    for replica in replicas_of(spec):
        if replica.name in ports:
            found.setdefault(replica.type.lower(), []).append(f"{HOST}:{ports[replica.name]}")
    return {"cluster": found} if found else {}


def _environment(spec: TrainingJobSpec, replica: TrainingReplica) -> tuple[dict[str, str], dict[str, Any]]:
    """Values, and references to secrets. Those of the container override those of the job."""
    plain: dict[str, str] = env.plain_values(spec.env)
    secret: dict[str, Any] = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    container = replica.container
    for variable in container.env if container is not None else ():
        if variable.name in OWN_VARIABLES:
            continue
        ref = variable.value_from.secret_key_ref if variable.value_from is not None else None
        plain.pop(variable.name, None)
        secret.pop(variable.name, None)
        if ref is not None:
            secret[variable.name] = ref.wire()
        else:
            plain[variable.name] = variable.value or ""
    s3 = spec.dataset.s3 if spec.dataset is not None else None
    if s3 is not None and s3.secret is not None:
        secret |= {name: {"name": s3.secret, "key": key} for name, key in _DATASET_KEYS.items()}
        plain = {name: value for name, value in plain.items() if name not in _DATASET_KEYS}
    return plain, secret


def script_of(version: ModelVersionSpec) -> str:
    """The training script; empty: the version has no such file. Code in git is assumed to have it."""
    script = frameworks.trainer(version.framework)
    in_git = not version.artifacts and version.code is not None and version.code.git is not None
    return script if in_git or any(artifact.path == script for artifact in version.artifacts) else ""


def _container_limits(container: Container | None) -> Mapping[str, str]:
    if container is None or container.resources is None:
        return {}
    return {**container.resources.requests, **container.resources.limits}


def _resources(container: Mapping[str, str]) -> ResourceRequirements | None:
    """The amounts that can be parsed; Kubernetes has some notations that we do not support."""
    known = {name: container[name] for name in ("cpu", "memory") if _amount(container.get(name))}
    return ResourceRequirements.model_validate(known) if known else None


def _amount(text: str | None) -> float | None:
    try:
        return amount(text) if text else None
    except ValueError:
        return None

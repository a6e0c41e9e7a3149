"""The Workload that serves a version for an InferenceModel, and how it differs from others. Pure.

The whole spec of a Workload except the number of replicas is its template. Another version or another template is
another Workload, whose processes run next to those that serve. No change stops the old processes before the new ones
are ready. The exception: if only data differ, and the running processes can reload, their Workload is updated
(`in_place`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from mizzen.errors import Invalid
from mizzen.kinds.model import Artifact, ModelVersionSpec, version_object_name
from mizzen.kinds.parts import env
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.serving import InferenceModelSpec, workload_name
from mizzen.kinds.workload import MODEL_LABEL, RELOAD_REFUSED, WorkloadStatus


class ServableCheckpoint(Protocol):
    """The parts of a checkpoint that serving needs (`runs/checkpoints.py`)."""

    @property
    def files(self) -> Iterable[CheckpointFile]: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def framework(self) -> str: ...
    @property
    def entrypoint(self) -> str: ...


class CheckpointFile(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...


_HASH_LENGTH = 8
_CODE = (".py", ".pyc", ".so", ".pyd", ".zip")


def workload_of(
    resource: Resource, spec: InferenceModelSpec, version: ModelVersionSpec, there: Iterable[Resource]
) -> Resource:
    """The Workload that serves this version according to the spec; one of `there` if it does so already.

    Raises Invalid if the version does not say what to load.
    """
    wanted = _spec(spec, version)
    first = workload_name(resource.meta.name, version.version)
    again = f"{first}-{_hash(template(wanted))}"
    present = {child.meta.name: child for child in there}
    same = (name for name in (first, again) if name in present and serves(present[name], wanted))
    name = next(same, again if first in present else first)
    meta = Meta(name, resource.meta.namespace, labels={MODEL_LABEL: spec.model_name})
    return Resource("Workload", meta, _with_began(wanted, present.get(name)))


def in_place(answers: Resource, wanted: Resource) -> Resource | None:
    """The Workload that serves now, with the spec of `wanted`; None if that needs new processes.

    Replicas can reload data, but not code: the code of both must be the same.
    """
    meta = replace(wanted.meta, name=answers.meta.name)
    if answers.spec.get("began") and serves(answers, wanted.spec):  # it is loading them already, or has them
        return Resource("Workload", meta, _with_began(wanted.spec, answers))
    ready = [replica for replica in WorkloadStatus.of(answers).replicas if replica.state == "ready"]
    before, now = ({**template(each.spec), "artifacts": _code(each.spec)} for each in (answers, wanted))
    if before != now or not ready or not all(replica.reloads for replica in ready) or refusal(answers):
        return None
    began = answers.spec.get("began") or files_digest(answers.spec.get("artifacts", ()))
    return Resource("Workload", meta, {**wanted.spec, "began": began})


def serves(workload: Resource, wanted: Mapping[str, Any]) -> bool:
    """Whether the Workload runs what is wanted, or can."""
    return not workload.deleting and template(workload.spec) == template(wanted) and not refusal(workload)


def refusal(workload: Resource) -> str:
    """Why its replicas cannot load the files of its spec; empty if they can."""
    status = WorkloadStatus.of(workload)
    if status.observed_generation != workload.meta.generation:
        return ""
    return next((replica.message for replica in status.replicas if replica.reason == RELOAD_REFUSED), "")


def template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Everything that a process starts with."""
    return {field: value for field, value in spec.items() if field not in ("replicas", "began")}


def files_digest(artifacts: Iterable[Mapping[str, Any]]) -> str:
    """The digest of a set of artifacts in their wire form."""
    listing = "".join(f"{artifact['path']}\0{artifact['digest']}\0" for artifact in artifacts)
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def has_files(workload: Resource, digest: str) -> bool:
    """Whether all ready replicas serve these files. Replicas that do not report their files count, too."""
    replicas = WorkloadStatus.of(workload).replicas
    return all(replica.files in ("", digest) for replica in replicas if replica.state == "ready")


def entrypoint(version: ModelVersionSpec) -> str:
    """The path of the model among the artifacts; with a single file, that file. Raises Invalid if it is ambiguous."""
    if version.entrypoint is not None:
        return version.entrypoint
    if len(version.artifacts) != 1:
        name = version_object_name(version.model_name, version.version)
        raise Invalid(
            f"ModelVersion/{name} has {len(version.artifacts)} files and no spec.entrypoint that says which to load"
        )
    return version.artifacts[0].path


def with_checkpoint(version: ModelVersionSpec, saved: ServableCheckpoint) -> ModelVersionSpec:
    """The version with a checkpoint applied: its files, overlaid by those of the checkpoint.

    Python code with an entrypoint loads the checkpoint itself. Otherwise the checkpoint is the model and declares its
    framework; if it does not, the framework of the version applies.
    """
    files = [
        Artifact(path=file.path, digest=file.digest, size=file.size, trusted=saved.trusted) for file in saved.files
    ]
    places = {file.path for file in files}
    under = [artifact for artifact in version.artifacts if not _is_covered(artifact.path, places)]
    changed: dict[str, Any] = {"artifacts": (*under, *files)}
    if version.framework != "python" or version.entrypoint is None:
        single = files[0].path if len(files) == 1 else None
        changed["entrypoint"] = saved.entrypoint or single
        changed["framework"] = saved.framework or version.framework
    return version.model_copy(update=changed)


def awaits_training(version: ModelVersionSpec) -> bool:
    """Whether the version is code without a model to load, so that only checkpoints of jobs can be served."""
    code = any(artifact.path.endswith(".py") for artifact in version.artifacts)
    named = version.entrypoint or ""
    return code and (not named or (version.framework != "python" and named.endswith(".py")))


def _is_covered(path: str, places: set[str]) -> bool:
    """Whether another file has this path, a parent of it, or a path below it."""
    above = {"/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)}
    return bool(above & places) or any(place.startswith(f"{path}/") for place in places)


def is_trusted(version: ModelVersionSpec) -> bool:
    """Whether all its files are trusted. A version without files is not."""
    return bool(version.artifacts) and all(artifact.trusted for artifact in version.artifacts)


def _spec(spec: InferenceModelSpec, version: ModelVersionSpec) -> dict[str, Any]:
    # Plain data without empty fields, not a typed WorkloadSpec: new defaults must not replace running Workloads.
    secrets = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    resources = spec.resources.wire() if spec.resources is not None else {}
    environment = {"python": version.python, "requirements": list(version.requirements)}
    given = {
        "env": env.plain_values(spec.env),
        "secretEnv": secrets,
        "resources": resources,
        "environment": {name: value for name, value in environment.items() if value},
        "gpu": spec.gpu,
    }
    return {
        "purpose": "serve",
        "command": list(_command(spec, version)),
        "artifacts": [artifact.wire() for artifact in version.artifacts],
        "replicas": spec.replicas,
        "restart": "Always",
        **{field: values for field, values in given.items() if values},
    }


def _command(spec: InferenceModelSpec, version: ModelVersionSpec) -> Iterable[str]:
    yield from ("python", "-m", "mizzen.runtime", "--framework", spec.framework_type or version.framework)
    yield from ("--entrypoint", entrypoint(version))
    if is_trusted(version):
        yield "--trusted"
    if spec.batching is not None:
        yield "--batch"
    for option, tensors in (("--inputs", spec.inputs), ("--outputs", spec.outputs)):
        if tensors:
            yield from (option, json.dumps([tensor.wire() for tensor in tensors]))


def _with_began(wanted: Mapping[str, Any], there: Resource | None) -> dict[str, Any]:
    began = there.spec.get("began") if there is not None and template(there.spec) == template(wanted) else None
    return {**wanted, "began": began} if began else dict(wanted)


def _code(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Path and digest of the files that are imported or unpickled once at startup."""
    loaded = {*spec["command"]}
    return sorted(
        (artifact["path"], artifact["digest"])
        for artifact in spec.get("artifacts", ())
        if artifact["path"].endswith(_CODE) or artifact["path"] in loaded
    )


def _hash(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]

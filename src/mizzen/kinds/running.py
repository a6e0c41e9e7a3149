"""What a served version runs as: the Workload of an InferenceModel, and how to tell it from others. Pure.

All of a Workload's spec but the number of replicas is its template. Another version or another template is another
Workload, with processes beside those that serve: no change of a server ends what answers before something else does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from mizzen.errors import Invalid
from mizzen.kinds.meta import Meta, Resource
from mizzen.kinds.model import ModelVersionSpec, version_object_name
from mizzen.kinds.parts import env
from mizzen.kinds.serving import InferenceModelSpec, workload_name
from mizzen.kinds.workload import MODEL_LABEL

_HASH_LENGTH = 8


def workload_of(
    resource: Resource, spec: InferenceModelSpec, version: ModelVersionSpec, there: Iterable[Resource]
) -> Resource:
    """The Workload that serves this version as the spec says; the one among `there` that does so, if there is one.

    Invalid when the version does not tell what to load.
    """
    wanted = _spec(spec, version)
    first = workload_name(resource.meta.name, version.version)
    again = f"{first}-{_hash(template(wanted))}"
    present = {child.meta.name: child for child in there}
    same = (
        name
        for name in (first, again)
        if name in present and not present[name].deleting and template(present[name].spec) == template(wanted)
    )
    name = next(same, again if first in present else first)
    return Resource("Workload", Meta(name, resource.meta.namespace, labels={MODEL_LABEL: spec.model_name}), wanted)


def template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """All that a process is started with."""
    return {field: value for field, value in spec.items() if field != "replicas"}


def entrypoint(version: ModelVersionSpec) -> str:
    """Where the model is in its artifacts. With a single file there is nothing to choose."""
    if version.entrypoint is not None:
        return version.entrypoint
    if len(version.artifacts) != 1:
        name = version_object_name(version.model_name, version.version)
        raise Invalid(
            f"ModelVersion/{name} has {len(version.artifacts)} files and no spec.entrypoint to tell which to load"
        )
    return version.artifacts[0].path


def _spec(spec: InferenceModelSpec, version: ModelVersionSpec) -> dict[str, Any]:
    # Plain data, not a typed WorkloadSpec, and nothing that says nothing: new defaults must not replace what runs.
    secrets = {name: ref.wire() for name, ref in env.secret_values(spec.env).items()}
    resources = spec.resources.wire() if spec.resources is not None else {}
    given = {"env": env.plain_values(spec.env), "secretEnv": secrets, "resources": resources}
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
    # Without files there is nothing that anybody could have vouched for.
    if version.artifacts and all(artifact.trusted for artifact in version.artifacts):
        yield "--trusted"
    if spec.batching is not None:
        yield "--batch"
    for option, tensors in (("--inputs", spec.inputs), ("--outputs", spec.outputs)):
        if tensors:
            yield from (option, json.dumps([tensor.wire() for tensor in tensors]))


def _hash(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]

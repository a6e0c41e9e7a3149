"""Containers of a graph as Workloads: commands that answer HTTP on a port they are given. Pure.

All of a Workload's spec but the number of replicas is its template. Another template is another Workload, beside the
one that serves: no change of a graph ends what answers before something else does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from mizzen.kinds.graph.callees import GraphContainer, containers_of
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.parts.pods import Container, ContainerResources
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.findings import Warn
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text.quantities import Resources
from mizzen.kinds.workload import MODEL_LABEL

_HASH_LENGTH: Final = 8
_LONGEST: Final = 63 - _HASH_LENGTH - 1
"""Of a container's part in the name of its Workload, so that a hash finds room behind it."""


def wanted_workloads(graph: Resource, spec: MLGraphSpec, there: Iterable[Resource]) -> dict[str, Resource]:
    """The Workload of each container that can be started here, by the container's name within the graph.

    Of those that are there already, the one that runs the same.
    """
    present = {child.meta.name: child for child in there}
    found = {}
    for name, container in containers_of(spec).items():
        if container.command:
            wanted = workload_spec(container)
            meta = Meta(
                _name(graph, name, wanted, present), graph.meta.namespace, labels={MODEL_LABEL: graph.meta.name}
            )
            found[name] = Resource("Workload", meta, wanted)
    return found


def workload_spec(container: GraphContainer) -> dict[str, Any]:
    # Plain data, and nothing that says nothing: new defaults must not replace what runs.
    said = container.container
    plain, secret = _environment(said)
    given = {
        "env": plain,
        "secretEnv": secret,
        "resources": _resources(said.resources),
        "protocol": container.protocol,
        "workingDir": said.working_dir,
    }
    return {
        "purpose": "answer",
        "command": list(container.command),
        "model": said.name,
        "replicas": container.replicas,
        "restart": "Always",
        **{field: value for field, value in given.items() if value},
    }


def unset_variables(spec: MLGraphSpec) -> Iterator[Warn]:
    """Variables that take their values from what only a cluster has."""
    for container in containers_of(spec).values():
        for variable in container.container.env:
            source = variable.value_from
            if container.command and source is not None and source.secret_key_ref is None:
                at = f"container '{container.container.name}'"
                yield Warn(at, f"variable '{variable.name}' is not set: this engine knows secrets only")


def _environment(container: Container) -> tuple[dict[str, str], dict[str, Any]]:
    """Of two variables with one name the last counts, as in Kubernetes."""
    plain: dict[str, str] = {}
    secret: dict[str, Any] = {}
    for variable in container.env:
        plain.pop(variable.name, None)
        secret.pop(variable.name, None)
        source = variable.value_from.secret_key_ref if variable.value_from is not None else None
        if source is not None:
            secret[variable.name] = source.wire()
        elif variable.value_from is None:
            plain[variable.name] = variable.value or ""
    return plain, secret


def _resources(resources: ContainerResources | None) -> Mapping[str, Any]:
    """The limits that are kept here; what only a cluster can read is left to it."""
    limits = resources.limits if resources is not None else {}
    found: dict[str, Any] = {}
    for name in ("cpu", "memory"):
        if name in limits:
            try:
                found |= Resources.model_validate({name: limits[name]}).wire()
            except ValidationError:
                continue
    return found


def _name(graph: Resource, container: str, wanted: Mapping[str, Any], present: Mapping[str, Resource]) -> str:
    """`<graph>.<container>`: a graph's name holds no dot, so no two of them share one."""
    short = container if len(container) <= _LONGEST else f"{container[: _LONGEST - 9].rstrip('-.')}-{_hash(container)}"
    first = f"{graph.meta.name}.{short}"
    again = f"{first}-{_hash(workload_template.template(wanted))}"
    same = (name for name in (first, again) if name in present and workload_template.serves(present[name], wanted))
    return next(same, again if first in present else first)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]

"""Containers of a graph as Workloads: commands that serve HTTP on an assigned port. Pure.

A Workload's spec without the number of replicas is its template. A changed template gets a second Workload next to the
serving one: a change of a graph never ends a serving Workload before its replacement is ready.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from mizzen.kinds.graph.callees import GraphContainer, containers_of
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.parts.pods import Container, ContainerResources
from mizzen.kinds.rules import workload_template
from mizzen.kinds.schema.findings import Warn
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.text.quantities import ResourceRequirements
from mizzen.kinds.workload import MODEL_LABEL

_HASH_LENGTH: Final = 8
_MAX_LENGTH: Final = 63 - _HASH_LENGTH - 1
"""The maximum length of the container's part in a Workload's name, which leaves room for a hash."""


def wanted_workloads(graph: Resource, spec: MLGraphSpec, there: Iterable[Resource]) -> dict[str, Resource]:
    """The Workload of each container that can be started here, by the container's name within the graph.

    An existing Workload with the same template keeps its name.
    """
    present = {child.meta.name: child for child in there}
    found = {}
    for name, container in containers_of(spec).items():
        if container.command:
            wanted = build_workload_spec(container)
            own_name = _choose_name(graph, name, wanted, present)
            meta = Meta(own_name, graph.meta.namespace, labels={MODEL_LABEL: graph.meta.name})
            found[name] = Resource("Workload", meta, wanted)
    return found


def build_workload_spec(container: GraphContainer) -> dict[str, Any]:
    # Plain data without empty fields: new defaults must not replace running Workloads.
    template = container.container
    plain, secret = _environment(template)
    optional = {
        "env": plain,
        "secretEnv": secret,
        "resources": _resources(template.resources),
        "protocol": container.protocol,
        "workingDir": template.working_dir,
    }
    return {
        "purpose": "answer",
        "command": list(container.command),
        "model": template.name,
        "replicas": container.replicas,
        "restart": "Always",
        **{field: value for field, value in optional.items() if value},
    }


def warn_unset_variables(spec: MLGraphSpec) -> Iterator[Warn]:
    """Warnings about variables whose values come from sources that only a cluster has."""
    for container in containers_of(spec).values():
        for variable in container.container.env:
            source = variable.value_from
            if container.command and source is not None and source.secret_key_ref is None:
                at = f"container '{container.container.name}'"
                yield Warn(at, f"variable '{variable.name}' is not set: this engine only supports values from secrets")


def _environment(container: Container) -> tuple[dict[str, str], dict[str, Any]]:
    """Of two variables with the same name the last one wins, as in Kubernetes."""
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
    """The limits that are enforced here. Those that only a cluster understands are skipped."""
    limits = resources.limits if resources is not None else {}
    found: dict[str, Any] = {}
    for name in (name for name in ("cpu", "memory") if name in limits):
        with suppress(ValidationError):
            found |= ResourceRequirements.model_validate({name: limits[name]}).wire()
    return found


def _choose_name(graph: Resource, container: str, wanted: Mapping[str, Any], present: Mapping[str, Resource]) -> str:
    """`<graph>.<container>`: a graph's name contains no dot, so no two graphs share a Workload's name."""
    if len(container) > _MAX_LENGTH:
        container = f"{container[: _MAX_LENGTH - 9].rstrip('-.')}-{_hash(container)}"
    first = f"{graph.meta.name}.{container}"
    again = f"{first}-{_hash(workload_template.template(wanted))}"
    same = (name for name in (first, again) if name in present and workload_template.serves(present[name], wanted))
    return next(same, again if first in present else first)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_HASH_LENGTH]

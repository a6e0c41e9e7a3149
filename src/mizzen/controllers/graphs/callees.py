"""The objects that a graph calls by name: whether they are available, and which of them are graphs with own callees.

A name resolves as in the Table (`graph/compile/table.py`): to an accepted graph, to a server, or to a model's current
version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mizzen.errors import Invalid
from mizzen.graph.compile.graph import NestingFault, find_nesting_faults, spec_of
from mizzen.kinds.graph.callees import names_called
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.kinds.text.references import ModelReference


@dataclass(frozen=True, slots=True)
class CalledObjects:
    objects: Mapping[Ref, Resource] = field(default_factory=dict)
    """Called Models, InferenceModels and MLGraphs, and the graphs that those call."""
    servers: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)
    """InferenceModels, by the name of the model that they serve."""

    def find(self, kind: str, name: str, namespace: str) -> Resource | None:
        found = self.objects.get(Ref(kind, name, namespace))
        return None if found is None or found.deleting else found


def calls_of_graph(graph: Resource) -> tuple[str, ...]:
    """Names that it calls now or may soon: those in the latest spec and in the serving one."""
    return tuple(dict.fromkeys((*calls_of_wanted(graph), *calls_of_served(graph))))


def calls_of_wanted(graph: Resource) -> tuple[str, ...]:
    try:
        return names_called(MLGraphSpec.of(graph))
    except Invalid:
        return ()


def calls_of_served(graph: Resource) -> tuple[str, ...]:
    served = spec_of(MLGraphStatus.of(graph).serving)
    return names_called(served) if served is not None else ()


def find_nesting_fault(graph: Resource, called_objects: CalledObjects) -> NestingFault | None:
    """Why its nesting of graphs is not acceptable: a cycle, or too deep; None when it is.

    Both specs of a called graph count, the serving one and the latest: either may be serving when this graph takes
    over. So if two graphs are changed at the same time to call each other, neither takes over.
    """
    graphs = {
        ref.name: calls_of_graph(one)
        for ref, one in called_objects.objects.items()
        if ref.kind == "MLGraph" and ref != graph.ref and not one.deleting
    }
    return find_nesting_faults({graph.meta.name: calls_of_wanted(graph), **graphs}).get(graph.meta.name)


def explain_unavailable(reference: ModelReference, namespace: str, called_objects: CalledObjects) -> str:
    """Why the reference is not available, as text for users; empty when it is available."""
    name = reference.name
    graph = called_objects.find("MLGraph", name, namespace)
    if graph is not None and MLGraphStatus.of(graph).serving is not None:
        return _explain_graph(reference, graph)
    server = called_objects.find("InferenceModel", name, namespace)
    if server is not None and InferenceModelStatus.of(server).serving_version is not None:
        return _explain_server(reference, server, called_objects)
    reason = _explain_model(reference, namespace, called_objects)
    if reason is not None:
        return reason
    starting = server or graph
    return _explain_not_ready(starting) if starting is not None else f"nothing called '{name}' is served here"


def _explain_graph(reference: ModelReference, graph: Resource) -> str:
    status = MLGraphStatus.of(graph)
    generation = str(status.serving.generation) if status.serving is not None else ""
    if reference.alias:
        return f"graph '{reference.name}' has no alias '{reference.alias}'; graphs cannot have aliases"
    if reference.version not in ("", generation):
        return f"graph '{reference.name}' serves generation {generation}, not {reference.version}"
    return "" if status.is_true("Ready") else _explain_not_ready(graph)


def _explain_server(reference: ModelReference, server: Resource, called_objects: CalledObjects) -> str:
    """A server named like its model leaves the model's other versions and aliases callable."""
    serves = InferenceModelStatus.of(server).serving_version
    own = server.spec.get("modelName") == reference.name
    if reference.version in ("", serves) and not reference.alias:
        return _explain_servers((server,))
    reason = _explain_model(reference, server.meta.namespace, called_objects) if own else None
    return f"'{reference.name}' serves version {serves}, not {reference}" if reason is None else reason


def _explain_model(reference: ModelReference, namespace: str, called_objects: CalledObjects) -> str | None:
    """None: no model with a current version has this name."""
    model = called_objects.find("Model", reference.name, namespace)
    status = ModelStatus.of(model) if model is not None else None
    if status is not None and status.alias_of:
        return _explain_alias(reference, status.alias_of, namespace, called_objects)
    if status is None or status.current is None:
        return None
    if reference.alias and reference.alias not in status.aliases:
        return f"'{reference.name}' has no alias '{reference.alias}'"
    version = reference.version or status.aliases.get(reference.alias) or status.current.version
    return _explain_version(reference.name, version, called_objects)


def _explain_alias(reference: ModelReference, first: str, namespace: str, called_objects: CalledObjects) -> str | None:
    try:
        target = references.parse_unaliased(first)
    except ValueError:
        return None
    found = called_objects.find("Model", target.name, namespace)
    if found is None or ModelStatus.of(found).alias_of:
        return None
    if not target.version:
        return _explain_model(
            ModelReference(target.name, reference.version, reference.alias), namespace, called_objects
        )
    if reference.alias or reference.version not in ("", target.version):
        return f"'{reference.name}' is a second name of '{target}', so '{reference}' does not exist"
    return _explain_version(target.name, target.version, called_objects)


def _explain_version(model: str, version: str, called_objects: CalledObjects) -> str:
    serving = tuple(
        server
        for server in called_objects.servers.get(model, ())
        if not server.deleting and InferenceModelStatus.of(server).serving_version == version
    )
    return _explain_servers(serving) if serving else f"version {version} of '{model}' is not served"


def _explain_servers(servers: tuple[Resource, ...]) -> str:
    """Why none of these servers of one version is available."""
    for server in servers:
        status = InferenceModelStatus.of(server)
        if status.ready_replicas > 0 or status.is_true("Ready"):
            return ""
    return _explain_not_ready(servers[0])


def _explain_not_ready(resource: Resource) -> str:
    conditions = [Status.of(resource).condition(type_) for type_ in ("Ready", "Accepted")]
    reasons = (one.message or one.reason for one in conditions if one is not None and not one.true)
    return f"'{resource.meta.name}' is not ready: {next(reasons, 'its status is not known yet')}"

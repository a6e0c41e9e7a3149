"""What a graph calls by name: objects of its namespace, whether they answer, and which of them are graphs that call on.

A name stands for what the Table makes it stand for (`graph/compile/table.py`): a graph that was accepted, a server,
or a model by its current version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mizzen.errors import Invalid
from mizzen.graph.compile.graph import Misnested, graphs_in, spec_of
from mizzen.kinds.graph.callees import names_called
from mizzen.kinds.graph.spec import MLGraphSpec, MLGraphStatus
from mizzen.kinds.model import ModelStatus
from mizzen.kinds.schema.resource import Ref, Resource, Status
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.kinds.text import references
from mizzen.kinds.text.references import Reference


@dataclass(frozen=True, slots=True)
class Neighbours:
    objects: Mapping[Ref, Resource] = field(default_factory=dict)
    """By what they are: Models, InferenceModels and MLGraphs that are called, and graphs that those call."""
    servers: Mapping[str, tuple[Resource, ...]] = field(default_factory=dict)
    """InferenceModels by the name of the model they serve."""

    def find(self, kind: str, name: str, namespace: str) -> Resource | None:
        found = self.objects.get(Ref(kind, name, namespace))
        return None if found is None or found.deleting else found


def calls_of_graph(graph: Resource) -> tuple[str, ...]:
    """Names that it calls, or may soon: by the spec that is asked for, and by the one that answers."""
    return tuple(dict.fromkeys((*calls_of_wanted(graph), *calls_of_served(graph))))


def calls_of_wanted(graph: Resource) -> tuple[str, ...]:
    try:
        return names_called(MLGraphSpec.of(graph))
    except Invalid:
        return ()


def calls_of_served(graph: Resource) -> tuple[str, ...]:
    served = spec_of(MLGraphStatus.of(graph).serving)
    return names_called(served) if served is not None else ()


def misnested(graph: Resource, neighbours: Neighbours) -> Misnested | None:
    """Why its spec cannot be accepted among the graphs that it calls.

    Of those both specs count, the one that answers and the one that is asked for: either may be the one that is called
    when this one takes over. So of two that are changed at once to call each other, none takes over.
    """
    graphs = {
        ref.name: calls_of_graph(one)
        for ref, one in neighbours.objects.items()
        if ref.kind == "MLGraph" and ref != graph.ref and not one.deleting
    }
    return graphs_in({graph.meta.name: calls_of_wanted(graph), **graphs}).get(graph.meta.name)


def why_silent(reference: Reference, namespace: str, neighbours: Neighbours) -> str:
    """Why what is meant does not answer, in a person's words; empty when it does."""
    name = reference.name
    graph = neighbours.find("MLGraph", name, namespace)
    if graph is not None and MLGraphStatus.of(graph).serving is not None:
        return _graph(reference, graph)
    server = neighbours.find("InferenceModel", name, namespace)
    if server is not None and InferenceModelStatus.of(server).serving_version is not None:
        return _server(reference, server, neighbours)
    said = _model(reference, namespace, neighbours)
    if said is not None:
        return said
    starting = server or graph
    return _not_ready(starting) if starting is not None else f"nothing called '{name}' is served here"


def _graph(reference: Reference, graph: Resource) -> str:
    told = MLGraphStatus.of(graph)
    generation = str(told.serving.generation) if told.serving is not None else ""
    if reference.alias:
        return f"graph '{reference.name}' has no alias '{reference.alias}', as graphs have none"
    if reference.version not in ("", generation):
        return f"graph '{reference.name}' answers by its generation {generation}, not {reference.version}"
    return "" if told.is_true("Ready") else _not_ready(graph)


def _server(reference: Reference, server: Resource, neighbours: Neighbours) -> str:
    """Of its own model, a server leaves the versions and aliases callable."""
    serves = InferenceModelStatus.of(server).serving_version
    own = server.spec.get("modelName") == reference.name
    if reference.version in ("", serves) and not reference.alias:
        return _silent((server,))
    said = _model(reference, server.meta.namespace, neighbours) if own else None
    return f"'{reference.name}' serves version {serves}, not {reference}" if said is None else said


def _model(reference: Reference, namespace: str, neighbours: Neighbours) -> str | None:
    """None: no model answers to this name."""
    model = neighbours.find("Model", reference.name, namespace)
    told = ModelStatus.of(model) if model is not None else None
    if told is not None and told.alias_of:
        return _second_name(reference, told.alias_of, namespace, neighbours)
    if told is None or told.current is None:
        return None
    if reference.alias and reference.alias not in told.aliases:
        return f"'{reference.name}' has no alias '{reference.alias}'"
    version = reference.version or told.aliases.get(reference.alias) or told.current.version
    return _version(reference.name, version, neighbours)


def _second_name(reference: Reference, first: str, namespace: str, neighbours: Neighbours) -> str | None:
    try:
        target = references.parse_unaliased(first)
    except ValueError:
        return None
    found = neighbours.find("Model", target.name, namespace)
    if found is None or ModelStatus.of(found).alias_of:
        return None
    if not target.version:
        return _model(Reference(target.name, reference.version, reference.alias), namespace, neighbours)
    if reference.alias or reference.version not in ("", target.version):
        return f"'{reference.name}' stands for '{target}', not for '{reference}'"
    return _version(target.name, target.version, neighbours)


def _version(model: str, version: str, neighbours: Neighbours) -> str:
    serving = tuple(
        server
        for server in neighbours.servers.get(model, ())
        if not server.deleting and InferenceModelStatus.of(server).serving_version == version
    )
    return _silent(serving) if serving else f"version {version} of '{model}' is not served"


def _silent(servers: tuple[Resource, ...]) -> str:
    """Of servers of one version: why none of them answers."""
    for server in servers:
        told = InferenceModelStatus.of(server)
        if told.ready_replicas > 0 or told.is_true("Ready"):
            return ""
    return _not_ready(servers[0])


def _not_ready(resource: Resource) -> str:
    status = Status.of(resource)
    told = [status.condition(type_) for type_ in ("Ready", "Accepted")]
    why = next(
        (one.message or one.reason for one in told if one is not None and not one.true), "nothing is known of it yet"
    )
    return f"'{resource.meta.name}' is not ready: {why}"

"""The import of files: finds the graphs of other platforms in them, and converts them to MLGraphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mizzen.errors import Fault
from mizzen.importers import kserve, seldon
from mizzen.importers.dns_labels import label
from mizzen.importers.model_names import GraphContext, NameRegistry
from mizzen.importers.notes import CannotImport, ImportNote, ImportNotes
from mizzen.kinds.schema.resource import API_VERSION, DEFAULT_NAMESPACE
from mizzen.manifests import canonical, lint, reader

GRAPH: Final = "InferenceGraph"
DEPLOYMENT: Final = "SeldonDeployment"
_API_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    GRAPH: ("serving.kserve.io/v1alpha1",),
    DEPLOYMENT: tuple(f"machinelearning.seldon.io/{version}" for version in ("v1", "v1alpha3", "v1alpha2")),
}
_MODELS: Final = ("InferenceService", "TrainedModel", "Model", "ServingRuntime", "ClusterServingRuntime")


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object of a file, of any kind."""

    source: str
    line: int
    data: Mapping[str, Any]
    fault: str = ""
    """Why it cannot be read."""

    @property
    def kind(self) -> str:
        return str(self.data.get("kind") or "object")

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata = self.data.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def name(self) -> str:
        """The name of the MLGraph; empty if it has none."""
        name = self.metadata.get("name")
        return label(name, "graph") if isinstance(name, str) and name else ""

    @property
    def namespace(self) -> str:
        namespace = self.metadata.get("namespace")
        return namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE

    @property
    def place(self) -> str:
        where = f"{self.source}:{self.line}"
        return f"{where}: {self.kind}/{self.metadata.get('name') or '?'}" if self.data else where

    @property
    def importable(self) -> bool:
        return self.data.get("apiVersion") in _API_VERSIONS.get(self.kind, ())


@dataclass(frozen=True, slots=True)
class ImportResult:
    manifests: tuple[Mapping[str, Any], ...]
    """MLGraphs that `lint` accepts, in the order of their sources."""
    notes: tuple[ImportNote, ...]


def read(place: str | os.PathLike[str]) -> list[SourceObject]:
    """The objects of a file, of all manifests in a folder, or of stdin (`-`). Raises NotFound if there are none."""
    return reader.read_place(place, read_text)


def read_text(text: str | bytes, source: str = "text") -> list[SourceObject]:
    """The objects of YAML or JSON. An unreadable text becomes an object with that fault."""
    return [SourceObject(source, one.line, one.value, one.fault) for one in reader.load_objects(text)]


def import_objects(written: Sequence[SourceObject]) -> ImportResult:
    """The result for all objects together, since graphs and models share names. Notes list what cannot be imported."""
    served = NameRegistry({identity for one in written for identity in _identities(one)})
    manifests: list[Mapping[str, Any]] = []
    notes: list[ImportNote] = []
    for one in written:
        own_notes = ImportNotes(one.place)
        try:
            made = _convert(one, served, own_notes)
            _demand_accepted(made)
            manifests += made
        except CannotImport as error:
            own_notes.refuse(error.faults)
        notes += own_notes
    return ImportResult(tuple(manifests), (*notes, *_repeat_notes(manifests)))


def _convert(one: SourceObject, served: NameRegistry, notes: ImportNotes) -> list[dict[str, Any]]:
    if one.fault:
        raise CannotImport(Fault("", one.fault))
    if not one.importable:
        notes.add("", _reason_to_ignore(one))
        return []
    if not one.name:
        raise CannotImport(Fault("metadata.name", "required"))
    if one.name != one.metadata["name"]:
        notes.add("metadata.name", f"'{one.metadata['name']}' is renamed to '{one.name}'")
    caller = GraphContext(one.name, one.namespace, served, notes)
    if one.kind == GRAPH:
        graph = kserve.convert(one.data.get("spec"), caller)
        return [_manifest(one, one.name, graph.spec, {}, graph.annotations)]
    graphs = seldon.convert(one.data.get("spec"), caller)
    return [_manifest(one, each.name, each.spec, each.labels, each.annotations) for each in graphs]


def _reason_to_ignore(one: SourceObject) -> str:
    known = _API_VERSIONS.get(one.kind)
    if known:
        return f"unknown apiVersion {one.data.get('apiVersion')!r}; known are {', '.join(known)}; it is left out"
    if one.data.get("apiVersion") == API_VERSION:
        return "this is already a Mizzen object; it is left out"
    if one.kind in _MODELS:
        return "models are not imported: serve one with 'mizzen deploy PATH --name NAME'; it is left out"
    return f"only {GRAPH} and {DEPLOYMENT} are imported; it is left out"


def _identities(one: SourceObject) -> Iterator[tuple[str, str]]:
    if not one.importable or not one.name:
        return
    found: Callable[[str, Any], tuple[str, ...]] = seldon.names if one.kind == DEPLOYMENT else lambda name, _: (name,)
    try:
        yield from ((one.namespace, name) for name in found(one.name, one.data.get("spec")))
    except CannotImport:
        return  # the import itself reports why


def _manifest(
    one: SourceObject, name: str, spec: dict[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if one.metadata.get("namespace"):
        metadata["namespace"] = one.metadata["namespace"]
    for field, more in (("labels", labels), ("annotations", annotations)):
        there = one.metadata.get(field) or {}
        if not isinstance(there, Mapping):
            raise CannotImport(Fault(f"metadata.{field}", "must be an object of texts"))
        kept = {key: value for key, value in there.items() if key not in canonical.NOT_WRITTEN} | dict(more)
        if kept:
            metadata[field] = kept
    return {"apiVersion": API_VERSION, "kind": "MLGraph", "metadata": metadata, "spec": spec}


def _demand_accepted(manifests: list[dict[str, Any]]) -> None:
    """Manifests of an import can be applied: faults of the source are reported here, not by a plane."""
    checked = lint.lint(reader.read_data(manifests), lint.CAPABILITIES["cluster"])
    faults = [Fault("", f"the result would be rejected: {fault}") for each in checked for fault in each.faults]
    if faults:
        raise CannotImport(*faults)


def _repeat_notes(manifests: Sequence[Mapping[str, Any]]) -> Iterator[ImportNote]:
    seen: set[tuple[str, str]] = set()
    for manifest in manifests:
        metadata = manifest["metadata"]
        identity = (str(metadata.get("namespace") or DEFAULT_NAMESPACE), metadata["name"])
        if identity in seen:
            yield ImportNote(
                f"MLGraph/{metadata['name']}", "", "two graphs have this name; applied in this order, the last one wins"
            )
        seen.add(identity)

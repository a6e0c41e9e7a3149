"""What imports are asked for, and what of them is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from mizzen.importers import files
from mizzen.importers.files import ImportResult
from mizzen.manifests import lint, reader

SELDON = "machinelearning.seldon.io/v1"


def imported(text: str) -> ImportResult:
    """Of YAML; all that is made is accepted, also as it is printed."""
    found = files.import_objects(files.read_text(text, "file.yaml"))
    printed = yaml.safe_dump_all(found.manifests, sort_keys=False)
    for documents in (reader.read_data(found.manifests), reader.read_text(printed)):
        for home in lint.CAPABILITIES.values():
            assert [one.faults for one in lint.lint(documents, home) if one.faults] == []
    return found


def graph(nodes: str, name: str = "g", more: str = "") -> str:
    """An InferenceGraph; `nodes` in YAML's flow style, `more` beside them."""
    head = f"apiVersion: serving.kserve.io/v1alpha1\nkind: InferenceGraph\nmetadata: {{name: {name}}}\n"
    return f"{head}spec: {{nodes: {{{nodes}}}{', ' if more else ''}{more}}}\n"


def deployment(predictors: str, name: str = "d", more: str = "") -> str:
    """A SeldonDeployment, likewise."""
    head = f"apiVersion: {SELDON}\nkind: SeldonDeployment\nmetadata: {{name: {name}}}\n"
    return f"{head}spec: {{predictors: [{predictors}]{', ' if more else ''}{more}}}\n"


def predictor(tree: str, containers: tuple[str, ...] = (), more: str = "name: main") -> str:
    pods = ", ".join(f"{{name: {name}, image: 'x/{name}:1'}}" for name in containers)
    return f"{{{more}, componentSpecs: [{{spec: {{containers: [{pods}]}}}}], graph: {tree}}}"


def dag(found: ImportResult, index: int = 0) -> dict[str, dict[str, Any]]:
    """The nodes of one manifest by name, without their names."""
    nodes = found.manifests[index]["spec"]["dag"]
    return {node["name"]: {key: value for key, value in node.items() if key != "name"} for node in nodes}


def arrows(found: ImportResult, index: int = 0) -> dict[str, list[str]]:
    return {name: node.get("dependencies", []) for name, node in dag(found, index).items()}


def calls(name: str, *dependencies: str, skip: bool = False) -> Mapping[str, Any]:
    """A node that calls a model."""
    behind = {"dependencies": list(dependencies)} if dependencies else {}
    return {**behind, "implementation": {"kfservice": name}, **({"onError": "skip"} if skip else {})}


def notes(found: ImportResult) -> list[str]:
    """Without where they were written."""
    return [": ".join(part for part in (note.path, note.message) if part) for note in found.notes]


def refused(found: ImportResult) -> list[str]:
    """Why nothing was made."""
    assert found.manifests == ()
    return [f"{note.path}: {note.message}" for note in found.notes if note.refused]

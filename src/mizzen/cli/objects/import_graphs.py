"""import: graphs that were written for others, as manifests of Mizzen."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.objects.apply import Files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


def import_(
    files: Files,
    form: Annotated[Form, typer.Option("--output", "-o", help="How to print the manifests.")] = Form.YAML,
) -> None:
    """Turn KServe InferenceGraphs and SeldonDeployments into MLGraphs, without a plane.

    The manifests go to stdout, and notes on what differs, what is left out and what is to be served to stderr. Exit
    code 0 when something could be turned, 1 when nothing could.

    \b
    Example:
      mizzen import -f inferencegraph.yaml > graph.yaml
      mizzen import -f - < seldondeployments.yaml
      mizzen import -f manifests/ -o json
    """
    from mizzen.importers import files as importing

    found = importing.imported([one for file in files for one in importing.read(file)])
    for note in found.notes:
        output.note(f"{'error' if note.refused else 'note'}: {note}")
    if not found.manifests:
        raise errors.Invalid(
            "nothing was turned into an MLGraph", hint="InferenceGraph and SeldonDeployment are; see what is said above"
        )
    if form is Form.JSON:
        output.data(_one(found.manifests), output.Format.JSON)
        return
    for index, manifest in enumerate(found.manifests):
        if index:
            output.say("---")
        output.data(manifest, output.Format.YAML)


def _one(manifests: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What `apply` reads as all of them."""
    if len(manifests) == 1:
        return manifests[0]
    return {"apiVersion": "v1", "kind": "List", "items": list(manifests)}

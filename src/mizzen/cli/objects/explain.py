"""explain: what a kind's fields mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from mizzen.cli import completions, output
from mizzen.cli.output import Format
from mizzen.cli.session import Output


def explain(
    path: Annotated[
        str,
        typer.Argument(metavar="KIND[.FIELD…]", help="A kind, or a field of it.", autocompletion=completions.fields),
    ],
    form: Output = Format.TABLE,
) -> None:
    """Say what a kind is for and which fields it has, or what one field means.

    \b
    Example:
      mizzen explain inferencemodel
      mizzen explain inferencemodel.batching.batchSize
      mizzen explain mlgraph.spec.dag.route
    """
    from mizzen.kinds.schema import explain as schema_explain

    found = schema_explain.told(path)
    if form is Format.TABLE:
        for line in _lines(found):
            output.say(line)
    else:
        output.data(found, form)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield found["name"] + (f"  <{_type(found)}>" if "type" in found else "")
    for key in ("description", "about"):
        if key in found:
            yield ""
            yield from (f"  {line}".rstrip() for line in found[key].splitlines())
    if found["fields"]:
        yield ""
        yield "FIELDS"
    for field in found["fields"]:
        yield f"  {field['name']}  <{_type(field)}>"
        if "description" in field:
            yield f"      {field['description']}"


def _type(field: dict[str, Any]) -> str:
    if field["required"]:
        return f"{field['type']}, required"
    return f"{field['type']}, default {json.dumps(field['default'])}" if "default" in field else str(field["type"])

"""`mizzen explain`: descriptions of kinds and their fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from mizzen.cli import completions
from mizzen.cli.output import Printer
from mizzen.cli.parameters import argument


def explain(
    path: Annotated[str, argument("KIND[.FIELD…]", "Kind, or a field of it.", completions.fields)],
    printer: Printer,
) -> None:
    """Describe a kind and its fields, or one field.

    \b
    Example:
      mizzen explain inferencemodel
      mizzen explain inferencemodel.batching.batchSize
      mizzen explain mlgraph.spec.dag.route
    """
    from mizzen.kinds.schema import explain as schema_explain

    found = schema_explain.explain(path)
    printer.write_lines(found, _lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield found["name"] + (f"  <{_format_type(found)}>" if "type" in found else "")
    for key in ("description", "about"):
        if key in found:
            yield ""
            yield from (f"  {line}".rstrip() for line in found[key].splitlines())
    if found["fields"]:
        yield ""
        yield "FIELDS"
    for field in found["fields"]:
        yield f"  {field['name']}  <{_format_type(field)}>"
        if "description" in field:
            yield f"      {field['description']}"


def _format_type(field: dict[str, Any]) -> str:
    if field["required"]:
        return f"{field['type']}, required"
    return f"{field['type']}, default {json.dumps(field['default'])}" if "default" in field else str(field["type"])

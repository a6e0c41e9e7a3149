"""The columns that `names_and_columns` declares, with types and descriptions, and the value of a cell. Pure.

The tables that kubectl prints, and the CRDs, are built from it. The command line reads columns on its own
(`cli/objects/columns.py`), since it works without the specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.crd_schema import schema_of
from mizzen.kinds.schema.names_and_columns import PrinterColumn

CONDITION = "condition:"


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    column: PrinterColumn
    type: Literal["string", "integer"]
    about: str

    @property
    def title(self) -> str:
        """As APIs spell it; kubectl prints it in capitals."""
        return self.column.title.capitalize()


@cache
def columns_of(kind: Kind) -> tuple[ColumnSchema, ...]:
    fields = {"spec": schema_of(kind.spec), "status": schema_of(kind.status)}
    return tuple(_describe(column, fields) for column in kind.columns)


def cell(item: Mapping[str, Any], path: str) -> str | int | None:
    """The value that an object in its wire form shows in a column; None if it has none."""
    if path.startswith(CONDITION):
        return _condition_text(item, path.removeprefix(CONDITION))
    found: Any = item
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    if isinstance(found, list):
        return ",".join(map(str, found))
    return found if found is None or isinstance(found, int) else str(found)


def _describe(column: PrinterColumn, fields: dict[str, dict[str, Any]]) -> ColumnSchema:
    if column.path.startswith(CONDITION):
        return ColumnSchema(column, "string", f"The condition {column.path.removeprefix(CONDITION)}.")
    top, *steps = column.path.split(".")
    schema = fields[top]
    for step in steps:
        schema = schema.get("properties", {}).get(step, {})
    shown: Literal["string", "integer"] = "integer" if schema.get("type") == "integer" else "string"
    return ColumnSchema(column, shown, schema.get("description", ""))


def _condition_text(item: Mapping[str, Any], wanted: str) -> str | None:
    """`True`, or the reason why it is not: users look for the reason next."""
    status = item.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    for condition in conditions or ():
        if condition.get("type") == wanted:
            holds = condition.get("status") == "True"
            return "True" if holds else str(condition.get("reason") or condition.get("status"))
    return None

"""Tables of objects: the columns of each kind and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mizzen.cli import output

if TYPE_CHECKING:
    from mizzen.kinds.schema.names_and_columns import KindNames


@dataclass(frozen=True, slots=True)
class Columns:
    kind: KindNames
    everywhere: bool = False
    """Show all namespaces, with a column for the namespace."""
    wide: bool = False
    """Add the wide columns, labels, and who wrote the object last."""

    @property
    def titles(self) -> tuple[str, ...]:
        titles = (column.title for column in self.kind.columns if not column.wide)
        more = (*(column.title for column in self.kind.columns if column.wide), "WRITTEN-BY", "LABELS")
        return (*(("NAMESPACE",) if self.everywhere else ()), "NAME", *titles, "AGE", *(more if self.wide else ()))

    def row(self, item: Mapping[str, Any]) -> tuple[str, ...]:
        metadata = item["metadata"]
        values = (column_value(item, column.path) for column in self.kind.columns if not column.wide)
        space = (str(metadata.get("namespace", "")),) if self.everywhere else ()
        shown = (*space, str(metadata["name"]), *values, output.format_age(metadata.get("creationTimestamp")))
        if not self.wide:
            return shown
        more = (column_value(item, column.path) for column in self.kind.columns if column.wide)
        return (*shown, *more, _author_of(metadata), _format_labels(metadata))


def column_value(item: Mapping[str, Any], path: str) -> str:
    """The value of a column: a dotted path into the object, or `condition:TYPE`."""
    if path.startswith("condition:"):
        return _condition_value(item, path.removeprefix("condition:"))
    found: Any = item
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, list):
        return ",".join(map(str, found))
    return "" if found is None else str(found)


def _condition_value(item: Mapping[str, Any], wanted: str) -> str:
    conditions = item.get("status", {}).get("conditions") or ()
    found = next((condition for condition in conditions if condition["type"] == wanted), None)
    if found is None:
        return ""
    return "True" if found["status"] == "True" else str(found.get("reason") or found["status"])


def _author_of(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get("mizzen.dev/actor", ""))


def _format_labels(metadata: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={item}" for key, item in sorted((metadata.get("labels") or {}).items()))

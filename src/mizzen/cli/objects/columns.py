"""Tables of objects: which columns a kind has, and what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mizzen.cli import output

if TYPE_CHECKING:
    from mizzen.kinds.schema.kind_names import Called


@dataclass(frozen=True, slots=True)
class Columns:
    kind: Called
    everywhere: bool = False
    """Of every namespace, so it is told."""
    wide: bool = False
    """With more columns, labels, and who wrote it last."""

    @property
    def titles(self) -> tuple[str, ...]:
        titles = (column.title for column in self.kind.columns if not column.wide)
        more = (*(column.title for column in self.kind.columns if column.wide), "WRITTEN-BY", "LABELS")
        return (*(("NAMESPACE",) if self.everywhere else ()), "NAME", *titles, "AGE", *(more if self.wide else ()))

    def row(self, item: Mapping[str, Any]) -> tuple[str, ...]:
        metadata = item["metadata"]
        values = (value(item, column.path) for column in self.kind.columns if not column.wide)
        space = (str(metadata.get("namespace", "")),) if self.everywhere else ()
        shown = (*space, str(metadata["name"]), *values, output.age(metadata.get("creationTimestamp")))
        if not self.wide:
            return shown
        more = (value(item, column.path) for column in self.kind.columns if column.wide)
        return (*shown, *more, _author(metadata), _labels(metadata))


def value(item: Mapping[str, Any], path: str) -> str:
    """What a column shows: dots into the object, or the word of a condition."""
    if path.startswith("condition:"):
        return _condition(item, path.removeprefix("condition:"))
    found: Any = item
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, list):
        return ",".join(map(str, found))
    return "" if found is None else str(found)


def _condition(item: Mapping[str, Any], wanted: str) -> str:
    conditions = item.get("status", {}).get("conditions") or ()
    found = next((condition for condition in conditions if condition["type"] == wanted), None)
    if found is None:
        return ""
    return "True" if found["status"] == "True" else str(found.get("reason") or found["status"])


def _author(metadata: Mapping[str, Any]) -> str:
    return str((metadata.get("annotations") or {}).get("mizzen.dev/actor", ""))


def _labels(metadata: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={item}" for key, item in sorted((metadata.get("labels") or {}).items()))

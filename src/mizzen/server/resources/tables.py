"""Objects as `meta.k8s.io/v1` Tables, which kubectl prints: the server chooses the columns. Pure.

The columns of `kinds/schema/names_and_columns.py` stand between NAME and AGE. The wide ones and the last writer follow,
for `-o wide`. Objects are in wire form, so that Kubernetes' own kinds can be shown as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema import column_values
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION
from mizzen.server.resources import durations

META = "meta.k8s.io/v1"
Wire: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = str | int | None
Include = Literal["None", "Metadata", "Object"]
"""The content of a row besides its cells. kubectl asks for the whole object if it sorts or filters by itself."""

INCLUDES: tuple[Include, ...] = ("None", "Metadata", "Object")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its definition for the client, and its cell for an object at a time."""

    name: str
    cell: Callable[[Wire, datetime], Cell]
    about: str
    type: str = "string"
    format: str = ""
    wide: bool = False

    def wire(self) -> dict[str, Any]:
        return {
            "name": self.name, "type": self.type, "format": self.format, "description": self.about,
            "priority": int(self.wide),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The table of one kind for one request."""

    definitions: tuple[TableColumn, ...]
    include: Include = "Metadata"

    def render_list(self, listing: Wire, now: datetime) -> dict[str, Any]:
        """Renders a list in wire form, with its continue token."""
        return self._table(listing["items"], listing["metadata"], now)

    def render_object(self, item: Wire, now: datetime, *, head: bool = True) -> dict[str, Any]:
        """Renders one object. In a watch only the first table has a `head` with the columns."""
        version = item["metadata"].get("resourceVersion", "")
        return self._table((item,), {"resourceVersion": version}, now, head=head)

    def _table(self, items: Iterable[Wire], metadata: Wire, now: datetime, *, head: bool = True) -> dict[str, Any]:
        return {
            "kind": "Table",
            "apiVersion": META,
            "metadata": dict(metadata),
            "columnDefinitions": [definition.wire() for definition in self.definitions] if head else [],
            "rows": [self._row(item, now) for item in items],
        }

    def _row(self, item: Wire, now: datetime) -> dict[str, Any]:
        cells = [definition.cell(item, now) for definition in self.definitions]
        match self.include:
            case "None":
                return {"cells": cells}
            case "Object":
                return {"cells": cells, "object": dict(item)}
        return {"cells": cells, "object": _partial(item)}


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """Renders only the metadata of objects."""

    include: Literal["Outline"] = "Outline"

    def render_list(self, listing: Wire, _now: datetime) -> dict[str, Any]:
        return {
            "kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": dict(listing["metadata"]),
            "items": [_partial(item) for item in listing["items"]],
        }  # fmt: skip

    def render_object(self, item: Wire, _now: datetime, *, head: bool = True) -> dict[str, Any]:
        """`head` is for tables."""
        return _partial(item)


def layout_of(kind: Kind, include: Include = "Metadata") -> TableLayout:
    own = CORE.get(kind.name)
    if own is not None:
        return TableLayout(own, include)
    definitions = [_definition(column) for column in column_values.columns_of(kind)]
    wide = [definition for definition in definitions if definition.wide]
    return TableLayout((NAME, *(one for one in definitions if not one.wide), AGE, *wide, WRITER), include)


def _partial(item: Wire) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": item["metadata"]}


def _definition(column: column_values.ColumnSchema) -> TableColumn:
    path, wide = column.column.path, column.column.wide
    return TableColumn(column.title, _path(path), column.about, column.type, wide=wide)


def _path(path: str) -> Callable[[Wire, datetime], Cell]:
    return lambda item, _: column_values.cell(item, path)


def _since(*paths: str) -> Callable[[Wire, datetime], Cell]:
    """Shows the age of the first path that holds a time."""
    return lambda item, now: durations.format_age(next(filter(None, (_text(item, path) for path in paths)), None), now)


def _text(item: Wire, path: str) -> str:
    found = column_values.cell(item, path)
    return found if isinstance(found, str) else ""


def _writer(item: Wire, _now: datetime) -> Cell:
    annotations = item["metadata"].get("annotations") or {}
    return str(annotations.get(ACTOR_ANNOTATION, ""))


def _involved_object(item: Wire, _now: datetime) -> Cell:
    return f"{_text(item, 'involvedObject.kind').lower()}/{_text(item, 'involvedObject.name')}"


NAME = TableColumn(
    "Name", _path("metadata.name"), "The object's name, unique for its kind and namespace.", format="name"
)
AGE = TableColumn("Age", _since("metadata.creationTimestamp"), "How long ago it was created.", "date")
WRITER = TableColumn("Written-by", _writer, "The user that wrote it last.", wide=True)

CORE: dict[str, tuple[TableColumn, ...]] = {
    "Namespace": (NAME, TableColumn("Status", _path("status.phase"), "Active, or Terminating while it empties."), AGE),
    "Event": (
        TableColumn("Last Seen", _since("lastTimestamp", "firstTimestamp"), "How long ago it happened last."),
        TableColumn("Type", _path("type"), "Normal or Warning."),
        TableColumn("Reason", _path("reason"), "What happened, in one word."),
        TableColumn("Object", _involved_object, "What it happened to."),
        TableColumn("Source", _path("source.component"), "The component that reports it.", wide=True),
        TableColumn("Message", _path("message"), "What happened, in plain words."),
        TableColumn("First Seen", _since("firstTimestamp"), "How long ago it happened first.", wide=True),
        TableColumn("Count", _path("count"), "How often it happened.", "integer", wide=True),
        TableColumn("Name", _path("metadata.name"), "The event's own name.", format="name", wide=True),
    ),
}
"""Kubernetes' own kinds, with the columns of its own servers: scripts and people know them."""

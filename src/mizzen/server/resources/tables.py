"""Objects as `meta.k8s.io/v1` Tables, which is how kubectl wants what it prints: the server knows which columns. Pure.

Columns are those of `kinds/schema/kind_names.py`, between NAME and AGE; after it, for `-o wide`, those that need
room, and who wrote the object last. Objects come in their wire form, so those of Kubernetes' own kinds can be shown
as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema import columns
from mizzen.kinds.schema.resource import ACTOR_ANNOTATION
from mizzen.server.resources import durations

META = "meta.k8s.io/v1"
Wire: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = str | int | None
Include = Literal["None", "Metadata", "Object"]
"""What stands beside the cells of a row. kubectl asks for all of an object when it sorts or filters by itself."""

INCLUDES: tuple[Include, ...] = ("None", "Metadata", "Object")


@dataclass(frozen=True, slots=True)
class Definition:
    """A column: what the client is told of it, and what it shows of an object at a time."""

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
class Layout:
    """How objects of one kind are laid out for one reader."""

    definitions: tuple[Definition, ...]
    include: Include = "Metadata"

    def listed(self, listing: Wire, now: datetime) -> dict[str, Any]:
        """Of a list in its wire form; its place to go on from is the table's."""
        return self._table(listing["items"], listing["metadata"], now)

    def single(self, item: Wire, now: datetime, *, head: bool = True) -> dict[str, Any]:
        """Of one object. In a watch only the first table has a `head`: the columns stay the same."""
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
class Outline:
    """Metadata alone, for those who only want to know what there is, and whose."""

    include: Literal["Outline"] = "Outline"

    def listed(self, listing: Wire, _now: datetime) -> dict[str, Any]:
        return {
            "kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": dict(listing["metadata"]),
            "items": [_partial(item) for item in listing["items"]],
        }  # fmt: skip

    def single(self, item: Wire, _now: datetime, *, head: bool = True) -> dict[str, Any]:
        """`head` is for tables."""
        return _partial(item)


def layout(kind: Kind, include: Include = "Metadata") -> Layout:
    own = CORE.get(kind.name)
    if own is not None:
        return Layout(own, include)
    shown = [_definition(column) for column in columns.columns_of(kind)]
    wide = [definition for definition in shown if definition.wide]
    return Layout((NAME, *(one for one in shown if not one.wide), AGE, *wide, WRITER), include)


def _partial(item: Wire) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": item["metadata"]}


def _definition(column: columns.Described) -> Definition:
    path = column.column.path
    return Definition(
        column.title, lambda item, _: columns.cell(item, path), column.about, column.type, wide=column.column.wide
    )


def _path(path: str) -> Callable[[Wire, datetime], Cell]:
    return lambda item, _: columns.cell(item, path)


def _since(*paths: str) -> Callable[[Wire, datetime], Cell]:
    """How long ago, by the first of the paths that holds a time."""
    return lambda item, now: durations.since(next(filter(None, (_text(item, path) for path in paths)), None), now)


def _text(item: Wire, path: str) -> str:
    found = columns.cell(item, path)
    return found if isinstance(found, str) else ""


def _writer(item: Wire, _now: datetime) -> Cell:
    annotations = item["metadata"].get("annotations") or {}
    return str(annotations.get(ACTOR_ANNOTATION, ""))


def _involved(item: Wire, _now: datetime) -> Cell:
    return f"{_text(item, 'involvedObject.kind').lower()}/{_text(item, 'involvedObject.name')}"


NAME = Definition(
    "Name", _path("metadata.name"), "The object's name, unique for its kind and namespace.", format="name"
)
AGE = Definition("Age", _since("metadata.creationTimestamp"), "How long ago it was created.", "date")
WRITER = Definition("Written-by", _writer, "Who wrote it last.", wide=True)

CORE: dict[str, tuple[Definition, ...]] = {
    "Namespace": (NAME, Definition("Status", _path("status.phase"), "Active, or Terminating while it empties."), AGE),
    "Event": (
        Definition("Last Seen", _since("lastTimestamp", "firstTimestamp"), "How long ago it happened last."),
        Definition("Type", _path("type"), "Normal or Warning."),
        Definition("Reason", _path("reason"), "What happened, in one word."),
        Definition("Object", _involved, "What it happened to."),
        Definition("Source", _path("source.component"), "Who reports it.", wide=True),
        Definition("Message", _path("message"), "What happened, in a person's words."),
        Definition("First Seen", _since("firstTimestamp"), "How long ago it happened first.", wide=True),
        Definition("Count", _path("count"), "How often it happened.", "integer", wide=True),
        Definition("Name", _path("metadata.name"), "The event's own name.", format="name", wide=True),
    ),
}
"""Kinds of Kubernetes itself, with the columns that its own servers show: scripts and people know them."""

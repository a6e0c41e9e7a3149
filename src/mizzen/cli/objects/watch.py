"""`mizzen get --watch`: each existing object, and each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.objects.columns import Columns
from mizzen.cli.output import ListFormat

if TYPE_CHECKING:
    from mizzen.kinds.schema.names_and_columns import KindNames
    from mizzen.sdk.client import AsyncPlane


async def watch(plane: AsyncPlane, kind: KindNames, names: list[str], selector: str | None, form: ListFormat) -> None:
    """Print a line, or a document, for each existing object and for each change."""
    for name in names:
        await _note_absent(plane, kind, name)
    lines = _Lines(Columns(kind, everywhere=plane.namespace == "*", wide=form is ListFormat.WIDE), form)
    async for event in plane.watch(kind.plural, labels=selector):
        item = event["object"]
        if names and item["metadata"]["name"] not in names:
            continue
        if form in (ListFormat.JSON, ListFormat.YAML):
            output.write_data(item, form)
            continue
        for line in lines.format(item, deleted=event["type"] == "DELETED"):
            output.write(line)


async def _note_absent(plane: AsyncPlane, kind: KindNames, name: str) -> None:
    """Print a note if the object does not exist; otherwise a wrong name would wait in silence."""
    try:
        await plane.get(kind.plural, name)
    except errors.NotFound:
        output.note(f"no {kind.name}/{name} yet; waiting")


class _Lines:
    """Lines of a growing table. Columns widen as needed. A deletion is shown when it starts and when it is done."""

    def __init__(self, columns: Columns, form: ListFormat) -> None:
        self._columns = columns
        self._form = form
        self._widths: list[int] = []
        self._deleting: set[str] = set()

    def format(self, item: Mapping[str, Any], *, deleted: bool) -> Iterator[str]:
        metadata = item["metadata"]
        uid, mark = str(metadata.get("uid")), ""
        if deleted:
            self._deleting.discard(uid)
            mark = "   (deleted)"
        elif metadata.get("deletionTimestamp"):
            if uid in self._deleting:
                return
            self._deleting.add(uid)
            mark = "   (deleting)"
        if self._form is ListFormat.NAME:
            yield f"{self._columns.kind.singular}/{metadata['name']}{mark}"
            return
        row = self._columns.row(item)
        first = not self._widths
        before = self._widths or map(len, self._columns.titles)
        self._widths = [max(pair) for pair in zip(before, map(len, row), strict=True)]
        if first:
            yield self._align(self._columns.titles)
        yield self._align(row) + mark

    def _align(self, values: tuple[str, ...]) -> str:
        return "   ".join(value.ljust(width) for value, width in zip(values, self._widths, strict=True)).rstrip()

"""get --watch: each object there is, and each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mizzen import errors
from mizzen.cli import output
from mizzen.cli.objects.columns import Columns
from mizzen.cli.output import Listed

if TYPE_CHECKING:
    from mizzen.kinds.schema.kind_names import Called
    from mizzen.sdk.client import AsyncPlane


async def watch(plane: AsyncPlane, kind: Called, names: list[str], selector: str | None, form: Listed) -> None:
    """A line, or a document, for each object there is and for each change."""
    for name in names:
        await _tell_absent(plane, kind, name)
    told = _Lines(Columns(kind, everywhere=plane.namespace == "*", wide=form is Listed.WIDE), form)
    async for event in plane.watch(kind.plural, labels=selector):
        item = event["object"]
        if names and item["metadata"]["name"] not in names:
            continue
        if form in (Listed.JSON, Listed.YAML):
            output.data(item, form)
            continue
        for line in told.of(item, deleted=event["type"] == "DELETED"):
            output.say(line)


async def _tell_absent(plane: AsyncPlane, kind: Called, name: str) -> None:
    """Else a wrong name would be waited for in silence."""
    try:
        await plane.get(kind.plural, name)
    except errors.NotFound:
        output.note(f"no {kind.name}/{name} yet; waiting")


class _Lines:
    """Columns become wider with what they hold. An object on its way out is told of once, and when it is gone."""

    def __init__(self, columns: Columns, form: Listed) -> None:
        self._columns = columns
        self._form = form
        self._widths: list[int] = []
        self._leaving: set[str] = set()

    def of(self, item: Mapping[str, Any], *, deleted: bool) -> Iterator[str]:
        metadata = item["metadata"]
        uid, mark = str(metadata.get("uid")), ""
        if deleted:
            self._leaving.discard(uid)
            mark = "   (deleted)"
        elif metadata.get("deletionTimestamp"):
            if uid in self._leaving:
                return
            self._leaving.add(uid)
            mark = "   (deleting)"
        if self._form is Listed.NAME:
            yield f"{self._columns.kind.singular}/{metadata['name']}{mark}"
            return
        row = self._columns.row(item)
        first = not self._widths
        before = self._widths or map(len, self._columns.titles)
        self._widths = [max(pair) for pair in zip(before, map(len, row), strict=True)]
        if first:
            yield self._aligned(self._columns.titles)
        yield self._aligned(row) + mark

    def _aligned(self, values: tuple[str, ...]) -> str:
        return "   ".join(value.ljust(width) for value, width in zip(values, self._widths, strict=True)).rstrip()

"""Answers in the form that their reader asked for: as a Table, or as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mizzen.errors import BadRequest
from mizzen.kinds.catalog import Kind
from mizzen.kinds.meta import API_VERSION, Resource
from mizzen.server import answers
from mizzen.server.door import accept, tables
from mizzen.server.door.tables import Layout
from mizzen.server.plane import plane_of
from mizzen.server.query import Query
from mizzen.stores.store import Listing


@dataclass(frozen=True, slots=True)
class Shown:
    """For one request. What it is handed is in the wire form."""

    layout: Layout | None
    """None: as they are."""
    now: Callable[[], datetime]

    async def answered(
        self, listing: Listing, kind: Kind, wire: Callable[[Resource], dict[str, Any]], version: str = API_VERSION
    ) -> Response:
        metadata = {"resourceVersion": listing.resource_version, "continue": listing.next or ""}
        around = {"kind": f"{kind.name}List", "apiVersion": version}
        layout, now = self.layout, self.now()
        if layout is None:
            return await answers.listed(listing.items, wire, metadata, **around)

        def table() -> Response:
            return JSONResponse(layout.listed({**around, "metadata": metadata, "items": map(wire, listing.items)}, now))

        return await asyncio.to_thread(table)

    def single(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self.layout is None else self.layout.single(body, self.now())

    def watched(self) -> Callable[[Mapping[str, Any]], dict[str, Any]] | None:
        """Makes of each object what a line of a watch holds; None when that is the object itself, which all readers
        may then share. For one watch only: its first table names the columns, the others do not."""
        layout, now = self.layout, self.now
        if layout is None:
            return None
        head = True

        def table(item: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal head
            found = layout.single(item, now(), head=head)
            head = False
            return found

        return table


def of(request: Request, kind: Kind, query: Query) -> Shown:
    """`query` has to know `includeObject`, which speaks of Tables only."""
    said = query.text("includeObject") or "Metadata"
    include = next((one for one in tables.INCLUDES if one == said), None)
    if include is None:
        raise BadRequest(f"includeObject={said!r}: must be one of {', '.join(tables.INCLUDES)}")
    asked = accept.wants_table(request.headers)
    return Shown(tables.layout(kind, include) if asked else None, plane_of(request).now)

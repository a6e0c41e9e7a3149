"""Answers in the form that their reader asked for: as a Table, metadata alone, or as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mizzen.errors import BadRequest
from mizzen.kinds.catalog import Kind
from mizzen.kinds.schema.resource import API_VERSION, Resource
from mizzen.server.http import list_responses
from mizzen.server.http.context import plane_of
from mizzen.server.http.query import Query
from mizzen.server.resources import content_negotiation, tables
from mizzen.server.resources.tables import Layout, Outline
from mizzen.server.resources.watch import Form, Forms
from mizzen.stores.store import Listing

Wire: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def as_it_is(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item


@dataclass(frozen=True, slots=True)
class Shown:
    """For one request. What it is handed is in the wire form."""

    layout: Layout | Outline | None
    """None: as they are."""
    now: Callable[[], datetime]

    async def answered(
        self, listing: Listing, kind: Kind, wire: Callable[[Resource], dict[str, Any]], version: str = API_VERSION
    ) -> Response:
        metadata = {"resourceVersion": listing.resource_version, "continue": listing.next or ""}
        around = {"kind": f"{kind.name}List", "apiVersion": version}
        layout, now = self.layout, self.now()
        if layout is None:
            return await list_responses.listed(listing.items, wire, metadata, **around)

        def table() -> Response:
            return JSONResponse(layout.listed({**around, "metadata": metadata, "items": map(wire, listing.items)}, now))

        return await asyncio.to_thread(table)

    def single(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self.layout is None else self.layout.single(body, self.now())

    def watched(self, wire: Wire = as_it_is) -> Forms:
        """`wire`: what comes of an object before anything else; of one kind always the same. For one watch only: its
        first table names the columns, the others do not."""
        layout = self.layout
        if layout is None:
            plain = Form(wire, wire)
            return lambda: plain
        head = True

        def table() -> Form:
            nonlocal head
            # Of a whole second: ages are told in no less, and all who watch in it are told the same.
            named, now, head = head, self.now().replace(microsecond=0), False
            return Form((wire, layout.include, named, now), lambda item: layout.single(wire(item), now, head=named))

        return table


def of(request: Request, kind: Kind, query: Query) -> Shown:
    """`query` has to know `includeObject`, which speaks of Tables only."""
    said = query.text("includeObject") or "Metadata"
    include = next((one for one in tables.INCLUDES if one == said), None)
    if include is None:
        raise BadRequest(f"includeObject={said!r}: must be one of {', '.join(tables.INCLUDES)}")
    layout: Layout | Outline | None = None
    match content_negotiation.wanted(request.headers):
        case "Table":
            layout = tables.layout(kind, include)
        case "Metadata":
            layout = Outline()
    return Shown(layout, plane_of(request).now)

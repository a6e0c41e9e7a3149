"""Responses in the form that the caller asked for: as a Table, metadata alone, or unchanged."""

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
from mizzen.server.http.context import context_of
from mizzen.server.http.query import Query
from mizzen.server.resources import content_negotiation, tables, watch
from mizzen.server.resources.tables import MetadataOnly, TableLayout
from mizzen.server.resources.watch import LineForm, NextForm
from mizzen.stores.store import Listing, Where

MOST_AT_ONCE = 1000
"""The page size if the caller sets no limit: a response must not hold a whole store."""

Wire: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def as_stored(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item


@dataclass(frozen=True, slots=True)
class Representation:
    """The form of one request's response. Its methods take objects in wire form."""

    layout: TableLayout | MetadataOnly | None
    """None: unchanged."""
    now: Callable[[], datetime]

    async def list_response(
        self, listing: Listing, kind: Kind, wire: Callable[[Resource], Mapping[str, Any]], version: str = API_VERSION
    ) -> Response:
        metadata = {"resourceVersion": listing.resource_version, "continue": listing.next or ""}
        around = {"kind": f"{kind.name}List", "apiVersion": version}
        layout, now = self.layout, self.now()
        if layout is None:
            return await list_responses.list_response(listing.items, wire, metadata, **around)

        def table() -> Response:
            items = map(wire, listing.items)
            return JSONResponse(layout.render_list({**around, "metadata": metadata, "items": items}, now))

        return table() if len(listing.items) <= list_responses.FEW else await asyncio.to_thread(table)

    def render(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self.layout is None else self.layout.render_object(body, self.now())

    def watch_forms(self, wire: Wire = as_stored) -> NextForm:
        """Returns the forms for one watch: its first table names the columns, the others do not.

        `wire` converts each object first; it must be the same function for all watches of a kind.
        """
        layout = self.layout
        if layout is None:
            plain = LineForm(wire, wire)
            return lambda: plain
        head = True

        def table() -> LineForm:
            nonlocal head
            # Whole seconds: ages are no finer, and all watches in the same second can share a line.
            named, now, head = head, self.now().replace(microsecond=0), False
            return LineForm(
                (wire, layout.include, named, now), lambda item: layout.render_object(wire(item), now, head=named)
            )

        return table


async def list_or_watch(
    request: Request,
    kind: Kind,
    query: Query,
    where: Where,
    visible: Callable[[Resource], bool],
    *,
    wire: Wire = as_stored,
    version: str = API_VERSION,
) -> Response:
    """Returns a page of the visible objects, or a watch of them, as the query asks. `wire` converts each object."""
    context, form = context_of(request), negotiate(request, kind, query)
    limit, token, begin = query.limit(MOST_AT_ONCE), query.text("continue"), watch.parse_watch(query)
    if begin is not None:
        return watch.respond(request, kind.name, where, begin, visible, forms=form.watch_forms(wire))
    listing = await context.pages.list_page(context.store, kind.name, where, visible, limit=limit, token=token)
    return await form.list_response(listing, kind, lambda item: wire(item.wire()), version)


def negotiate(request: Request, kind: Kind, query: Query) -> Representation:
    """`query` must know `includeObject`, which affects only Tables."""
    word = query.text("includeObject") or "Metadata"
    include = next((one for one in tables.INCLUDES if one == word), None)
    if include is None:
        raise BadRequest(f"includeObject={word!r}: must be one of {', '.join(tables.INCLUDES)}")
    layout: TableLayout | MetadataOnly | None = None
    match content_negotiation.negotiate(request.headers):
        case "Table":
            layout = tables.layout_of(kind, include)
        case "Metadata":
            layout = MetadataOnly()
    return Representation(layout, context_of(request).now)

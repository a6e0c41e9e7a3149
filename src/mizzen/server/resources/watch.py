"""Watch streams: one JSON object per line, filtered by namespace, labels, fields, and by what the caller may see."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mizzen.errors import BadRequest, MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import API_VERSION, Resource
from mizzen.kinds.text import selectors
from mizzen.server.flow_control.execution import execution_of
from mizzen.server.http.context import context_of
from mizzen.server.http.errors import status_body
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import aclose_on_exit, until_stopped
from mizzen.stores.sqlite import indexes
from mizzen.stores.store import Event, Listing, Store, Traits, Where

Visible = Callable[[Resource], bool]
"""Whether the caller may see an object."""


@dataclass(frozen=True, slots=True)
class LineForm:
    """How a line renders an object. Equal forms render the same, so their readers share one line."""

    key: Hashable
    render: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(compare=False)


NextForm: TypeAlias = Callable[[], LineForm]
"""Returns the form of the next line of a watch: the first line may hold more."""

PLAIN = LineForm("", lambda item: item)

MAX_LINES = 1024
"""The most shared lines: of as many changes as may happen at once, in several forms each."""
MAX_LINE_BYTES = 4 << 20
PAGE = 100
"""Initial objects to read at once."""


DAY = 24 * 60 * 60
BOOKMARKS = 60.0
"""Seconds of silence after which a reader that asked for bookmarks gets one."""
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The start of a watch, and the events that its reader gets besides changes."""

    since: str = ""
    """Send changes after this version; if empty, first ADDED for all existing objects."""
    only_new: bool = False
    """Skip existing objects."""
    bookmarks: bool = False
    marked: bool = False
    """Send a bookmark after all existing objects."""
    seconds: int | None = None
    """The timeout of the watch."""


def parse_watch(query: Query) -> WatchOptions | None:
    """Returns the options of a watch as Kubernetes clients send them; None for a list, for which they must be valid,
    too. `resourceVersion=0` means any state, and so the present one."""
    seconds = query.number("timeoutSeconds", low=1, high=DAY)
    everything, bookmarks = query.flag("sendInitialEvents"), query.flag("allowWatchBookmarks")
    if not query.flag("watch"):
        return None
    since = query.number("resourceVersion", high=10**18)
    match = query.text("resourceVersionMatch")
    if match not in ("", "NotOlderThan"):
        raise BadRequest("resourceVersionMatch: a watch supports only NotOlderThan")
    if everything:
        return WatchOptions(bookmarks=bookmarks, marked=bookmarks, seconds=seconds)
    only_new = bool(query.text("sendInitialEvents")) and not since
    return WatchOptions(str(since) if since else "", only_new=only_new, bookmarks=bookmarks, seconds=seconds)


def respond(
    request: Request, kind: str, where: Where, begin: WatchOptions, visible: Visible, *, forms: NextForm
) -> Response:
    """Returns the response to a watch, which ends when its time is up or the plane stops."""
    context, slot = context_of(request), execution_of(request).attach()
    lines = stream_lines(context.store, kind, where, begin, visible, forms=forms, slot=slot)
    return StreamingResponse(until_stopped(lines, context.stopping, begin.seconds), media_type="application/json")


async def stream_lines(
    store: Store,
    kind: str,
    where: Where,
    begin: WatchOptions,
    visible: Visible,
    *,
    forms: NextForm = lambda: PLAIN,
    bookmarks: float = BOOKMARKS,
    slot: AbstractAsyncContextManager[None] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yields the lines of a watch. Holds `slot` while it lists existing objects.

    An error, such as an expired resource version, is a last line of type ERROR: the response has already started.
    """
    selection = _Selection(where, visible)
    since = begin.since
    try:
        indexes.check_fields(kind, where)
        if begin.only_new:
            since = (await store.list(kind, where, limit=1)).resource_version
        elif not since:
            after: str | None = None
            async with slot or nullcontext():
                while not since or after is not None:
                    page = await store.list(kind, where, limit=PAGE, after=after)
                    since, after = page.resource_version, page.next
                    added = await asyncio.to_thread(selection.initial_lines, page, forms)
                    del page  # while it waits for a slow reader, only the unread lines stay in memory
                    while added:
                        yield added.popleft()
            if begin.marked:
                yield _bookmark(kind, since, forms(), {INITIAL_END: "true"})
        async with aclose_on_exit(store.watch(kind, since, quiet=bookmarks if begin.bookmarks else None)) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    yield _bookmark(kind, event.resource.meta.resource_version, forms())
                    continue
                seen = selection.event_type_for(event)
                if seen is not None:
                    yield _line_cache.line(seen, event, forms())
    except MizzenError as error:
        yield encode_line("ERROR", status_body(error))


def _bookmark(kind: str, version: str, form: LineForm, annotations: Mapping[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    item = {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "spec": {}, "status": {}}
    return encode_line("BOOKMARK", form.render(item))


class _LineCache:
    """Recent lines. All watches of a change get the same Event, so it is encoded once per form."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[int, str, Hashable], tuple[Event, bytes]] = OrderedDict()
        self._bytes = 0

    def line(self, type_: str, event: Event, form: LineForm) -> bytes:
        # The cache also holds the event, so that no other one can have its id meanwhile.
        key = (id(event), type_, form.key)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = encode_line(type_, form.render(event.resource.wire()))
        self._lines[key] = (event, line)
        self._bytes += len(line)
        while len(self._lines) > MAX_LINES or self._bytes > MAX_LINE_BYTES:
            _, (_, old) = self._lines.popitem(last=False)
            self._bytes -= len(old)
        return line


_line_cache = _LineCache()


class _Selection:
    """Selects the changes for one watch. A change after which an object starts to match is ADDED; one after which it no
    longer matches is DELETED. An event holds the previous traits, so a long watch needs no memory of its own.
    """

    def __init__(self, where: Where, visible: Visible) -> None:
        self._where = where
        self._visible = visible
        self._picky = bool(where.labels or where.fields or where.unlike)
        self._ahead: dict[str, int] = {}
        """Objects that were sent in a newer version than the start of the watch, and that version."""

    def initial_lines(self, page: Listing, forms: NextForm) -> deque[bytes]:
        """Returns the lines of existing objects."""
        lines: deque[bytes] = deque()
        for resource in filter(self._visible, page.items):
            uid, version = resource.meta.uid, int(resource.meta.resource_version)
            if version > int(page.resource_version):  # written while pages were read
                self._ahead[uid] = version
            lines.append(encode_line("ADDED", forms().render(resource.wire())))
        return lines

    def event_type_for(self, event: Event) -> str | None:
        """Returns the type of the event for this watch; None if it is not for this watch."""
        resource = event.resource
        uid = resource.meta.uid
        if int(resource.meta.resource_version) <= self._ahead.get(uid, 0):
            return None  # older than what was sent
        if self._where.namespace not in (None, resource.meta.namespace) or not self._visible(resource):
            return None
        if not self._picky:
            return event.type
        matched = event.type != "ADDED" and self._matched_before(resource, event.before)
        matches = event.type != "DELETED" and self._matches(resource)
        if matches:
            return "MODIFIED" if matched else "ADDED"
        return "DELETED" if matched else None

    def _matches(self, resource: Resource) -> bool:
        return selectors.holds(self._where.labels, resource.meta.labels) and self._fields_match(
            lambda path: catalog.field(resource, path)
        )

    def _matched_before(self, resource: Resource, before: Traits | None) -> bool:
        if before is None:
            return self._matches(resource)
        # Names do not change, so the traits do not hold them.
        return selectors.holds(self._where.labels, before.labels) and self._fields_match(
            lambda path: catalog.field(resource, path) if path in indexes.EVERY_KIND else before.fields.get(path)
        )

    def _fields_match(self, field: Callable[[str], str | None]) -> bool:
        where = self._where
        return all(field(path) == value for path, value in where.fields.items()) and not any(
            field(path) == value for path, value in where.unlike
        )


def encode_line(type_: str, data: Mapping[str, Any]) -> bytes:
    """Returns one line of a watch."""
    return json.dumps({"type": type_, "object": data}, separators=(",", ":")).encode() + b"\n"

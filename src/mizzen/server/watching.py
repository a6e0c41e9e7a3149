"""A watch as people get it: one JSON object per line, filtered by namespace, labels, fields, and by who watches."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mizzen.errors import BadRequest, MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.meta import API_VERSION, Resource
from mizzen.kinds.text import selectors
from mizzen.server.errors import status_body
from mizzen.server.query import Query
from mizzen.server.streams import closing
from mizzen.stores.store import Event, Listing, Store, Where

Visible = Callable[[Resource], bool]
"""May whoever watches see this object?"""

Shown = Callable[[dict[str, Any]], dict[str, Any]]

KEPT = 64
"""Lines that are shared: as many changes as commonly are made at once."""
KEPT_BYTES = 4 << 20
PAGE = 100
"""Objects that are read at once, of all there is in the beginning."""


BOOKMARKS = 60.0
"""Seconds of silence after which a reader who wants to know is told how far it is silence."""
INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a watch begins, and what its reader is told beside changes."""

    since: str = ""
    """Changes after this version; empty: ADDED for all there is comes first."""
    only_new: bool = False
    """Nothing of what there is."""
    bookmarks: bool = False
    marked: bool = False
    """A bookmark tells when all there is has come."""


def beginning(query: Query) -> Beginning:
    """As Kubernetes' clients say it. `resourceVersion=0` is any state, and so the present one."""
    since = query.number("resourceVersion", high=10**18)
    match = query.text("resourceVersionMatch")
    if match not in ("", "NotOlderThan"):
        raise BadRequest("resourceVersionMatch: of a watch only NotOlderThan is possible")
    initial, bookmarks = query.text("sendInitialEvents"), query.flag("allowWatchBookmarks")
    if not initial:
        return Beginning(str(since) if since else "", bookmarks=bookmarks)
    if query.flag("sendInitialEvents"):
        return Beginning(bookmarks=bookmarks, marked=bookmarks)
    return Beginning(str(since) if since else "", only_new=not since, bookmarks=bookmarks)


async def lines(
    store: Store,
    kind: str,
    where: Where,
    begin: Beginning,
    visible: Visible,
    *,
    shown: Shown | None = None,
    bookmarks: float = BOOKMARKS,
) -> AsyncGenerator[bytes, None]:
    """What happens from its beginning on. `shown`: what each line holds of an object, when that is not itself.

    An error, such as a version that is too old to begin with, comes as a last line of type ERROR: the answer has
    already begun.
    """
    selection = _Selection(where, visible, whole=not begin.since and not begin.only_new)
    since = begin.since
    try:
        if begin.only_new:
            since = (await store.list(kind, where, limit=1)).resource_version
        elif not since:
            after: str | None = None
            while not since or after is not None:
                page = await store.list(kind, where, limit=PAGE, after=after)
                since, after = page.resource_version, page.next
                added = await asyncio.to_thread(selection.added, page, shown)
                del page  # a slow reader is waited for with nothing but the lines that they did not take yet
                while added:
                    yield added.popleft()
            if begin.marked:
                yield _bookmark(kind, since, shown, {INITIAL_END: "true"})
        async with closing(store.watch(kind, since, quiet=bookmarks if begin.bookmarks else None)) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    yield _bookmark(kind, event.resource.meta.resource_version, shown)
                    continue
                seen = selection.seen(event)
                if seen is not None:
                    yield _line(seen, shown(event.resource.wire())) if shown else _lately.line(seen, event)
    except MizzenError as error:
        yield _line("ERROR", status_body(error))


def _bookmark(kind: str, version: str, shown: Shown | None, annotations: Mapping[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    item = {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "spec": {}, "status": {}}
    return _line("BOOKMARK", shown(item) if shown else item)


class _Lately:
    """Lines made lately. All who watch a change are handed the same Event, so it is encoded once for all of them."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[int, str], tuple[Event, bytes]] = OrderedDict()
        self._bytes = 0

    def line(self, type_: str, event: Event) -> bytes:
        # The event is kept beside its line: no other one can have its id meanwhile.
        key = (id(event), type_)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = _line(type_, event.resource.wire())
        self._lines[key] = (event, line)
        self._bytes += len(line)
        while len(self._lines) > KEPT or self._bytes > KEPT_BYTES:
            _, (_, old) = self._lines.popitem(last=False)
            self._bytes -= len(old)
        return line


_lately = _Lately()


class _Selection:
    """Which objects the watcher holds, so that one whose labels cease to match is told as deleted.

    After a resume this is not known; then the first change that does not match is told as deleted, which does no harm
    to a watcher that never had the object.
    """

    def __init__(self, where: Where, visible: Visible, *, whole: bool) -> None:
        self._where = where
        self._visible = visible
        self._picky = bool(where.labels or where.fields)
        self._held: dict[str, bool] = {}
        self._ahead: dict[str, int] = {}
        """Objects that were shown newer than the version that changes are told from, and how new."""
        self._unknown = not whole

    def added(self, page: Listing, shown: Shown | None) -> deque[bytes]:
        """Lines for what there is in the beginning."""
        lines: deque[bytes] = deque()
        for resource in filter(self._visible, page.items):
            uid, version = resource.meta.uid, int(resource.meta.resource_version)
            if self._picky:
                self._held[uid] = True
            if version > int(page.resource_version):  # written while pages were read
                self._ahead[uid] = version
            lines.append(_line("ADDED", shown(resource.wire()) if shown else resource.wire()))
        return lines

    def seen(self, event: Event) -> str | None:
        """The type of event for the watcher, or None when it is not theirs."""
        resource = event.resource
        uid = resource.meta.uid
        if int(resource.meta.resource_version) <= self._ahead.get(uid, 0):
            return None  # older than what they have
        if self._where.namespace not in (None, resource.meta.namespace) or not self._visible(resource):
            return None
        if not self._picky:
            return event.type
        held = self._held.get(uid, self._unknown and event.type != "ADDED")
        matches = _matches(self._where, resource)
        if event.type == "DELETED":
            self._held.pop(uid, None)
            return "DELETED" if held else None
        self._held[uid] = matches
        if matches:
            return event.type if held else "ADDED"
        return "DELETED" if held else None


def _matches(where: Where, resource: Resource) -> bool:
    return selectors.holds(where.labels, resource.meta.labels) and all(
        catalog.field(resource, path) == value for path, value in where.fields.items()
    )


def _line(type_: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": data}, separators=(",", ":")).encode() + b"\n"

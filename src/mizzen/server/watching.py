"""A watch as people get it: one JSON object per line, filtered by namespace, labels, fields, and by who watches."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

from mizzen.errors import MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.meta import Resource
from mizzen.kinds.text import selectors
from mizzen.server.errors import status_body
from mizzen.server.streams import closing
from mizzen.stores.store import Event, Listing, Store, Where

Visible = Callable[[Resource], bool]
"""May whoever watches see this object?"""

KEPT = 64
"""Lines that are shared: as many changes as commonly are made at once."""
KEPT_BYTES = 4 << 20
PAGE = 100
"""Objects that are read at once, of all there is in the beginning."""


async def lines(store: Store, kind: str, where: Where, since: str, visible: Visible) -> AsyncGenerator[bytes, None]:
    """Changes after `since`; without it, first ADDED for all there is.

    An error, such as a `since` that is too old, comes as a last line of type ERROR: the answer has already begun.
    """
    selection = _Selection(where, visible, whole=not since)
    try:
        if not since:
            after: str | None = None
            while not since or after is not None:
                page = await store.list(kind, where, limit=PAGE, after=after)
                since, after = page.resource_version, page.next
                added = await asyncio.to_thread(selection.added, page)
                del page  # a slow reader is waited for with nothing but the lines that they did not take yet
                while added:
                    yield added.popleft()
        async with closing(store.watch(kind, since)) as events:
            async for event in events:
                seen = selection.seen(event)
                if seen is not None:
                    yield _lately.line(seen, event)
    except MizzenError as error:
        yield _line("ERROR", status_body(error))


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

    def added(self, page: Listing) -> deque[bytes]:
        """Lines for what there is in the beginning."""
        lines: deque[bytes] = deque()
        for resource in filter(self._visible, page.items):
            uid, version = resource.meta.uid, int(resource.meta.resource_version)
            if self._picky:
                self._held[uid] = True
            if version > int(page.resource_version):  # written while pages were read
                self._ahead[uid] = version
            lines.append(_line("ADDED", resource.wire()))
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

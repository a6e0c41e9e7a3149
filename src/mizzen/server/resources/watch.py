"""A watch as people get it: one JSON object per line, filtered by namespace, labels, fields, and by who watches."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mizzen.errors import BadRequest, MizzenError
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import API_VERSION, Resource
from mizzen.kinds.text import selectors
from mizzen.server.http.errors import status_body
from mizzen.server.http.query import Query
from mizzen.server.http.streaming import closing
from mizzen.stores.sqlite import indexes
from mizzen.stores.store import Event, Listing, Store, Traits, Where

Visible = Callable[[Resource], bool]
"""May whoever watches see this object?"""


@dataclass(frozen=True, slots=True)
class Form:
    """What a line shows of an object. Equal ones show the same, so one line is made for all of their readers."""

    key: Hashable
    shown: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(compare=False)


Forms: TypeAlias = Callable[[], Form]
"""Which form the next line of a watch has: its first may tell more."""

PLAIN = Form("", lambda item: item)

KEPT = 1024
"""Lines that are shared: of as many changes as may be made at once, in some forms each."""
KEPT_BYTES = 4 << 20
PAGE = 100
"""Objects that are read at once, of all there is in the beginning."""


DAY = 24 * 60 * 60
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
    seconds: int | None = None
    """After which it ends."""


def asked(query: Query) -> Beginning | None:
    """The watch that is asked for, as Kubernetes' clients say it; None: a list is. What speaks only of watches must
    make sense for a list, too. `resourceVersion=0` is any state, and so the present one."""
    seconds = query.number("timeoutSeconds", low=1, high=DAY)
    everything, bookmarks = query.flag("sendInitialEvents"), query.flag("allowWatchBookmarks")
    if not query.flag("watch"):
        return None
    since = query.number("resourceVersion", high=10**18)
    match = query.text("resourceVersionMatch")
    if match not in ("", "NotOlderThan"):
        raise BadRequest("resourceVersionMatch: of a watch only NotOlderThan is possible")
    if everything:
        return Beginning(bookmarks=bookmarks, marked=bookmarks, seconds=seconds)
    only_new = bool(query.text("sendInitialEvents")) and not since
    return Beginning(str(since) if since else "", only_new=only_new, bookmarks=bookmarks, seconds=seconds)


async def lines(
    store: Store,
    kind: str,
    where: Where,
    begin: Beginning,
    visible: Visible,
    *,
    forms: Forms = lambda: PLAIN,
    bookmarks: float = BOOKMARKS,
) -> AsyncGenerator[bytes, None]:
    """What happens from its beginning on.

    An error, such as a version that is too old to begin with, comes as a last line of type ERROR: the answer has
    already begun.
    """
    selection = _Selection(where, visible)
    since = begin.since
    try:
        indexes.check_fields(kind, where)
        if begin.only_new:
            since = (await store.list(kind, where, limit=1)).resource_version
        elif not since:
            after: str | None = None
            while not since or after is not None:
                page = await store.list(kind, where, limit=PAGE, after=after)
                since, after = page.resource_version, page.next
                added = await asyncio.to_thread(selection.added, page, forms)
                del page  # a slow reader is waited for with nothing but the lines that they did not take yet
                while added:
                    yield added.popleft()
            if begin.marked:
                yield _bookmark(kind, since, forms(), {INITIAL_END: "true"})
        async with closing(store.watch(kind, since, quiet=bookmarks if begin.bookmarks else None)) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    yield _bookmark(kind, event.resource.meta.resource_version, forms())
                    continue
                seen = selection.seen(event)
                if seen is not None:
                    yield _lately.line(seen, event, forms())
    except MizzenError as error:
        yield encoded("ERROR", status_body(error))


def _bookmark(kind: str, version: str, form: Form, annotations: Mapping[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": version, "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    item = {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "spec": {}, "status": {}}
    return encoded("BOOKMARK", form.shown(item))


class _Lately:
    """Lines made lately. All who watch a change are handed the same Event, so it is encoded once in each form."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[int, str, Hashable], tuple[Event, bytes]] = OrderedDict()
        self._bytes = 0

    def line(self, type_: str, event: Event, form: Form) -> bytes:
        # The event is kept beside its line: no other one can have its id meanwhile.
        key = (id(event), type_, form.key)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = encoded(type_, form.shown(event.resource.wire()))
        self._lines[key] = (event, line)
        self._bytes += len(line)
        while len(self._lines) > KEPT or self._bytes > KEPT_BYTES:
            _, (_, old) = self._lines.popitem(last=False)
            self._bytes -= len(old)
        return line


_lately = _Lately()


class _Selection:
    """What of all changes is the watcher's: one that makes an object match is told as added, and one after which it
    does not match any more as deleted. An event says what was before, so nothing is held for who has watched for long.
    """

    def __init__(self, where: Where, visible: Visible) -> None:
        self._where = where
        self._visible = visible
        self._picky = bool(where.labels or where.fields or where.unlike)
        self._ahead: dict[str, int] = {}
        """Objects that were shown newer than the version that changes are told from, and how new."""

    def added(self, page: Listing, forms: Forms) -> deque[bytes]:
        """Lines for what there is in the beginning."""
        lines: deque[bytes] = deque()
        for resource in filter(self._visible, page.items):
            uid, version = resource.meta.uid, int(resource.meta.resource_version)
            if version > int(page.resource_version):  # written while pages were read
                self._ahead[uid] = version
            lines.append(encoded("ADDED", forms().shown(resource.wire())))
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
        matched = event.type != "ADDED" and self._matched(resource, event.before)
        matches = event.type != "DELETED" and self._matches(resource)
        if matches:
            return "MODIFIED" if matched else "ADDED"
        return "DELETED" if matched else None

    def _matches(self, resource: Resource) -> bool:
        return selectors.holds(self._where.labels, resource.meta.labels) and self._alike(
            lambda path: catalog.field(resource, path)
        )

    def _matched(self, resource: Resource, before: Traits | None) -> bool:
        if before is None:
            return self._matches(resource)
        # Names do not change, and are not told again.
        return selectors.holds(self._where.labels, before.labels) and self._alike(
            lambda path: catalog.field(resource, path) if path in indexes.EVERY_KIND else before.fields.get(path)
        )

    def _alike(self, field: Callable[[str], str | None]) -> bool:
        where = self._where
        return all(field(path) == value for path, value in where.fields.items()) and not any(
            field(path) == value for path, value in where.unlike
        )


def encoded(type_: str, data: Mapping[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": type_, "object": data}, separators=(",", ":")).encode() + b"\n"

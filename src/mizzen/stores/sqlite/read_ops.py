"""Read operations of a SQLite store: plain functions on a connection, each one consistent read."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mizzen.errors import Expired, Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.stores import name_errors
from mizzen.stores.marks.checkpoint import StoreMark
from mizzen.stores.pages import ListCursor, Unread, check_limit, fill_page
from mizzen.stores.sqlite import codec, indexes, revisions
from mizzen.stores.sqlite import query as sqlite_query
from mizzen.stores.store import EVERYTHING, Event, Listing, Where

UNRECORDED = tuple(sorted(catalog.UNRECORDED))
_ALL_KINDS = f"kind NOT IN ({', '.join('?' for _ in UNRECORDED)})"

EVENTS_BYTES = 1 << 20
"""Maximum bytes read at once for a watcher: less than a page, because watchers may be slow."""

_OF_MODEL = "FROM objects INDEXED BY objects_of_model WHERE kind = ? AND namespace = ? AND model = ?"


@dataclass(frozen=True, slots=True)
class Page:
    """Some events in order; every event up to version `upto` was examined."""

    events: tuple[Event, ...]
    upto: int


def get(connection: sqlite3.Connection, ref: Ref) -> Resource:
    found = revisions.find(connection, ref) if ref.kind == revisions.KIND else codec.find(connection, ref)
    if found is None:
        raise name_errors.missing(ref)
    return found


def tally(connection: sqlite3.Connection) -> dict[str, int]:
    """Returns the number of objects per kind, without reading any."""
    return dict(connection.execute("SELECT kind, count(*) FROM objects GROUP BY kind").fetchall())


def listing(connection: sqlite3.Connection, kind: str, where: Where, limit: int | None, after: str | None) -> Listing:
    check_limit(limit)
    start = ListCursor.parse(after, kind, where) if after is not None else None
    with reading(connection):
        rv, horizon = position(connection)
        if start is not None and start.rv < horizon:
            raise Expired("this listing began too long ago and cannot continue", hint="list again from the start")
        # A watch from the version of any page must show all changes made while the pages were read. So all pages
        # carry the version of the first.
        rv = rv if start is None else start.rv
        with contextlib.closing(_select(connection, kind, where, start)) as found:
            items, more = fill_page(found, limit)
    if not more:
        return Listing(tuple(items), str(rv))
    return Listing(tuple(items), str(rv), ListCursor.behind(items[-1], rv, where).token())


def among(connection: sqlite3.Connection, refs: Iterable[Ref]) -> frozenset[Ref]:
    with reading(connection):
        return frozenset(ref for ref in set(refs) if _exists(connection, ref))


class SqlitePresent:
    """Implements `store.Present` on the connection that is about to write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, ref: Ref) -> Resource:
        return get(self._connection, ref)

    def list(self, kind: str, where: Where = EVERYTHING) -> tuple[Resource, ...]:
        with contextlib.closing(_select(self._connection, kind, where, None)) as found:
            return tuple(one.read() for one in found)

    def newest(self, kind: str, model: Ref, most: int) -> tuple[Resource, ...]:
        # A row keeps its rowid for life, and a new row gets a higher one than all existing rows.
        query = f"SELECT body {_OF_MODEL} ORDER BY rowid DESC"
        values = (kind, model.namespace, model.name)
        with contextlib.closing(self._connection.execute(query, values)) as found:
            newest, _ = fill_page((codec.unread(body) for (body,) in found), most)
        return tuple(newest)

    def count(self, kind: str, model: Ref) -> int:
        values = (kind, model.namespace, model.name)
        [(count,)] = self._connection.execute(f"SELECT count(*) {_OF_MODEL}", values).fetchall()
        return int(count)


def events(connection: sqlite3.Connection, kind: str | None, after: int, size: int) -> Page:
    """Returns up to `size` events after version `after`, at most `EVENTS_BYTES` of them.

    Raises Expired if some of them may be compacted. Revisions never are.
    """
    with reading(connection):
        rv, horizon = position(connection)
        if kind == revisions.KIND:
            horizon = 0
        if not horizon <= after <= rv:
            raise expiry_error(after)
        found = revisions.after(connection, after) if kind == revisions.KIND else _events(connection, kind, after)
        with contextlib.closing(found):
            page, more = fill_page(found, size, EVENTS_BYTES)
    return Page(tuple(page), int(page[-1].resource.meta.resource_version) if more else rv)


def namespaces(connection: sqlite3.Connection) -> frozenset[str]:
    """Returns namespaces with a recorded object or a secret. The cost grows with the result, not with the content."""
    found = {name for (name,) in connection.execute("SELECT DISTINCT namespace FROM secrets").fetchall()}
    for kind in catalog.KINDS:
        name: str | None = ""
        while name is not None:
            found.add(name)
            [(name,)] = connection.execute(
                "SELECT min(namespace) FROM objects WHERE kind = ? AND namespace > ?", (kind.name, name)
            ).fetchall()
    return frozenset(found - {""})


def newest(connection: sqlite3.Connection) -> dict[str, int]:
    """Returns the version of the newest change per kind, as far as events are kept."""
    found = dict(connection.execute("SELECT kind, max(rv) FROM events GROUP BY kind").fetchall())
    return found | {revisions.KIND: revisions.newest(connection)}


def position(connection: sqlite3.Connection) -> tuple[int, int]:
    """Returns the last assigned resource version, and the horizon."""
    [(rv, horizon)] = connection.execute("SELECT rv, horizon FROM state").fetchall()
    return rv, horizon


def mark(connection: sqlite3.Connection) -> StoreMark:
    """Returns the store's id and how far it has come."""
    [(store, commits, rv)] = connection.execute("SELECT id, commits, rv FROM state").fetchall()
    return StoreMark(store, commits, rv)


def expiry_error(since: int) -> Expired:
    return Expired(f"changes since resource version {since} are no longer stored", hint="list, then watch from there")


@contextlib.contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Makes the reads inside consistent. Joins a transaction that is already open."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        end(connection)


def end(connection: sqlite3.Connection) -> None:
    """Ends the read transaction, unless an input error already has."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Converts SQLite errors to Mizzen errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the store cannot read: {error}") from error


def _exists(connection: sqlite3.Connection, ref: Ref) -> bool:
    if ref.kind == revisions.KIND:
        return revisions.find(connection, ref) is not None
    return codec.exists(connection, ref)


def _events(connection: sqlite3.Connection, kind: str | None, after: int) -> Generator[Unread[Event], None, None]:
    which, kinds = ("kind = ?", (kind,)) if kind is not None else (_ALL_KINDS, UNRECORDED)
    query = f"SELECT type, body, before FROM events WHERE rv > ? AND {which} ORDER BY rv"  # noqa: S608 - constants only
    with contextlib.closing(connection.execute(query, (after, *kinds))) as found:
        for type_, body, before in found:
            yield Unread(len(body), partial(_event, type_, body, before))


def _event(type_: Literal["ADDED", "MODIFIED", "DELETED"], body: bytes, before: bytes | None) -> Event:
    return Event(type_, codec.decode(body), len(body), indexes.decode_traits(before) if before is not None else None)


def _select(
    connection: sqlite3.Connection, kind: str, where: Where, start: ListCursor | None
) -> Generator[Unread[Resource], None, None]:
    if kind == revisions.KIND:
        return revisions.select(connection, where, start)
    return sqlite_query.select(connection, kind, where, start)

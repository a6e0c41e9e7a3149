"""What can be read of a SQLite store: plain functions on a connection, each of them one agreeing read."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from mizzen.errors import Expired, Unavailable
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource
from mizzen.stores import refusals, revisions, rows, selection
from mizzen.stores.pages import Place, check_limit, digest
from mizzen.stores.store import Event, Listing, Where

EVERYTHING = Where()
UNRECORDED = tuple(sorted(catalog.UNRECORDED))
_ALL_KINDS = f"kind NOT IN ({', '.join('?' for _ in UNRECORDED)})"


@dataclass(frozen=True, slots=True)
class Page:
    """Some events in order, and how far that is: every event up to `upto` was looked at."""

    events: tuple[Event, ...]
    upto: int


def get(connection: sqlite3.Connection, ref: Ref) -> Resource:
    found = revisions.find(connection, ref) if ref.kind == revisions.KIND else rows.find(connection, ref)
    if found is None:
        raise refusals.missing(ref)
    return found


def listing(connection: sqlite3.Connection, kind: str, where: Where, limit: int | None, after: str | None) -> Listing:
    check_limit(limit)
    start = Place.parse(after, kind, where) if after is not None else None
    items: list[Resource] = []
    with reading(connection):
        rv, horizon = position(connection)
        if start is not None and start.rv < horizon:
            raise Expired("this listing was begun too long ago to go on", hint="list again from the start")
        # A watch from the version of any page must show all that changed while the pages were read: so all of them
        # carry the version of the first.
        rv = rv if start is None else start.rv
        with contextlib.closing(_select(connection, kind, where, start)) as found:
            for item in found:
                if len(items) == limit:
                    last = items[-1].meta
                    place = Place(rv, kind, last.namespace, last.name, digest(where))
                    return Listing(tuple(items), str(rv), place.token())
                items.append(item)
    return Listing(tuple(items), str(rv))


class Present:
    """`store.Present` on the connection that is about to write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, ref: Ref) -> Resource:
        return get(self._connection, ref)

    def list(self, kind: str, where: Where = EVERYTHING) -> tuple[Resource, ...]:
        return listing(self._connection, kind, where, None, None).items


def events(connection: sqlite3.Connection, kind: str | None, after: int, size: int) -> Page:
    """Up to `size` events after version `after`. Expired when some of them may be gone; Revisions never are."""
    with reading(connection):
        rv, horizon = position(connection)
        if kind == revisions.KIND:
            horizon = 0
        if not horizon <= after <= rv:
            raise expired(after)
        if kind == revisions.KIND:
            written = revisions.after(connection, after, size)
            upto = int(written[-1].meta.resource_version) if len(written) == size else rv
            return Page(tuple(Event("ADDED", one) for one in written), upto)
        which, kinds = ("kind = ?", (kind,)) if kind is not None else (_ALL_KINDS, UNRECORDED)
        found = connection.execute(
            f"SELECT rv, type, body FROM events WHERE rv > ? AND {which} ORDER BY rv LIMIT ?",  # noqa: S608 - constants only
            (after, *kinds, size),
        ).fetchall()
    upto = found[-1][0] if len(found) == size else rv
    return Page(tuple(Event(type_, rows.decode(body)) for _, type_, body in found), upto)


def namespaces(connection: sqlite3.Connection) -> frozenset[str]:
    """Where an object that history knows, or a secret, is kept. Costs what it finds, not what is kept there."""
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
    """The version of the newest change of each kind, as far as events are kept."""
    found = dict(connection.execute("SELECT kind, max(rv) FROM events GROUP BY kind").fetchall())
    return found | {revisions.KIND: revisions.newest(connection)}


def position(connection: sqlite3.Connection) -> tuple[int, int]:
    """The last resource version given, and the horizon."""
    [(rv, horizon)] = connection.execute("SELECT rv, horizon FROM state").fetchall()
    return rv, horizon


def expired(since: int) -> Expired:
    return Expired(f"changes since resource version {since} are not kept", hint="list, then watch from there")


@contextlib.contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read within agrees. Part of the transaction that is open already, if one is."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        end(connection)


def end(connection: sqlite3.Connection) -> None:
    """End the read transaction, unless an input error has done so already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """What SQLite cannot do, in the words of our family."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the store cannot read: {error}") from error


def _select(
    connection: sqlite3.Connection, kind: str, where: Where, start: Place | None
) -> Generator[Resource, None, None]:
    if kind == revisions.KIND:
        return revisions.select(connection, where, start)
    return selection.select(connection, kind, where, start)

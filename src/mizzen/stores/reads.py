"""What can be read of a SQLite store: plain functions on a connection, each of them one agreeing read."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from mizzen.errors import BadRequest, Expired, NotFound, Unavailable
from mizzen.kinds.meta import Ref, Resource, parse_time
from mizzen.stores import rows
from mizzen.stores.store import Event, Listing, Revision, Where

EVERYTHING = Where()
LAST = "\U0010ffff"
"""No character comes after it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some events in order, and how far that is: every event up to `upto` was looked at."""

    events: tuple[Event, ...]
    upto: int


def get(connection: sqlite3.Connection, ref: Ref) -> Resource:
    found = rows.find(connection, ref)
    if found is None:
        raise NotFound(f"{ref} does not exist")
    return found


def listing(connection: sqlite3.Connection, kind: str, where: Where, limit: int | None, after: str | None) -> Listing:
    if limit is not None and limit < 1:
        raise BadRequest(f"a page has at least 1 item, not {limit}")
    start = _Place.parse(after, kind, where) if after is not None else None
    items: list[Resource] = []
    with reading(connection):
        rv, horizon = position(connection)
        if start is not None and start.rv < horizon:
            raise Expired("this listing was begun too long ago to go on", hint="list again from the start")
        # A watch from the version of any page must show all that changed while the pages were read: so all of them
        # carry the version of the first.
        rv = rv if start is None else start.rv
        with contextlib.closing(_select(connection, kind, where, start)) as bodies:
            for (body,) in bodies:
                item = rows.decode(body)
                if not where.labels.items() <= item.meta.labels.items():
                    continue
                if len(items) == limit:
                    last = items[-1].meta
                    return Listing(tuple(items), str(rv), _Place(rv, kind, last.namespace, last.name).token())
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


def history(connection: sqlite3.Connection, ref: Ref) -> tuple[Revision, ...]:
    return _revisions(connection, ref.kind, ref.namespace, "name = ? ORDER BY number", ref.name)


def histories(connection: sqlite3.Connection, kind: str, namespace: str, prefix: str) -> tuple[Revision, ...]:
    # A range rather than LIKE, which neither takes '%' and '_' as they are nor uses the index.
    return _revisions(connection, kind, namespace, "name >= ? AND name < ? ORDER BY rv", prefix, prefix + LAST)


def events(connection: sqlite3.Connection, kind: str | None, after: int, size: int) -> Page:
    """Up to `size` events after version `after`. Expired when some of them may be gone."""
    with reading(connection):
        rv, horizon = position(connection)
        if not horizon <= after <= rv:
            raise expired(after)
        found = connection.execute(
            "SELECT rv, type, body FROM events WHERE rv > ?1 AND (?2 IS NULL OR kind = ?2) ORDER BY rv LIMIT ?3",
            (after, kind, size),
        ).fetchall()
    upto = found[-1][0] if len(found) == size else rv
    return Page(tuple(Event(type_, rows.decode(body)) for _, type_, body in found), upto)


def newest(connection: sqlite3.Connection) -> dict[str, int]:
    """The version of the newest event of each kind, as far as events are kept."""
    return dict(connection.execute("SELECT kind, max(rv) FROM events GROUP BY kind").fetchall())


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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a listing goes on: after this key; `rv` is the version its first page was read at."""

    rv: int
    kind: str
    namespace: str
    name: str

    def token(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str, kind: str, where: Where) -> _Place:
        try:
            place = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadRequest("this is no token to continue a listing with") from error
        if place.kind != kind or where.namespace not in (None, place.namespace):
            raise BadRequest("this token continues another listing")
        return place


def _revisions(
    connection: sqlite3.Connection, kind: str, namespace: str, which: str, *names: str
) -> tuple[Revision, ...]:
    columns = "name, uid, number, action, actor, time, before, after"
    found = connection.execute(
        f"SELECT {columns} FROM revisions WHERE kind = ? AND namespace = ? AND {which}",  # noqa: S608 - constants only
        (kind, namespace, *names),
    ).fetchall()
    revisions = []
    for name, uid, number, action, actor, text, before, after in found:
        time = parse_time(text)
        assert time is not None
        revisions.append(
            Revision(
                Ref(kind, name, namespace), uid, number, action, actor, time,
                rows.decode_data(before), rows.decode_data(after),
            )
        )  # fmt: skip
    return tuple(revisions)


def _select(connection: sqlite3.Connection, kind: str, where: Where, start: _Place | None) -> sqlite3.Cursor:
    """Bodies in order, read as they are asked for. Each form of the condition is served by an index alone."""
    conditions, values = ["kind = ?"], [kind]
    if where.owner is not None:
        conditions.append("owner = ?")
        values.append(where.owner)
    if where.namespace is not None:
        conditions.append("namespace = ?")
        values.append(where.namespace)
    if start is not None and where.namespace is not None:
        conditions.append("name > ?")
        values.append(start.name)
    elif start is not None:
        conditions.append("(namespace, name) > (?, ?)")
        values += [start.namespace, start.name]
    table = "objects" if where.owner is None else "owners JOIN objects USING (kind, namespace, name)"
    condition = " AND ".join(conditions)
    return connection.execute(
        f"SELECT body FROM {table} WHERE {condition} ORDER BY namespace, name",  # noqa: S608 - constants only
        values,
    )

"""History in a SQLite store: written with the change, read as entries and as objects of the kind Revision.

Revision objects are ordered by (namespace, kind, name, number) of the changed object: its entries are adjacent, and its
tenth comes after its ninth. The history of a Namespace, which has no namespace, is stored in that namespace itself.
History is never changed or dropped, so a watch of it can begin anywhere.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import uuid
from collections.abc import Generator, Mapping
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from mizzen.kinds import catalog
from mizzen.kinds.revision import revision_name
from mizzen.kinds.schema.resource import Meta, Ref, Resource, format_time
from mizzen.kinds.text import selectors
from mizzen.stores.pages import FamilyPlace, ListCursor, Unread, check_limit, fill_page
from mizzen.stores.sqlite import codec, indexes
from mizzen.stores.store import Event, Revision, Where

KIND = "Revision"
ROOM = "Namespace"

_ORDER = ("namespace", "kind", "name", "number")
_KEY = ("kind", "name", "number")
_COLUMNS = "kind, namespace, name, number, uid, rv, action, actor, time, before, after, model"
_KINDS = {kind.singular: kind.name for kind in (*catalog.KINDS, *catalog.CORE)}
_UIDS = uuid.UUID("5d3c2f5e-8f0b-4d0e-9a53-6f1f3c1f7a10")


class _Row(NamedTuple):
    kind: str
    namespace: str
    name: str
    number: int
    uid: str
    rv: int
    action: str
    actor: str
    time: str
    before: bytes | None
    after: bytes | None
    model: str | None

    @property
    def size(self) -> int:
        return len(self.before or b"") + len(self.after or b"")


def record(
    connection: sqlite3.Connection,
    resource: Resource,
    action: str,
    by: str,
    time: datetime,
    *,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> bool:
    """Writes a history entry. Numbers continue when a name is reused: they come from history, not from the object.

    Returns False for kinds without history.
    """
    if resource.kind in catalog.UNRECORDED:
        return False
    meta = resource.meta
    key = _key(resource.ref)
    connection.execute(
        f"INSERT INTO revisions ({_COLUMNS})"  # noqa: S608 - constants only
        " SELECT ?, ?, ?, coalesce(max(number), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?"
        " FROM revisions WHERE kind = ? AND namespace = ? AND name = ?",
        (
            *key, meta.uid, int(meta.resource_version), action, by, format_time(time),
            None if before is None else codec.encode_data(before, resource),
            None if after is None else codec.encode_data(after, resource), indexes.model_of(resource), *key,
        ),
    )  # fmt: skip
    return True


def history(connection: sqlite3.Connection, ref: Ref) -> tuple[Revision, ...]:
    found = _read(connection, "WHERE kind = ? AND namespace = ? AND name = ? ORDER BY number", *_key(ref))
    return tuple(map(_entry, found))


def family_history(
    connection: sqlite3.Connection, model: Ref, limit: int | None, after: str | None
) -> tuple[tuple[Revision, ...], str | None]:
    check_limit(limit)
    start = FamilyPlace.parse(after, model).rv if after is not None else 0
    which = "INDEXED BY revisions_of_family WHERE namespace = ? AND model = ? AND rv > ? ORDER BY rv"
    with closing(_each(connection, which, model.namespace, model.name, start)) as found:
        page, more = fill_page((Unread(row.size, partial(_revision_of, row)) for row in found), limit)
    token = FamilyPlace(page[-1][0], model.namespace, model.name).token() if more else None
    return tuple(entry for _, entry in page), token


def last_change(connection: sqlite3.Connection, model: Ref) -> Revision | None:
    which = "INDEXED BY revisions_of_family WHERE namespace = ? AND model = ? ORDER BY rv DESC LIMIT 1"
    found = _read(connection, which, model.namespace, model.name)
    return _entry(found[0]) if found else None


def find(connection: sqlite3.Connection, ref: Ref) -> Resource | None:
    key = _parse(ref.name)
    if key is None:
        return None
    found = _read(connection, "WHERE kind = ? AND name = ? AND number = ? AND namespace = ?", *key, ref.namespace)
    return _resource(found[0]) if found else None


def after(connection: sqlite3.Connection, rv: int) -> Generator[Unread[Event], None, None]:
    """Yields revisions written after that resource version, in write order. Close it to stop."""
    with closing(_each(connection, "INDEXED BY revisions_by_rv WHERE rv > ? ORDER BY rv", rv)) as found:
        for row in found:
            yield Unread(row.size, partial(_event_of, row))


def newest(connection: sqlite3.Connection) -> int:
    """Returns the resource version of the last revision."""
    [(rv,)] = connection.execute("SELECT max(rv) FROM revisions").fetchall()
    return rv or 0


def select(
    connection: sqlite3.Connection, where: Where, start: ListCursor | None
) -> Generator[Unread[Resource], None, None]:
    """Like `query.select`. Revisions have neither labels nor owners."""
    indexes.check_fields(KIND, where)
    if where.owner is not None or not selectors.holds(where.labels, {}):
        return
    fixed = _equal_values(where)
    if fixed is None:
        return
    conditions = [f"{column} = ?" for column in fixed]
    values = [*fixed.values()]
    for path, value in where.unlike:
        unwanted = _columns(path, value)
        if unwanted:
            conditions.append(f"NOT ({' AND '.join(f'{column} IS ?' for column in unwanted)})")
            values += unwanted.values()
    if start is not None:
        key = _parse(start.name)
        order = [column for column in _ORDER if column not in fixed]
        if key is None or not order:
            return
        place: dict[str, str | int] = {"namespace": start.namespace, **dict(zip(_KEY, key, strict=True))}
        conditions.append(f"({', '.join(order)}) > ({', '.join('?' for _ in order)})")
        values += [place[column] for column in order]
    which = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    with closing(_each(connection, f"{_index(fixed)} {which} ORDER BY {', '.join(_ORDER)}", *values)) as found:
        for row in found:
            yield Unread(row.size, partial(_resource, row))


def _equal_values(where: Where) -> dict[str, str | int] | None:
    """Returns columns and the values they must equal, or None if nothing can match."""
    fixed: dict[str, str | int] = {}
    wanted: list[tuple[str, str | int | None]] = [("namespace", where.namespace)]
    for path, value in where.fields.items():
        columns = _columns(path, value)
        if columns is None:
            return None
        wanted += columns.items()
    for column, one in wanted:
        if one is not None and fixed.setdefault(column, one) != one:
            return None
    return fixed


def _columns(path: str, value: str) -> dict[str, str | int] | None:
    """Returns the columns of a field and their contents if it equals `value`; None if it never can."""
    if path != "metadata.name":
        return {path.rpartition(".")[2]: value}
    key = _parse(value)
    return None if key is None else dict(zip(_KEY, key, strict=True))


def _index(fixed: Mapping[str, object]) -> str:
    """Returns the index clause for these columns that also gives the right order."""
    if {"kind", "namespace", "name"} <= set(fixed):
        return ""  # the primary key
    if "name" in fixed:
        return "INDEXED BY revisions_by_name"
    if "model" in fixed:
        return "INDEXED BY revisions_by_model"
    if "kind" in fixed:
        return ""  # the primary key begins with it
    return "INDEXED BY revisions_in_order"


def _parse(name: str) -> tuple[str, str, int] | None:
    """`modelversion.iris.1.2` is the second of ModelVersion `iris.1`: kinds and numbers contain no dot."""
    found = re.fullmatch(r"([a-z]+)\.(.+)\.([1-9][0-9]{0,17})", name, re.DOTALL)
    kind = found and _KINDS.get(found[1])
    return (kind, found[2], int(found[3])) if found and kind else None


def _read(connection: sqlite3.Connection, which: str, *values: object) -> list[_Row]:
    return [*_each(connection, which, *values)]


def _each(connection: sqlite3.Connection, which: str, *values: object) -> Generator[_Row, None, None]:
    query = f"SELECT {_COLUMNS} FROM revisions {which}"  # noqa: S608 - constants only
    with closing(connection.execute(query, values)) as found:
        for row in found:
            yield _Row(*row)


def _key(ref: Ref) -> tuple[str, str, str]:
    return ref.kind, ref.name if ref.kind == ROOM else ref.namespace, ref.name


def _revision_of(row: _Row) -> tuple[int, Revision]:
    return row.rv, _entry(row)


def _event_of(row: _Row) -> Event:
    return Event("ADDED", _resource(row), row.size)


def _entry(row: _Row) -> Revision:
    of = Ref(row.kind, row.name, "" if row.kind == ROOM else row.namespace)
    return Revision(
        of, row.uid, row.number, row.action, row.actor, codec.moment(row.time),
        codec.decode_data(row.before), codec.decode_data(row.after),
    )  # fmt: skip


def _resource(row: _Row) -> Resource:
    meta = Meta(
        revision_name(row.kind, row.name, row.number), row.namespace,
        uid=str(uuid.uuid5(_UIDS, f"{row.uid}.{row.number}")),
        resource_version=str(row.rv), generation=1, created=codec.moment(row.time),
    )  # fmt: skip
    after = codec.decode_data(row.after)
    spec = {
        "kind": row.kind, "name": row.name, "uid": row.uid, "model": row.model, "number": row.number,
        "action": row.action, "actor": row.actor, "time": row.time, "before": codec.decode_data(row.before),
        "after": after, "hash": None if after is None else _hash(after),
    }  # fmt: skip
    return Resource(KIND, meta, {name: value for name, value in spec.items() if value is not None})


def _hash(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(codec.canonical(data)).hexdigest()

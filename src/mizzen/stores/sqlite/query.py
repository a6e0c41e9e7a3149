"""Selection of objects by a `Where` through its narrowest index, ordered by (namespace, name).

A query walks one index in its own order, so nothing is sorted and the cost is bounded by the page. The other conditions
are checked in their indexes for each object, before its body is read. Only conditions that no index can serve (`!a`,
`a notin (b)`, `field!=b`), used alone, scan all objects of the kind.
"""

from __future__ import annotations

import contextlib
import heapq
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.text.selectors import Requirement
from mizzen.stores.pages import ListCursor, Unread
from mizzen.stores.sqlite import codec, indexes
from mizzen.stores.store import Where

MERGED = 32
"""Maximum number of label values to look up one by one; beyond it, all objects with the label are scanned."""
PROBED = 1000
"""Maximum count when estimating which of several indexes is narrower."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A condition on `k`, the row that carries kind, namespace and name, with its values."""

    sql: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through an index: one or more disjoint, ordered parts of it."""

    index: str
    """The table, and the index to use unless it is the primary key."""
    parts: tuple[_Term, ...]


@dataclass(frozen=True, slots=True)
class _Condition:
    holds: _Term
    """The check for an object found through another index."""
    walk: _Walk | None = None
    """The walk over all objects that satisfy the condition, if an index has them."""


def select(
    connection: sqlite3.Connection, kind: str, where: Where, start: ListCursor | None
) -> Generator[Unread[Resource], None, None]:
    """Yields objects lazily; close it to stop. Raises BadRequest for a field that is not indexed."""
    indexes.check_fields(kind, where)
    namespaces = {where.namespace, where.fields.get("metadata.namespace")} - {None}
    if len(namespaces) > 1:
        return
    fixed = {"namespace": next(iter(namespaces), None), "name": where.fields.get("metadata.name")}
    common = [_Term("k.kind = ?", (kind,))]
    common += [_Term(f"k.{column} = ?", (value,)) for column, value in fixed.items() if value is not None]
    conditions = [*_conditions(where)]
    if fixed["name"] is not None:
        # The primary key; across all namespaces, the index that begins with the name.
        index = "objects AS k" if namespaces else "objects AS k INDEXED BY objects_by_name"
        chosen = _Condition(_Term("TRUE"), _Walk(index, (_Term("TRUE"),)))
    else:
        chosen = _narrowest(connection, conditions, common)
    common += _after(start, [column for column, value in fixed.items() if value is None])
    common += [condition.holds for condition in conditions if condition is not chosen]
    assert chosen.walk is not None
    for body in _bodies(connection, chosen.walk, common):
        yield codec.unread(body)


def _conditions(where: Where) -> Iterator[_Condition]:
    if where.owner is not None:
        values: tuple[str, ...] = (where.owner,)
        walk = _Walk("owners AS k", (_Term("k.owner = ?", values),))
        yield _Condition(_found("owners", "x.owner = ?", values), walk)
    for path, value in where.fields.items():
        if path not in indexes.EVERY_KIND:
            walk = _Walk("fields AS k", (_Term("k.path = ? AND k.value = ?", (path, value)),))
            yield _Condition(_found("fields", "x.path = ? AND x.value = ?", (path, value)), walk)
    for path, value in where.unlike:
        if path in indexes.EVERY_KIND:
            yield _Condition(_Term(f"k.{path.rpartition('.')[2]} != ?", (value,)))
        else:
            yield _Condition(_found("fields", "x.path = ? AND x.value = ?", (path, value), wanted=False))
    for requirement in where.labels:
        yield _label(requirement)


def _label(requirement: Requirement) -> _Condition:
    key, values = requirement.key, tuple(sorted(requirement.values))
    among = f"value IN ({', '.join('?' for _ in values)})"
    match requirement.op:
        case "absent":
            return _Condition(_found("labels", "x.key = ?", (key,), wanted=False))
        case "notin":
            return _Condition(_found("labels", f"x.key = ? AND x.{among}", (key, *values), wanted=False))
        case "exists":
            walk = _Walk("labels AS k INDEXED BY labels_by_key", (_Term("k.key = ?", (key,)),))
            return _Condition(_found("labels", "x.key = ?", (key,)), walk)
        case "in" if len(values) > MERGED:
            part = _Term(f"k.key = ? AND k.{among}", (key, *values))
            walk = _Walk("labels AS k INDEXED BY labels_by_key", (part,))
        case "in":
            # An object has at most one value of a label, so no object is in two parts.
            walk = _Walk("labels AS k", tuple(_Term("k.key = ? AND k.value = ?", (key, value)) for value in values))
    return _Condition(_found("labels", f"x.key = ? AND x.{among}", (key, *values)), walk)


def _found(table: str, condition: str, values: tuple[str, ...], *, wanted: bool = True) -> _Term:
    same = "x.kind = k.kind AND x.namespace = k.namespace AND x.name = k.name"
    word = "EXISTS" if wanted else "NOT EXISTS"
    return _Term(f"{word} (SELECT 1 FROM {table} AS x WHERE {condition} AND {same})", values)  # noqa: S608 - constants only


def _narrowest(connection: sqlite3.Connection, conditions: list[_Condition], common: list[_Term]) -> _Condition:
    leading = [condition for condition in conditions if condition.walk is not None]
    if not leading:
        return _Condition(_Term("TRUE"), _Walk("objects AS k", (_Term("TRUE"),)))
    bound = 16
    while len(leading) > 1:
        # Raise the bound until one count ends, so the estimate costs no more than the narrowest index.
        widths = [_width(connection, condition, common, bound) for condition in leading]
        if min(widths) < bound or bound >= PROBED:
            return leading[widths.index(min(widths))]
        bound *= 4
    return leading[0]


def _width(connection: sqlite3.Connection, condition: _Condition, common: list[_Term], bound: int) -> int:
    """Returns how many objects the condition selects, counted up to the bound."""
    assert condition.walk is not None
    width = 0
    for part in condition.walk.parts:
        which, values = _join_terms((*common, part))
        [(count,)] = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {condition.walk.index} WHERE {which} LIMIT {bound - width})",  # noqa: S608 - constants only
            values,
        ).fetchall()
        width += count
    return width


def _after(start: ListCursor | None, order: list[str]) -> list[_Term]:
    """Returns the terms for rows after `start`, over the order columns that differ between rows."""
    if start is None:
        return []
    if not order:
        return [_Term("FALSE")]
    columns, marks = ", ".join(f"k.{column}" for column in order), ", ".join("?" for _ in order)
    return [_Term(f"({columns}) > ({marks})", tuple(getattr(start, column) for column in order))]


def _bodies(connection: sqlite3.Connection, walk: _Walk, common: list[_Term]) -> Iterator[bytes]:
    body, objects = "k.body", ""
    if not walk.index.startswith("objects"):
        body, objects = "o.body", " CROSS JOIN objects AS o USING (kind, namespace, name)"
    with contextlib.ExitStack() as opened:
        streams: list[sqlite3.Cursor] = []
        for part in walk.parts:
            which, values = _join_terms((*common, part))
            cursor = connection.execute(
                f"SELECT k.namespace, k.name, {body} FROM {walk.index}{objects} WHERE {which}"  # noqa: S608 - constants only
                " ORDER BY k.namespace, k.name",
                values,
            )
            opened.callback(cursor.close)
            streams.append(cursor)
        for _, _, found in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=itemgetter(0, 1)):
            yield found


def _join_terms(terms: Iterable[_Term]) -> tuple[str, list[str]]:
    terms = tuple(terms)
    return " AND ".join(term.sql for term in terms), [value for term in terms for value in term.values]

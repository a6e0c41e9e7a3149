"""The audit log in a SQLite store. Entries are added and read, never changed; the tables reject anything else.

Only `prune` drops old entries: the tables allow deletes only of entries older than the limits that it has set.

Newest first means by time, then by number. The actor, the object, and refusals have an index each, with rows in that
order; other conditions of a query filter the rows of that index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any

from mizzen.errors import BadRequest
from mizzen.kinds.schema.resource import format_time
from mizzen.stores.pages import check_limit
from mizzen.stores.records.protocol import AuditEntry, AuditQuery
from mizzen.stores.sqlite import codec
from mizzen.stores.sqlite.reader_pool import Readers
from mizzen.stores.sqlite.writer import Writer

_COLUMNS = "time, actor, verb, kind, namespace, name, allowed, reason, method, path, code, source, count"
"""In the order of the fields of an AuditEntry."""
_WITHOUT_TIME = attrgetter(*_COLUMNS.split(", ")[1:])

PRUNED_AT_ONCE = 500
"""Entries dropped in one transaction, so that other writes can run in between."""


class SqliteAudit:
    """Implements `AuditLog`, `AuditIntake` and `AuditPruning`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def record(self, entry: AuditEntry) -> None:
        await self.record_all((entry,))

    async def record_all(self, entries: Iterable[AuditEntry]) -> None:
        new = [_row(entry) for entry in entries]
        if new:
            await self._writer.write(lambda connection: _insert(connection, new))

    async def read_positions(self) -> dict[str, int]:
        return await self._readers.run(
            lambda connection: dict(connection.execute("SELECT file, position FROM audit_files").fetchall())
        )

    async def take(self, file: str, position: int, entries: Iterable[AuditEntry]) -> None:
        new = [_row(entry) for entry in entries]

        def work(connection: sqlite3.Connection) -> None:
            _insert(connection, new)
            connection.execute("INSERT OR REPLACE INTO audit_files VALUES (?, ?)", (file, position))

        await self._writer.write(work)

    async def forget(self, file: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM audit_files WHERE file = ?", (file,))

        await self._writer.write(work)

    async def prune(self, *, allowed_before: datetime | None, refusals: int) -> int:
        before, gone = format_time(allowed_before) if allowed_before else "", 0
        while True:
            old = await self._readers.run(lambda connection: _old(connection, before) if before else [])
            surplus = await self._readers.run(lambda connection: _surplus(connection, refusals))
            if not old and not surplus:
                return gone
            await self._writer.write(lambda connection: _drop(connection, old, surplus))  # noqa: B023 - awaited
            gone += len(old) + len(surplus)

    async def entries(self, query: AuditQuery, *, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        check_limit(limit)
        return await self._readers.run(lambda connection: select(connection, query, limit, before))


def select(connection: sqlite3.Connection, query: AuditQuery, limit: int, before: int | None) -> tuple[AuditEntry, ...]:
    conditions: list[str] = []
    values: list[object] = []
    for column, wanted in (
        ("actor = ?", query.actor),
        ("namespace = ?", query.namespace),
        ("kind = ?", query.kind),
        ("name = ?", query.name),
        ("time >= ?", query.since and format_time(query.since)),
        ("time < ?", query.until and format_time(query.until)),
    ):
        if wanted is not None:
            conditions.append(column)
            values.append(wanted)
    if query.allowed is not None:
        conditions.append(f"allowed = {int(query.allowed)}")  # a literal, so that SQLite can use the index
    if before is not None:
        conditions.append("(time, number) < (?, ?)")
        values += [_time_of(connection, before), before]
    which = " AND ".join(conditions) or "TRUE"
    found = connection.execute(
        f"SELECT number, {_COLUMNS} FROM audit INDEXED BY {_index(query)} WHERE {which}"  # noqa: S608 - constants only
        " ORDER BY time DESC, number DESC LIMIT ?",
        (*values, limit),
    ).fetchall()
    return tuple(map(_entry, found))


def _insert(connection: sqlite3.Connection, new: list[tuple[object, ...]]) -> None:
    marks = ", ".join("?" for _ in _COLUMNS.split(","))
    connection.executemany(f"INSERT INTO audit ({_COLUMNS}) VALUES ({marks})", new)  # noqa: S608 - constants only


def _old(connection: sqlite3.Connection, before: str) -> list[tuple[int, str]]:
    """Returns numbers and times of entries allowed before then.

    The last entry of all always stays, as in `_surplus`: the next number is counted from it.
    """
    return connection.execute(
        "SELECT number, time FROM audit INDEXED BY audit_by_time"
        " WHERE time >= (SELECT allowed_upto FROM audit_pruned) AND time < ? AND allowed = 1"
        " AND number < (SELECT max(number) FROM audit) ORDER BY time LIMIT ?",
        (before, PRUNED_AT_ONCE),
    ).fetchall()


def _surplus(connection: sqlite3.Connection, refusals: int) -> list[tuple[int, str]]:
    [(there,)] = connection.execute("SELECT count(*) FROM audit INDEXED BY audit_refused WHERE allowed = 0").fetchall()
    if there <= refusals:
        return []
    return connection.execute(
        "SELECT number, time FROM audit INDEXED BY audit_refused"
        " WHERE allowed = 0 AND number < (SELECT max(number) FROM audit) ORDER BY time, number LIMIT ?",
        (min(there - refusals, PRUNED_AT_ONCE),),
    ).fetchall()


def _drop(connection: sqlite3.Connection, old: list[tuple[int, str]], surplus: list[tuple[int, str]]) -> None:
    for column, entries in (("allowed_upto", old), ("refused_upto", surplus)):
        upto = entries[-1][1] if entries else ""
        connection.execute(f"UPDATE audit_pruned SET {column} = max({column}, ?)", (upto,))  # noqa: S608 - constants only
    connection.executemany("DELETE FROM audit WHERE number = ?", [(number,) for number, _ in (*old, *surplus)])


def _index(query: AuditQuery) -> str:
    if None not in (query.namespace, query.kind, query.name):
        return "audit_by_object"
    if query.actor is not None:
        return "audit_by_actor"
    return "audit_refused" if query.allowed is False else "audit_by_time"


def _time_of(connection: sqlite3.Connection, number: int) -> str:
    found = connection.execute("SELECT time FROM audit WHERE number = ?", (number,)).fetchall()
    if not found:
        raise BadRequest(f"audit entry {number}, the start of the page, does not exist", hint="start again without it")
    return str(found[0][0])


def _row(entry: AuditEntry) -> tuple[object, ...]:
    return format_time(entry.time), *_WITHOUT_TIME(entry)


def _entry(row: tuple[Any, ...]) -> AuditEntry:
    number, time, actor, verb, kind, namespace, name, allowed, reason, method, path, code, source, count = row
    return AuditEntry(
        codec.moment(time), actor, verb, kind, namespace, name, bool(allowed), reason,
        method, path, code, source, count, number,
    )  # fmt: skip

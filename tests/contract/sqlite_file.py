"""Looks at the file of a SQLite store from outside: whether all that it keeps twice agrees."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.sqlite import codec


def inspect(path: Path, since: int = 0) -> None:
    """Fails unless the indexes are those of a full scan, and every object and revision has its event.

    `since`: history up to that version was looked at before.
    """
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        inspect_indexes(connection)
        inspect_events(connection)
        inspect_revisions(connection, since)
    finally:
        connection.close()


def inspect_indexes(connection: sqlite3.Connection) -> None:
    wanted: dict[str, set[tuple[str, ...]]] = {"owners": set(), "labels": set(), "fields": set()}
    for kind, namespace, name, rv, body, model in connection.execute(
        "SELECT kind, namespace, name, rv, body, model FROM objects"
    ):
        one = codec.decode(body)
        assert model == catalog.model_of(one)
        assert (one.kind, one.meta.namespace, one.meta.name) == (kind, namespace, name)
        assert one.meta.resource_version == str(rv)
        wanted["owners"] |= {(owner.uid, kind, namespace, name) for owner in one.meta.owners}
        wanted["labels"] |= {(kind, key, value, namespace, name) for key, value in one.meta.labels.items()}
        for field in (*catalog.BY_NAME[kind].indexed, *catalog.BY_NAME[kind].derived):
            value = catalog.field(one, field)
            if value is not None:
                wanted["fields"].add((kind, field, value, namespace, name))
    for table, entries in wanted.items():
        found = connection.execute(f"SELECT * FROM {table}").fetchall()
        assert sorted(found) == sorted(entries), table


def inspect_events(connection: sqlite3.Connection) -> None:
    [(rv, horizon)] = connection.execute("SELECT rv, horizon FROM state")
    assert [version for (version,) in connection.execute("SELECT rv FROM events ORDER BY rv")] == [
        *range(horizon + 1, rv + 1)
    ]
    torn = connection.execute(
        "SELECT * FROM objects AS o WHERE rv > ? AND NOT EXISTS"
        " (SELECT 1 FROM events AS e WHERE e.rv = o.rv AND e.kind = o.kind AND e.body = o.body)",
        (horizon,),
    )
    assert torn.fetchall() == []


def inspect_revisions(connection: sqlite3.Connection, since: int) -> None:
    [(horizon,)] = connection.execute("SELECT max(horizon, ?) FROM state", (since,))
    torn = connection.execute(
        "SELECT kind, namespace, name, number FROM revisions AS r WHERE rv > ? AND NOT EXISTS (SELECT 1 FROM events"
        " AS e WHERE e.rv = r.rv AND e.kind = r.kind AND e.name = r.name"
        " AND iif(e.kind = 'Namespace', e.name, e.namespace) = r.namespace)",
        (horizon,),
    )
    assert torn.fetchall() == []
    for kind, name, action, before, after, model in connection.execute(
        "SELECT kind, name, action, before, after, model FROM revisions WHERE rv > ?", (since,)
    ):
        if action in ("created", "updated", "deleted"):
            spec = codec.decode_data(after if after is not None else before)
            assert model == catalog.model_of(Resource(kind, Meta(name), spec or {}))
    gaps = connection.execute(
        "SELECT kind, namespace, name FROM revisions GROUP BY kind, namespace, name"
        " HAVING min(number) <> 1 OR max(number) <> count(*)"
    )
    assert gaps.fetchall() == []
    unrecorded = connection.execute(
        "SELECT kind, namespace, name FROM objects AS o WHERE kind <> 'Event' AND NOT EXISTS"
        " (SELECT 1 FROM revisions AS r WHERE r.kind = o.kind AND r.name = o.name"
        " AND r.namespace = iif(o.kind = 'Namespace', o.name, o.namespace)"
        " AND r.uid = o.uid AND r.action = 'created')"
    )
    assert unrecorded.fetchall() == []

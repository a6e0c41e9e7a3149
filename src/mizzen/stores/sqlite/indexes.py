"""Index rows of objects: their owners, labels, and the fields that the catalog declares as indexed or derived.

They change in the same transaction as the object, so an index lookup agrees with a full scan.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import msgspec

from mizzen.errors import BadRequest
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.sqlite import codec
from mizzen.stores.store import Traits, Where

EVERY_KIND = ("metadata.name", "metadata.namespace")
"""Fields that can select objects of every kind, through the primary key."""

Key = tuple[str, str, str]
"""kind, namespace, name"""


@dataclass(frozen=True, slots=True)
class Entries:
    """The index entries of one object."""

    owners: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()


NOTHING = Entries()


def entries(resource: Resource) -> Entries:
    found = ((path, catalog.field(resource, path)) for path in index_fields(resource.kind))
    return Entries(
        frozenset(owner.uid for owner in resource.meta.owners),
        frozenset(resource.meta.labels.items()),
        frozenset((path, value) for path, value in found if value is not None),
    )


def selectors_before(before: Entries, after: Entries) -> Traits | None:
    """Returns the traits of the object before a change, or None if they are unchanged."""
    if (before.labels, before.fields) == (after.labels, after.fields):
        return None
    return Traits(dict(before.labels), dict(before.fields))


decode_traits = msgspec.json.Decoder(Traits).decode


def index_fields(kind: str) -> tuple[str, ...]:
    known = catalog.BY_NAME.get(kind)
    return (*known.indexed, *known.derived) if known else ()


def check_fields(kind: str, where: Where) -> None:
    """Raises BadRequest for a field that is not indexed for this kind."""
    valid = (*EVERY_KIND, *index_fields(kind))
    for path in (*where.fields, *(path for path, _ in sorted(where.unlike))):
        if path not in valid:
            raise BadRequest(
                f"fieldSelector: {kind} cannot be selected by '{path}'", hint=f"valid are {', '.join(valid)}"
            )


def model_of(resource: Resource) -> str | None:
    return catalog.model_of(resource) if resource.kind in catalog.BY_NAME else None


def move(connection: sqlite3.Connection, key: Key, before: Entries, after: Entries) -> None:
    """Writes only the difference: most writes change no index row, and cost nothing here."""
    if before == after:
        return
    kind, namespace, name = key
    for owner in before.owners - after.owners:
        connection.execute(
            "DELETE FROM owners WHERE owner = ? AND kind = ? AND namespace = ? AND name = ?", (owner, *key)
        )
    for owner in after.owners - before.owners:
        connection.execute("INSERT INTO owners VALUES (?, ?, ?, ?)", (owner, *key))
    for table, column, old, new in (
        ("labels", "key", before.labels, after.labels),
        ("fields", "path", before.fields, after.fields),
    ):
        for pair in old - new:
            connection.execute(
                f"DELETE FROM {table} WHERE kind = ? AND {column} = ? AND value = ? AND namespace = ? AND name = ?",  # noqa: S608 - constants only
                (kind, *pair, namespace, name),
            )
        for pair in new - old:
            connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", (kind, *pair, namespace, name))  # noqa: S608 - constants only


def refresh(connection: sqlite3.Connection) -> None:
    """Rebuilds all rows if the catalog has changed since they were built."""
    wanted = _describe()
    [(found,)] = connection.execute("SELECT indexed FROM state").fetchall()
    if found == wanted:
        return
    connection.execute("DELETE FROM labels")
    connection.execute("DELETE FROM fields")
    models: list[tuple[str | None, int]] = []
    # Writing during the read is safe: `move` writes to other tables than the one being read.
    for rowid, body in connection.execute("SELECT rowid, body FROM objects"):
        resource = codec.decode(body)
        made = entries(resource)
        key = (resource.kind, resource.meta.namespace, resource.meta.name)
        move(connection, key, NOTHING, Entries(labels=made.labels, fields=made.fields))
        models.append((model_of(resource), rowid))
    connection.executemany("UPDATE objects SET model = ? WHERE rowid = ?", models)
    _assign_models(connection)
    connection.execute("UPDATE state SET indexed = ?", (wanted,))


def _describe() -> str:
    kinds = (*catalog.KINDS, *catalog.CORE)
    return msgspec.json.encode([(kind.name, index_fields(kind.name), kind.model) for kind in kinds]).decode()


def _assign_models(connection: sqlite3.Connection) -> None:
    """Sets the model of each revision. A decision's revision has no spec, but an earlier one does."""
    known: dict[str, str | None] = {}
    found: list[tuple[str | None, int]] = []
    for rowid, kind, namespace, name, uid, action, before, after in connection.execute(
        "SELECT rowid, kind, namespace, name, uid, action, before, after FROM revisions"
        " ORDER BY kind, namespace, name, number"
    ):
        if action in ("created", "updated", "deleted"):
            spec = codec.decode_data(before if after is None else after) or {}
            known[uid] = model_of(Resource(kind, Meta(name, namespace), spec))
        found.append((known.get(uid), rowid))
    connection.executemany("UPDATE revisions SET model = ? WHERE rowid = ?", found)

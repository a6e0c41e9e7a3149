"""The tables of a SQLite store, and connections to them.

Every resource version has exactly one row in `events` until it is compacted. `state` holds the counter, so no version
is ever assigned twice, and the horizon: the highest version whose event is gone. Opening a file of an older schema
migrates it in one transaction, so a file is never half-migrated.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from mizzen.errors import Conflict, Unavailable
from mizzen.stores.sqlite import indexes

SCHEMA = 7

_FIRST = (
    "CREATE TABLE state (only INTEGER PRIMARY KEY CHECK (only = 1), rv INTEGER NOT NULL, horizon INTEGER NOT NULL)",
    "INSERT INTO state VALUES (1, 0, 0)",
    """CREATE TABLE objects (
        kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, rv INTEGER NOT NULL,
        generation INTEGER NOT NULL, deleting INTEGER NOT NULL, body BLOB NOT NULL,
        UNIQUE (kind, namespace, name))""",
    """CREATE TABLE owners (
        owner TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (owner, kind, namespace, name)) WITHOUT ROWID""",
    """CREATE TABLE events (
        rv INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,
        body BLOB NOT NULL)""",
    """CREATE TABLE revisions (
        kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, uid TEXT NOT NULL,
        rv INTEGER NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL, time TEXT NOT NULL, before BLOB, after BLOB,
        UNIQUE (kind, namespace, name, number))""",
)

_SECOND = (
    # The catalog's state when the rows of `fields` and the columns `model` were built; see indexes.refresh.
    "ALTER TABLE state ADD COLUMN indexed TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX objects_by_name ON objects (kind, name, namespace)",
    """CREATE TABLE labels (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (kind, key, value, namespace, name)) WITHOUT ROWID""",
    "CREATE INDEX labels_by_key ON labels (kind, key, namespace, name)",
    """CREATE TABLE fields (
        kind TEXT NOT NULL, path TEXT NOT NULL, value TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (kind, path, value, namespace, name)) WITHOUT ROWID""",
    "ALTER TABLE revisions ADD COLUMN model TEXT",
    "CREATE INDEX revisions_by_rv ON revisions (rv)",
    "CREATE INDEX revisions_in_order ON revisions (namespace, kind, name, number)",
    "CREATE INDEX revisions_by_name ON revisions (name, namespace, kind, number)",
    "CREATE INDEX revisions_by_model ON revisions (model, namespace, kind, name, number) WHERE model IS NOT NULL",
    "CREATE INDEX revisions_of_family ON revisions (namespace, model, rv) WHERE model IS NOT NULL",
    "CREATE TABLE principals (name TEXT PRIMARY KEY, created TEXT NOT NULL, created_by TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY, principal TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, created TEXT NOT NULL,
        created_by TEXT NOT NULL, expires TEXT, revoked TEXT, note TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE secrets (
        namespace TEXT NOT NULL, name TEXT NOT NULL, keys TEXT NOT NULL, sealed BLOB NOT NULL, updated TEXT NOT NULL,
        updated_by TEXT NOT NULL, UNIQUE (namespace, name))""",
    """CREATE TABLE audit (
        number INTEGER PRIMARY KEY, time TEXT NOT NULL, actor TEXT NOT NULL, verb TEXT NOT NULL, kind TEXT NOT NULL,
        namespace TEXT NOT NULL, name TEXT NOT NULL, allowed INTEGER NOT NULL, reason TEXT NOT NULL,
        method TEXT NOT NULL, path TEXT NOT NULL, code INTEGER NOT NULL, source TEXT NOT NULL,
        count INTEGER NOT NULL)""",
    "CREATE INDEX audit_by_time ON audit (time)",
    "CREATE INDEX audit_by_actor ON audit (actor, time)",
    "CREATE INDEX audit_by_object ON audit (namespace, kind, name, time)",
    "CREATE INDEX audit_refused ON audit (time) WHERE allowed = 0",
    "CREATE TABLE audit_files (file TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END",
)

_THIRD = (
    # Audit entries up to here may be deleted; see SqliteAudit.prune. The tables keep all others.
    """CREATE TABLE audit_pruned (
        only INTEGER PRIMARY KEY CHECK (only = 1), allowed_upto TEXT NOT NULL, refused_upto TEXT NOT NULL)""",
    "INSERT INTO audit_pruned VALUES (1, '', '')",
    "DROP TRIGGER audit_is_not_removed",
    """CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
        WHEN NOT EXISTS (SELECT 1 FROM audit_pruned
            WHERE OLD.time <= CASE OLD.allowed WHEN 0 THEN refused_upto ELSE allowed_upto END)
        BEGIN SELECT RAISE(ABORT, 'append only'); END""",
)

_FOURTH = (
    # Which model an object belongs to. In this index, objects of one model are in creation order.
    "ALTER TABLE objects ADD COLUMN model TEXT",
    "CREATE INDEX objects_of_model ON objects (kind, namespace, model) WHERE model IS NOT NULL",
    "UPDATE state SET indexed = ''",
)

_FIFTH = (
    # What selectors saw of the object before the change, if it differs from after it. Unknown for older events:
    # watchers that resume from those must list again.
    "ALTER TABLE events ADD COLUMN before BLOB",
    "DELETE FROM events",
    "UPDATE state SET horizon = rv",
    # The history of a namespace is stored in that namespace; see revisions.
    "UPDATE revisions SET namespace = name WHERE kind = 'Namespace'",
)

_SIXTH = (
    """CREATE TABLE limits (
        subject TEXT PRIMARY KEY, per_second REAL NOT NULL, burst INTEGER NOT NULL, per_day INTEGER NOT NULL,
        per_month INTEGER NOT NULL, updated TEXT NOT NULL, updated_by TEXT NOT NULL) WITHOUT ROWID""",
)

_SEVENTH = (
    # The store's id, and the number of its commits: marks outside of the file name both; see stores/marks. `indexed` is
    # last, because it is long: marks.wal reads the numbers from the page itself.
    """CREATE TABLE marked_state (
        only INTEGER PRIMARY KEY CHECK (only = 1), rv INTEGER NOT NULL, horizon INTEGER NOT NULL,
        commits INTEGER NOT NULL, id TEXT NOT NULL, indexed TEXT NOT NULL)""",
    "INSERT INTO marked_state SELECT 1, rv, horizon, 1, lower(hex(randomblob(16))), indexed FROM state",
    "DROP TABLE state",
    "ALTER TABLE marked_state RENAME TO state",
)

_STEPS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH)
"""Migrations from each schema to the next. A new file runs all of them, so none is only for old files."""

assert len(_STEPS) == SCHEMA


def open_writer(path: Path) -> sqlite3.Connection:
    """Opens the only connection that writes; creates the tables of a new file. Raises Conflict for a foreign file.

    Only the owner can read the file: it holds digests of tokens and sealed secrets.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = _connect(path)
    try:
        _set_durability(connection, path)
        _make_tables(connection, path)
        _hide(path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def open_untouched(path: Path, *, without_log: bool = False) -> sqlite3.Connection:
    """Opens a database for reading, so that nothing on the disk changes: closing another connection, if it is the last
    one, merges the log into the file and removes it. `without_log`: reads the file alone."""
    options = "mode=ro&immutable=1" if without_log else "mode=ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # Autocommit: transactions begin and end explicitly. One thread at a time uses a connection, though not always
    # the same one.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


def _set_durability(connection: sqlite3.Connection, path: Path) -> None:
    [(mode,)] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise Unavailable(f"{path}: its file system does not support a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        [(found,)] = connection.execute("PRAGMA user_version").fetchall()
        if found > SCHEMA:
            raise Conflict(
                f"a newer Mizzen wrote {path} (schema {found}; this version supports {SCHEMA})",
                hint="start the newer version, or use another data dir",
            )
        if found == 0:
            [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            if tables:
                raise Conflict(f"{path} is not a database of Mizzen", hint="use another data dir")
        for step in _STEPS[found:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        indexes.refresh(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _hide(path: Path) -> None:
    """Restricts the mode of a file from an older version. SQLite gives a new log and its index the file's mode."""
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)

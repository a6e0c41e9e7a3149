"""The tables of a SQLite store, and connections to them.

Every resource version has exactly one row in `events` until it is compacted; `state` holds the counter, so no version
is ever given twice, and the horizon: the highest version whose event is gone.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mizzen.errors import Conflict, Unavailable

SCHEMA = 1

_TABLES = (
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
    f"PRAGMA user_version = {SCHEMA}",
)


def open_writer(path: Path) -> sqlite3.Connection:
    """The one connection that writes; makes the tables of a new file. Conflict for a file that is not ours to write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = _connect(path)
    try:
        _set_durability(connection, path)
        _make_tables(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # Autocommit: where transactions begin and end is said explicitly. Each connection is used by one thread at a time,
    # though not always by the same one.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


def _set_durability(connection: sqlite3.Connection, path: Path) -> None:
    [(mode,)] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        raise Unavailable(f"{path}: its filesystem cannot hold a write-ahead log")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        [(found,)] = connection.execute("PRAGMA user_version").fetchall()
        if found > SCHEMA:
            raise Conflict(
                f"{path} was written by a newer Mizzen (schema {found}; this one knows {SCHEMA})",
                hint="start the newer version, or another data dir",
            )
        if found == 0:
            [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            if tables:
                raise Conflict(f"{path} is a database of something else", hint="use another data dir")
            for statement in _TABLES:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

"""The file itself: brought up from an older schema as a whole or not at all, and for nobody else's eyes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mizzen.errors import Conflict, Expired
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, OwnerReference, Ref, Resource, format_time
from mizzen.kinds.text.selectors import parse
from mizzen.stores.sqlite import codec, indexes, schema
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Where
from tests.contract import sqlite_file

THEN = datetime(2025, 11, 1, tzinfo=UTC)

# As the first version wrote it; not taken from the code, which may not change what old files hold.
SCHEMA_1 = """
CREATE TABLE state (only INTEGER PRIMARY KEY CHECK (only = 1), rv INTEGER NOT NULL, horizon INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, 0);
CREATE TABLE objects (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, rv INTEGER NOT NULL,
    generation INTEGER NOT NULL, deleting INTEGER NOT NULL, body BLOB NOT NULL,
    UNIQUE (kind, namespace, name));
CREATE TABLE owners (
    owner TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY (owner, kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE events (
    rv INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE revisions (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, uid TEXT NOT NULL,
    rv INTEGER NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL, time TEXT NOT NULL, before BLOB, after BLOB,
    UNIQUE (kind, namespace, name, number));
PRAGMA user_version = 1;
"""


async def open_store(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex)


def write_old_file(path: Path, models: int = 3) -> None:
    """Models with a version each, all with owners, labels, a decision in the history, and one that is gone."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(SCHEMA_1)
    connection.execute("BEGIN")
    for i in range(models):
        owner = OwnerReference("Model", f"m{i}", f"uid-{i}")
        meta = Meta(f"m{i}", labels={"team": f"t{i % 2}"}, created=THEN)
        add(connection, Resource("Model", replace(meta, uid=f"uid-{i}"), {"aliasOf": "m0"}))
        child = replace(meta, name=f"m{i}.1", uid=f"uid-{i}-1", owners=(owner,))
        add(connection, Resource("ModelVersion", child, {"modelName": f"m{i}", "version": "1"}))
        decide(connection, "ModelVersion", f"m{i}.1", f"uid-{i}-1")
    add(connection, Resource("Workload", Meta("gone", uid="uid-gone"), {}))
    connection.execute("DELETE FROM objects WHERE name = 'gone'")
    connection.execute("COMMIT")
    connection.close()


def add(connection: sqlite3.Connection, new: Resource) -> None:
    [(rv,)] = connection.execute("UPDATE state SET rv = rv + 1 RETURNING rv").fetchall()
    new = replace(new, meta=replace(new.meta, resource_version=str(rv), generation=1))
    key = (new.kind, new.meta.namespace, new.meta.name)
    body = codec.encode(new)
    connection.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?, 1, 0, ?)", (*key, new.meta.uid, rv, body))
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, 'ADDED', ?)", (rv, *key, body))
    for owner in new.meta.owners:
        connection.execute("INSERT INTO owners VALUES (?, ?, ?, ?)", (owner.uid, *key))
    connection.execute(
        "INSERT INTO revisions VALUES (?, ?, ?, 1, ?, ?, 'created', 'ann', ?, NULL, ?)",
        (*key, new.meta.uid, rv, format_time(THEN), codec.encode_data(new.spec, new)),
    )


def decide(connection: sqlite3.Connection, kind: str, name: str, uid: str) -> None:
    [(rv,)] = connection.execute("UPDATE state SET rv = rv + 1 RETURNING rv").fetchall()
    [(body,)] = connection.execute("SELECT body FROM objects WHERE name = ?", (name,)).fetchall()
    found = codec.decode(body)
    body = codec.encode(replace(found, meta=replace(found.meta, resource_version=str(rv)), status={"s": 1}))
    connection.execute("UPDATE objects SET rv = ?, body = ? WHERE name = ?", (rv, body, name))
    connection.execute("INSERT INTO events VALUES (?, ?, 'default', ?, 'MODIFIED', ?)", (rv, kind, name, body))
    connection.execute(
        "INSERT INTO revisions VALUES (?, 'default', ?, 2, ?, ?, 'decided', 'bob', ?, ?, ?)",
        (kind, name, uid, rv, format_time(THEN), b"{}", b'{"s":1}'),
    )


def test_a_file_of_the_first_schema_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "mizzen.db"
    write_old_file(path)

    async def body() -> None:
        store = await open_store(path)
        listing = await store.list("Model", Where(labels=parse("team=t0"), fields={"spec.aliasOf": "m0"}))
        assert [one.meta.name for one in listing.items] == ["m0", "m2"]
        assert listing.resource_version == "10"
        listing = await store.list("ModelVersion", Where(fields={"spec.modelName": "m1"}))
        assert [one.meta.name for one in listing.items] == ["m1.1"]
        entries, _ = await store.family_history(Ref("Model", "m1"))
        assert [(one.ref.name, one.action) for one in entries] == [
            ("m1", "created"), ("m1.1", "created"), ("m1.1", "decided"),
        ]  # fmt: skip
        assert len((await store.list("Revision")).items) == 10
        with pytest.raises(Expired):  # what selectors saw before those changes is not known
            await anext(store.watch("Model", "9"))
        made = await store.create(Resource("Model", Meta("new"), {}), "ann")
        assert made.meta.resource_version == "11"
        assert await store.identities.principals() == ()
        await store.close()

    asyncio.run(body())
    sqlite_file.inspect(path)
    assert tables(path) == tables_of_a_new_file(tmp_path / "new.db")


def tables(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT type, name, tbl_name FROM sqlite_schema ORDER BY 1, 2").fetchall()
    found += connection.execute("PRAGMA user_version").fetchall()
    found += connection.execute("SELECT indexed FROM state").fetchall()
    connection.close()
    return found


def tables_of_a_new_file(path: Path) -> list[tuple[str, ...]]:
    schema.open_writer(path).close()
    return tables(path)


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from mizzen.stores.sqlite import schema

def connect(path):
    connection = found(path)
    steps = iter(range(int(sys.argv[2])))
    def count():
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.set_progress_handler(count, 100)
    return connection

found, schema._connect = schema._connect, connect
schema.open_writer(Path(sys.argv[1]))
print("done")
"""


def test_a_kill_amid_the_change_leaves_the_old_file(tmp_path: Path) -> None:
    """Killed ever later, until it gets through: each time the file is as it was, and can be taken up again."""
    path = tmp_path / "mizzen.db"
    write_old_file(path, models=200)
    before = contents(path)
    killed, hundreds = 0, 2
    while True:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, path, str(hundreds)], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert contents(path) == before
        killed, hundreds = killed + 1, hundreds * 4
    assert killed >= 3
    sqlite_file.inspect(path)


def contents(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchall() == [(1,)]
    dump = [*connection.iterdump()]
    connection.close()
    return dump


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mizzen.db"
    schema.open_writer(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA + 1}")
    connection.close()
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(Conflict, match=rf"newer Mizzen wrote .* \(schema {schema.SCHEMA + 1}"):
        schema.open_writer(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_is_indexed_follows_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that indexes another field finds it in objects that were there before."""

    async def body() -> None:
        store = await open_store(tmp_path / "mizzen.db")
        await store.create(Resource("Monitor", Meta("m"), {"modelName": "iris", "tool": "evidently"}), "ann")
        await store.close()
        monitor = replace(catalog.BY_NAME["Monitor"], indexed=("spec.tool",), model="spec.tool")
        monkeypatch.setitem(catalog.BY_NAME, "Monitor", monitor)
        monkeypatch.setattr(catalog, "KINDS", (*catalog.KINDS, monitor))
        store = await open_store(tmp_path / "mizzen.db")
        listing = await store.list("Monitor", Where(fields={"spec.tool": "evidently"}))
        assert [one.meta.name for one in listing.items] == ["m"]
        assert len((await store.family_history(Ref("Model", "evidently")))[0]) == 1
        assert (await store.family_history(Ref("Model", "iris")))[0] == ()
        await store.close()
        sqlite_file.inspect(tmp_path / "mizzen.db")

    asyncio.run(body())


def test_nothing_is_made_anew_without_need(tmp_path: Path) -> None:
    path = tmp_path / "mizzen.db"
    schema.open_writer(path).close()
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO labels VALUES ('Model', 'k', 'v', 'default', 'none')")
    connection.commit()
    indexes.refresh(connection)
    assert len(connection.execute("SELECT * FROM labels").fetchall()) == 1
    connection.close()


@pytest.mark.parametrize("old_mode", [None, 0o644, 0o666])
def test_only_its_owner_can_read_the_file(tmp_path: Path, old_mode: int | None) -> None:
    path = tmp_path / "mizzen.db"

    async def modes() -> dict[str, int]:
        store = await open_store(path)
        await store.create(Resource("Model", Meta("new"), {}), "ann")
        found = {suffix: stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode) for suffix in ("", "-wal", "-shm")}
        await store.close()
        return found

    if old_mode is not None:
        write_old_file(path)
        path.chmod(old_mode)
    before = os.umask(0)
    try:
        assert asyncio.run(modes()) == {"": 0o600, "-wal": 0o600, "-shm": 0o600}
    finally:
        os.umask(before)


def test_the_audit_lets_go_of_what_is_older_than_its_limits_and_of_nothing_else(tmp_path: Path) -> None:
    connection = schema.open_writer(tmp_path / "mizzen.db")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(audit)")]
    for number, (time, allowed) in enumerate([("1", 0), ("2", 0), ("1", 1), ("2", 1)]):
        row = dict.fromkeys(columns, "") | {"number": number, "time": time, "allowed": allowed}
        connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' for _ in columns)})", [*row.values()])
    connection.execute("UPDATE audit_pruned SET refused_upto = '1'")
    connection.execute("DELETE FROM audit WHERE number = 0")
    for number in (1, 2, 3):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute(f"DELETE FROM audit WHERE number = {number}")
    connection.close()


def test_the_audit_cannot_be_changed(tmp_path: Path) -> None:
    connection = schema.open_writer(tmp_path / "mizzen.db")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(audit)")]
    connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' for _ in columns)})", ["1"] * len(columns))
    for statement in ("UPDATE audit SET actor = 'mallory'", "DELETE FROM audit", "DELETE FROM audit WHERE number = 1"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            connection.execute(statement)
    connection.close()

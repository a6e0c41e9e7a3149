"""The checkpoint file: never ahead of the store, whole after a torn write, and what is made of its loss."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mizzen.errors import Conflict
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.marks import checkpoint, verification
from mizzen.stores.marks.checkpoint import DamagedCheckpoint, StoreCheckpoint, StoreMark
from mizzen.stores.records.protocol import Principal
from mizzen.stores.sqlite.store import SqliteStore

MARK = StoreMark("id", 1, 1)


async def open_store(folder: Path) -> SqliteStore:
    return await SqliteStore.open(
        folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex
    )


async def fill(folder: Path, *names: str) -> None:
    store = await open_store(folder)
    for name in names:
        await store.create(Resource("Model", Meta(name), {}), "ann")
    await store.close()


def read(path: Path) -> StoreMark:
    mark = checkpoint.read(path)
    assert mark is not None
    return mark


def test_the_newest_line_holds_and_a_torn_one_leaves_the_other(tmp_path: Path) -> None:
    path = tmp_path / "mizzen.checkpoint"
    assert checkpoint.read(path) is None
    written = StoreCheckpoint(path, MARK)
    for commits in (2, 3, 4):
        written.note(commits, commits * 10)
        assert read(path).commits == commits
    data = bytearray(path.read_bytes())
    at = data.index(b'"commits": 4')
    data[at + 12 : at + 40] = b"?" * 28
    path.write_bytes(data)
    assert read(path).commits == 3
    written.close(clean=True)
    written.close(clean=True)
    assert read(path).clean
    path.write_bytes(b"\0" * len(data))
    with pytest.raises(DamagedCheckpoint):
        checkpoint.read(path)


def test_every_commit_is_noted_before_it_is_acknowledged(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        path = checkpoint.path_of(tmp_path / "mizzen.db")
        for number in range(5):
            before = read(path)
            made = await store.create(Resource("Model", Meta(f"m{number}"), {}), "ann")
            after = read(path)
            assert after.commits == before.commits + 1 == store.mark().commits
            assert str(after.resource_version) == made.meta.resource_version
        assert not read(path).clean
        await store.close()
        assert read(path).clean
        with sqlite3.connect(tmp_path / "mizzen.db") as connection:
            [(commits,)] = connection.execute("SELECT commits FROM state")
        connection.close()
        assert commits == read(path).commits

    asyncio.run(body())


def test_a_change_without_a_resource_counts(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        before = store.mark()
        await store.identities.add_principal(Principal("ann", datetime.now(UTC), "admin"))
        after = store.mark()
        assert (after.commits, after.resource_version) == (before.commits + 1, before.resource_version)
        await store.close()

    asyncio.run(body())


def test_a_store_behind_its_checkpoint_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, "first"))
    older = (tmp_path / "mizzen.db").read_bytes()
    asyncio.run(fill(tmp_path, "second"))
    (tmp_path / "mizzen.db").write_bytes(older)
    state = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "-" not in path.name}
    for _ in range(2):
        with pytest.raises(Conflict, match="older than it was") as refused:
            asyncio.run(open_store(tmp_path))
        assert "mizzen doctor --accept-older-store" in refused.value.hint
    state.pop("mizzen.db.lock")
    assert {name: (tmp_path / name).read_bytes() for name in state} == state


def test_a_store_of_another_plane_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        asyncio.run(fill(tmp_path / name, "first", "second"))
    (tmp_path / "other" / "mizzen.db").replace(tmp_path / "one" / "mizzen.db")
    with pytest.raises(Conflict, match="another store"):
        asyncio.run(open_store(tmp_path / "one"))


def test_a_lost_checkpoint_holds_collection_until_it_is_ended(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path, "first"))
    database = tmp_path / "mizzen.db"
    assert not verification.examine(database).held
    checkpoint.path_of(database).unlink()
    assert verification.examine(database).held == verification.LOST_CHECKPOINT
    asyncio.run(fill(tmp_path, "second"))
    assert verification.examine(database).held == verification.LOST_CHECKPOINT

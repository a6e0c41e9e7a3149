"""What is particular to the SQLite store: the file, snapshots, a full disk, many writes in one commit."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mizzen.errors import Conflict, NotFound, Unavailable
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.sqlite import lock
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Store


async def open_store(folder: Path, *, new_id: Callable[[], str] = lambda: uuid.uuid4().hex) -> SqliteStore:
    return await SqliteStore.open(folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=new_id)


def model(name: str, **spec: object) -> Resource:
    return Resource("Model", Meta(name), spec)


def test_it_is_a_store(tmp_path: Path) -> None:
    async def body() -> None:
        store: Store = await open_store(tmp_path / "made" / "on the way")
        await store.close()

    asyncio.run(body())


def test_commits_are_durable(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        [[synchronous]] = store._writer._connection.execute("PRAGMA synchronous").fetchall()
        [[journal]] = store._writer._connection.execute("PRAGMA journal_mode").fetchall()
        await store.close()
        assert (synchronous, journal) == (2, "wal")  # 2 is FULL

    asyncio.run(body())


def test_writes_that_queue_up_are_committed_together(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        commits: list[str] = []
        store._writer._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
        await asyncio.gather(*(store.create(model(f"m{i}"), "ann") for i in range(200)))
        assert len(commits) < 50
        await store.close()

    asyncio.run(body())


def test_a_fault_in_one_write_is_told_to_its_caller_only(tmp_path: Path) -> None:
    """Not only refusals: also when something we call into is broken."""

    def new_id() -> str:
        if len(given) == 3:
            given.append("")
            raise ZeroDivisionError
        given.append(uuid.uuid4().hex)
        return given[-1]

    given: list[str] = []

    async def body() -> None:
        store = await open_store(tmp_path, new_id=new_id)
        results = await asyncio.gather(
            *(store.create(model(f"m{i}"), "ann") for i in range(20)), return_exceptions=True
        )
        assert [type(result) for result in results if not isinstance(result, Resource)] == [ZeroDivisionError]
        assert len((await store.list("Model")).items) == 19
        await store.close()

    asyncio.run(body())


def test_a_snapshot_agrees_with_itself(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        for name in "abc":
            await store.create(model(name, n=1), "ann")
        async with store.snapshot() as moment:
            await store.update(model("a", n=2), "ann")
            await store.delete(Ref("Model", "b"), "ann")
            await store.create(model("d"), "ann")
            listing = await moment.list("Model", limit=2)
            assert listing.resource_version == "3"
            rest = await moment.list("Model", after=listing.next)
            assert [(i.meta.name, i.spec) for i in (*listing.items, *rest.items)] == [(n, {"n": 1}) for n in "abc"]
            assert (await moment.get(Ref("Model", "a"))).spec == {"n": 1}
            with pytest.raises(NotFound):
                await moment.get(Ref("Model", "d"))
            assert (await store.get(Ref("Model", "a"))).spec == {"n": 2}
        async with store.snapshot() as later:
            assert [item.meta.name for item in (await later.list("Model")).items] == ["a", "c", "d"]
        await store.close()
        with pytest.raises(Unavailable):
            await store.snapshot().__aenter__()

    asyncio.run(body())


def test_many_snapshots_and_cancelled_reads_leave_the_store_usable(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        await asyncio.gather(*(store.create(model(f"m{i:03}", filler="x" * 2000), "ann") for i in range(300)))

        async def look(versions: list[str]) -> None:
            async with store.snapshot() as moment:
                one, other = await asyncio.gather(moment.list("Model"), moment.list("Model", limit=1))
                assert one.resource_version == other.resource_version
                versions.append(one.resource_version)

        versions: list[str] = []
        lookers = [asyncio.create_task(look(versions)) for _ in range(20)]
        await asyncio.sleep(0.01)
        for looker in lookers[::2]:
            looker.cancel()
        await asyncio.gather(*lookers, return_exceptions=True)
        made = await store.create(model("new"), "ann")
        await look(versions)
        assert versions[-1] == made.meta.resource_version, "no connection went on seeing the past"
        await store.close()

    asyncio.run(body())


def test_closing_while_a_snapshot_is_open(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        async with store.snapshot() as moment:
            await store.close()
            with pytest.raises(Unavailable):
                await moment.list("Model")

    asyncio.run(body())


def test_a_slow_reader_does_not_hold_up_writes(tmp_path: Path) -> None:
    async def body() -> None:
        store = await open_store(tmp_path)
        made = await store.create(model("a", n=0), "ann")
        async with store.snapshot() as moment:
            await moment.list("Model")
            for n in range(1, 20):
                made = await store.update(replace(made, spec={"n": n}), "ann")
            assert (await store.get(made.ref)) == made
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("kind", [None, "Model", "Workload"])
def test_a_watch_misses_nothing_that_somebody_else_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    """Nobody should, with the lock; but then a watch must not lie."""

    async def body() -> None:
        store = await open_store(tmp_path)
        await store.create(model("ours-1"), "ann")
        watch = store.watch(kind, "1")
        news = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)  # it waits, most likely
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
        other = await open_store(tmp_path)
        await other.create(model("theirs"), "bob")
        await other.create(replace(model("theirs"), kind="Workload"), "bob")
        await other.close()
        await store.create(model("ours-2"), "ann")
        wanted = [("Model", "theirs", "2"), ("Workload", "theirs", "3"), ("Model", "ours-2", "4")]
        async with asyncio.timeout(60):
            for name in (name for name in wanted if kind in (None, name[0])):
                told = (await news).resource
                assert (told.kind, told.meta.name, told.meta.resource_version) == name
                news = asyncio.ensure_future(anext(watch))
        news.cancel()
        await asyncio.wait((news,))
        await store.close()

    asyncio.run(body())


def test_a_file_belongs_to_one_store_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        monkeypatch.setattr(lock, "WAIT_SECONDS", 0.1)
        store = await open_store(tmp_path)
        with pytest.raises(Conflict, match=rf"mizzen\.db is in use by process {os.getpid()}\n"):
            await open_store(tmp_path)
        monkeypatch.setattr(lock, "WAIT_SECONDS", 60)
        second = asyncio.ensure_future(open_store(tmp_path))
        await asyncio.sleep(0.05)
        assert not second.done()
        await store.create(model("a"), "ann")
        await store.close()
        store = await second
        assert (await store.get(Ref("Model", "a"))).meta.name == "a"
        await store.close()

    asyncio.run(body())


def test_a_store_that_cannot_be_opened_is_left_unlocked(tmp_path: Path) -> None:
    async def body() -> None:
        (tmp_path / "mizzen.db").write_text("this is not a database, " * 100)
        with pytest.raises(Conflict, match="not a database"):
            await open_store(tmp_path)
        (tmp_path / "mizzen.db").unlink()
        await (await open_store(tmp_path)).close()

    asyncio.run(body())


HOLDS = """
import asyncio, os, sys, uuid
from datetime import UTC, datetime
from pathlib import Path
from mizzen.stores.sqlite.store import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex)
    os.write(1, b"open\\n")
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_kill_9_frees_the_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(pid: int | None) -> None:
        if pid is None:
            await (await open_store(tmp_path)).close()
            return
        with pytest.raises(Conflict, match=rf"process {pid}\n"):
            await open_store(tmp_path)

    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.0)
    with subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path / "mizzen.db"], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"open\n"
            asyncio.run(body(holder.pid))
        finally:
            holder.kill()
        holder.wait(60)
        asyncio.run(body(None))


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        await (await open_store(tmp_path)).close()
        with sqlite3.connect(tmp_path / "mizzen.db") as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        with pytest.raises(Conflict, match=r"newer Mizzen wrote .* \(schema 99"):
            await open_store(tmp_path)

    asyncio.run(body())


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    async def refused(folder: Path, error: type[Exception]) -> None:
        with pytest.raises(error):
            await open_store(folder)

    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "mizzen.db").write_text("this is not a database, " * 100)
    asyncio.run(refused(tmp_path / "text", Conflict))

    (tmp_path / "other").mkdir()
    connection = sqlite3.connect(tmp_path / "other" / "mizzen.db")
    connection.execute("CREATE TABLE things (a)")
    connection.close()
    asyncio.run(refused(tmp_path / "other", Conflict))

    (tmp_path / "folder" / "mizzen.db").mkdir(parents=True)
    asyncio.run(refused(tmp_path / "folder", Unavailable))


FULL_DISK = """
import asyncio, resource, sys, uuid
from datetime import UTC, datetime
from pathlib import Path
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.sqlite.store import SqliteStore

def limit(size):
    # The kernel refuses to let a file grow beyond this: as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]), clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex)
    new = lambda i: store.create(Resource("Model", Meta(f"m{i:03}"), {"filler": "x" * 20_000}), "ann")
    made = [await new(i) for i in range(5)]
    limit(400_000)
    results = await asyncio.gather(*(new(i) for i in range(5, 60)), return_exceptions=True)
    failed = [result for result in results if not isinstance(result, Resource)]
    assert failed and all(isinstance(one, Unavailable) and one.__cause__ for one in failed), failed
    made += [result for result in results if isinstance(result, Resource)]
    listing = await store.list("Model")
    assert listing.items == tuple(sorted(made, key=lambda one: one.meta.name)), "all or nothing of each write"
    assert listing.resource_version == str(len(made))
    limit(resource.RLIM_INFINITY)
    after = await new(999)
    assert after.meta.resource_version == str(len(made) + 1)
    watch = store.watch("Model", "0")
    versions = [(await anext(watch)).resource.meta.resource_version for _ in range(len(made) + 1)]
    assert versions == [str(i + 1) for i in range(len(made) + 1)]
    await watch.aclose()
    await store.close()

asyncio.run(main())
"""


def test_a_full_disk_is_unavailable_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path / "mizzen.db"], check=True, timeout=60)
    connection = sqlite3.connect(tmp_path / "mizzen.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()

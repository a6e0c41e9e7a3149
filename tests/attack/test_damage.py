"""Every file of a data dir, damaged in every way: the store is refused or whole, and no file by digest is lost."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.diagnosis.examination import examine
from mizzen.errors import Conflict
from mizzen.kinds import catalog
from mizzen.server.deletion.garbage import collect_garbage
from mizzen.stores.sqlite.store import SqliteStore
from tests.support import damage
from tests.support.damage import DataDirs

STORE = ("mizzen.db", "mizzen.db-wal", "mizzen.db-shm", "mizzen.checkpoint", "table.json", "access.json")
REPORTED = ("secret-key", "state.db", "quotas.db", "ca-key.pem", "server-key.pem")
"""Files whose damage a start survives, and which `mizzen doctor` names."""
ONE_OF = ("blobs/sha256", "blobs/named/logs", "blobs/named/checkpoints", "work", "training", "records", "events")
"""Folders of which a few files stand for all."""
MOST = 2
LATER = timedelta(days=1000)


@pytest.fixture(scope="module")
def data_dirs() -> Iterator[DataDirs]:
    folder = Path(tempfile.mkdtemp(prefix="mzdamage"))
    try:
        yield damage.build(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Quiet:
    def step(self, what: str, total: int) -> None: ...

    def more(self, done: int) -> None: ...


async def open_store(data_dir: Path) -> SqliteStore:
    """The code path of a start."""
    return await SqliteStore.open(
        data_dir / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex
    )


async def read_content(store: SqliteStore) -> set[str]:
    found = {f"token {token.id} {token.revoked}" for token in await store.identities.tokens()}
    for namespace in await store.namespaces():
        found |= {f"secret {each.namespace}/{each.name}" for each in await store.secrets.list(namespace)}
    for kind in catalog.KINDS:
        listing = await store.list(kind.name)
        found |= {f"{item.ref} {item.meta.uid} {item.meta.generation}" for item in listing.items}
    return found


async def use(data_dir: Path) -> tuple[set[str], set[str]]:
    """What the store has, and the blobs that are left when everything that may be collected is."""
    store = await open_store(data_dir)
    try:
        content = await read_content(store)
        if not store.mark().held:
            await collect_garbage(store, FileBlobs(data_dir / "blobs"), datetime.now(UTC) + LATER, data_dir=data_dir)
        return content, damage.list_blobs(data_dir)
    finally:
        await store.close()


def choose_files(data_dir: Path) -> list[str]:
    chosen: list[str] = []
    counts = dict.fromkeys(ONE_OF, 0)
    for path in sorted(data_dir.rglob("*")):
        name = path.relative_to(data_dir).as_posix()
        folder = next((each for each in ONE_OF if name.startswith(f"{each}/")), None)
        if not path.is_file() or (folder is not None and counts[folder] >= MOST):
            continue
        if folder is not None:
            counts[folder] += 1
        chosen.append(name)
    return chosen


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("how", damage.DAMAGES)
def test_no_damage_goes_unnoticed(data_dirs: DataDirs, tmp_path: Path, state: str, how: str) -> None:
    source: Path = getattr(data_dirs, state)
    with damage.copied(source, tmp_path) as whole:
        expected, kept = asyncio.run(use(whole))
    assert {"Model/iris", "Model/trained", "MLGraph/chooser"} <= {one.partition(" ")[0] for one in expected}
    outcomes = {}
    for name in choose_files(source):
        with damage.copied(source, tmp_path) as data_dir:
            if not damage.harm(data_dir / name, how, data_dirs.older / name):
                continue
            outcomes[name] = judge(data_dir, name, expected, kept)
            if name.rpartition("/")[2] in REPORTED and how != "older" and not (how == "removed" and "db" in name):
                defects = [*examine(data_dir, Quiet())]
                assert any(name.rpartition("/")[2] in f"{one.where} {one.what}" for one in defects), (name, defects)
    assert set(outcomes.values()) <= {"refused", "whole"}
    assert set(STORE[:1]) & outcomes.keys() or how == "older"
    if how != "older":
        assert outcomes["mizzen.db"] == "refused"
    if state == "killed" and how != "older":
        assert outcomes["mizzen.db-wal"] == "refused"
    unrefused = {name for name, outcome in outcomes.items() if outcome == "refused"} - set(STORE)
    assert not unrefused, "only a damaged store is refused"


def judge(data_dir: Path, name: str, expected: set[str], kept: set[str]) -> str:
    before = damage.list_blobs(data_dir)
    try:
        content, left = asyncio.run(use(data_dir))
    except Conflict as error:
        told = re.findall("mizzen (doctor|restore)", error.hint)
        assert {*told} == {"doctor", "restore"}, name
        assert damage.list_blobs(data_dir) == before, name
        assert any(one.check == "store" for one in examine(data_dir, Quiet(), files=False)), name
        return "refused"
    assert content == expected, name
    assert left >= kept & before, name
    return "whole"


def test_an_older_database_under_a_newer_log_is_refused(data_dirs: DataDirs, tmp_path: Path) -> None:
    with damage.copied(data_dirs.killed, tmp_path) as data_dir:
        assert damage.harm(data_dir / "mizzen.db", "older", data_dirs.older / "mizzen.db")
        with pytest.raises(Conflict, match="write-ahead log"):
            asyncio.run(open_store(data_dir))


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_an_older_log_over_a_newer_database_is_refused(data_dirs: DataDirs, tmp_path: Path, state: str) -> None:
    with damage.copied(getattr(data_dirs, state), tmp_path) as data_dir:
        shutil.copy(data_dirs.older / "mizzen.db-wal", data_dir / "mizzen.db-wal")
        with pytest.raises(Conflict, match="older than it was"):
            asyncio.run(open_store(data_dir))


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_all_files_of_an_older_store_are_refused(data_dirs: DataDirs, tmp_path: Path, state: str) -> None:
    with damage.copied(getattr(data_dirs, state), tmp_path) as data_dir:
        for name in ("mizzen.db", "mizzen.db-wal", "mizzen.db-shm"):
            shutil.copy(data_dirs.older / name, data_dir / name)
        with pytest.raises(Conflict, match="older than it was"):
            asyncio.run(open_store(data_dir))
        for mark in ("mizzen.checkpoint", "table.json"):
            (data_dir / mark).unlink()
        if state == "clean":
            return  # access.json was not written since
        with pytest.raises(Conflict, match=r"access\.json knows"):
            asyncio.run(open_store(data_dir))


def test_without_its_checkpoint_a_store_is_used_and_nothing_is_collected(data_dirs: DataDirs, tmp_path: Path) -> None:
    async def held() -> str:
        store = await open_store(data_dir)
        try:
            return store.mark().held
        finally:
            await store.close()

    with damage.copied(data_dirs.clean, tmp_path) as data_dir:
        assert not asyncio.run(held())
        for name in ("mizzen.checkpoint", "table.json", "access.json"):
            (data_dir / name).unlink()
        assert asyncio.run(held())
        assert asyncio.run(held()), "a later start does not forget it"

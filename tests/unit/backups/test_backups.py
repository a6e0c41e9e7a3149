"""What is backed up comes back: all of it, and nothing else; whatever fails leaves nothing."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import shutil
import stat
import tarfile
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.backups import create, documents, snapshot
from mizzen.backups import folder as backups_folder
from mizzen.backups.create import BackupRequest
from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import BadRequest, Conflict, Expired, NotFound
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.stores.sqlite import schema
from tests.contract.stores import open_sqlite
from tests.support.backups.folders import KEYS, TAKEN, Quiet, backup, data_dir, names, objects, restore, version


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tgz"])
def test_all_of_it_comes_back_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    there = data_dir(tmp_path / "data", b"one", b"two" * 1_000_000)
    file = tmp_path / f"b.{suffix}"
    made = backup(there, file)
    assert (made.damaged, made.manifest.absent) == ((), ())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = tmp_path / "elsewhere" / "again"
    assert restore(file, again) == made.manifest
    assert objects(again) == objects(there)
    blobs = {name for name in names(again) if name.startswith("blobs/sha256")}
    assert len(blobs) == 2, "what nobody names is not taken"
    for name in (*blobs, *KEYS, "settings.toml", "tls/ca.pem"):
        assert (again / name).read_bytes() == (there / name).read_bytes(), name
    assert not names(again) & {"ports.json", "table.json", "logs/plane.log"}
    assert stat.S_IMODE((again / "secret-key").stat().st_mode) == 0o600
    assert stat.S_IMODE(again.stat().st_mode) == 0o700
    assert names(tmp_path).isdisjoint({f".b.{suffix}.part", f".b.{suffix}.db"})


def test_others_can_read_the_file(tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    backup(data_dir(tmp_path / "data", b"one"), file)
    with tarfile.open(file) as archive:
        assert archive.getnames()[0] == "mizzen.db"
        assert archive.getnames()[-2:] == ["manifest.json", "manifest.sha256"]


def test_without_keys(tmp_path: Path) -> None:
    backup(data_dir(tmp_path / "data", b"one"), tmp_path / "b.tar", keys=False)
    manifest = restore(tmp_path / "b.tar", tmp_path / "again")
    assert not manifest.keys
    assert names(tmp_path / "again").isdisjoint({*KEYS, "tls/ca.pem"})
    assert (tmp_path / "again" / "settings.toml").exists()


def test_versions_go_on_beyond_those_that_were_given_since(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    rv = backup(there, tmp_path / "b.tar").manifest.resource_version
    restore(tmp_path / "b.tar", tmp_path / "again")

    async def body() -> None:
        old, new = await open_sqlite(there), await open_sqlite(tmp_path / "again")
        try:
            later = await old.create(Resource("Model", Meta("later")), "ann")
            assert (await new.list("Model")).items == ()
            made = await new.create(Resource("Model", Meta("other")), "ann")
            # Who has seen `later` can hold a place that was never given here, and must not be told that all is well.
            assert int(made.meta.resource_version) > rv + snapshot.GAP
            for since in (str(rv - 1), later.meta.resource_version):
                with pytest.raises(Expired):
                    await anext(new.watch(None, since))
            ref = Ref("ModelVersion", "v0")
            assert await new.history(ref) == await old.history(ref)
            assert (await new.get(ref)) == (await old.get(ref))
        finally:
            await old.close()
            await new.close()

    asyncio.run(body())


def test_all_that_was_acknowledged_before_and_one_moment(tmp_path: Path) -> None:
    """Two objects are changed in turn, always the first one first: in no backup is the second ahead."""
    there = data_dir(tmp_path / "data")
    acknowledged = 0
    stop = threading.Event()

    async def write() -> None:
        nonlocal acknowledged
        store = await open_sqlite(there)
        first, second = [await store.create(Resource("Model", Meta(name), {"n": 0}), "ann") for name in ("a", "b")]
        n = 0
        while not stop.is_set():
            n += 1
            first = await store.update(replace(first, spec={"n": n}), "ann")
            second = await store.update(replace(second, spec={"n": n}), "ann")
            acknowledged = n
        await store.close()

    writing = threading.Thread(target=lambda: asyncio.run(write()))
    writing.start()
    try:
        for number in range(5):
            before = acknowledged
            while acknowledged == before:
                pass
            promised = acknowledged
            backup(there, tmp_path / f"{number}.tar")
            restore(tmp_path / f"{number}.tar", tmp_path / str(number))
            with closing(schema.open_reader(tmp_path / str(number) / "mizzen.db")) as found:
                said = found.execute("SELECT body FROM objects WHERE kind = 'Model' ORDER BY name").fetchall()
                history = found.execute("SELECT count(*) FROM revisions WHERE name = 'a'").fetchall()[0][0]
            a, b = [int(body.split(b'"n":')[1].split(b"}")[0]) for (body,) in said]
            assert promised <= b <= a <= b + 1
            assert history == a + 1
    finally:
        stop.set()
        writing.join()


def test_what_is_deleted_meanwhile_is_there_until_the_end(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    blobs = FileBlobs(there / "blobs")
    [digest] = [item.spec["artifacts"][0]["digest"] for item in objects(there)]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    removed: list[bool] = []

    class Deleting(Quiet):
        def step(self, what: str, total: int) -> None:
            if what == "files":  # the snapshot is taken
                removed.append(blobs.remove(digest, tomorrow))

    create.to_file(BackupRequest(there, TAKEN), tmp_path / "b.tar", Deleting())
    assert removed == [False]
    restore(tmp_path / "b.tar", tmp_path / "again")
    assert FileBlobs(tmp_path / "again" / "blobs").head(digest).size == 3
    assert blobs.remove(digest, tomorrow), "afterwards it may go"


def test_what_is_damaged_or_absent_is_told(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one", b"two", b"three")
    blobs = FileBlobs(there / "blobs")
    one, two, _ = [item.spec["artifacts"][0]["digest"] for item in objects(there)]
    blobs.path(one).unlink()
    blobs.path(two).chmod(0o644)
    blobs.path(two).write_bytes(b"TWO")
    made = backup(there, tmp_path / "b.tar")
    assert (made.damaged, made.manifest.absent) == ((two,), (one, two))
    assert restore(tmp_path / "b.tar", tmp_path / "again").absent == (one, two)


def test_what_fails_leaves_nothing_and_keeps_the_last_one(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    file = tmp_path / "b.tar"
    backup(there, file)
    before = file.read_bytes()

    class Interrupted(Quiet):
        def more(self, done: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create.to_file(BackupRequest(there, TAKEN), file, Interrupted())
    assert file.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["b.tar", "data"]


def test_two_at_once_to_one_file(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")

    class Second(Quiet):
        def step(self, what: str, total: int) -> None:
            with pytest.raises(Conflict, match="another backup"):
                backup(there, tmp_path / "b.tar")

    create.to_file(BackupRequest(there, TAKEN), tmp_path / "b.tar", Second())
    restore(tmp_path / "b.tar", tmp_path / "again")


def test_only_into_an_empty_folder(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    backup(there, tmp_path / "b.tar")
    before = names(there)
    with pytest.raises(Conflict, match="not empty"):
        restore(tmp_path / "b.tar", there)
    assert names(there) == before
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "b.tar", tmp_path / "empty")
    assert objects(tmp_path / "empty") == objects(there)


def test_no_plane_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(NotFound, match="is not the data dir of a plane"):
        backup(tmp_path / "data", tmp_path / "b.tar")
    assert os.listdir(tmp_path / "data") == []
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_to_a_pipe(tmp_path: Path) -> None:
    stream = io.BytesIO()
    create.to_stream(BackupRequest(data_dir(tmp_path / "data", b"one"), TAKEN), stream, Quiet())
    (tmp_path / "b.tar").write_bytes(stream.getvalue())
    restore(tmp_path / "b.tar", tmp_path / "again")


def test_of_a_newer_version(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    with closing(schema._connect(there / "mizzen.db")) as store:
        store.execute(f"PRAGMA user_version = {schema.SCHEMA + 1}")
    backup(there, tmp_path / "b.tar")
    with pytest.raises(BadRequest, match="schema") as refused:
        restore(tmp_path / "b.tar", tmp_path / "again")
    assert "newer" in refused.value.hint
    assert not (tmp_path / "again").exists()


def test_a_folder_of_backups_shares_blobs(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one", b"two")
    folder = tmp_path / "backups"
    folder.mkdir()
    wanted = BackupRequest(there, TAKEN)
    first, _ = backups_folder.add(wanted, folder, Quiet())
    inodes = {path.name: path.stat().st_ino for path in (folder / "blobs" / "sha256").rglob("*") if path.is_file()}
    assert len(inodes) == 2

    async def change() -> None:
        store = await open_sqlite(there)
        await store.delete(Ref("ModelVersion", "v0"), "ann")
        await store.create(version("v2", [FileBlobs(there / "blobs").put_bytes(b"three").digest]), "ann")
        await store.close()

    asyncio.run(change())
    second, _ = backups_folder.add(replace(wanted, taken=TAKEN + timedelta(days=1)), folder, Quiet())
    assert backups_folder.find_newest(folder) == second
    after = {path.name: path.stat().st_ino for path in (folder / "blobs" / "sha256").rglob("*") if path.is_file()}
    assert len(after) == 3
    assert inodes.items() <= after.items(), "what was there was not copied again"
    for number, file in enumerate((first, second)):
        restore(file, tmp_path / str(number))
    assert [item.meta.name for item in objects(tmp_path / "0")] == ["v0", "v1"]
    assert [item.meta.name for item in objects(tmp_path / "1")] == ["v1", "v2"]

    third, _ = backups_folder.add(replace(wanted, taken=TAKEN + timedelta(days=2)), folder, Quiet(), keep=2)
    assert backups_folder.list_backups(folder) == [second, third]
    assert len([path for path in (folder / "blobs" / "sha256").rglob("*") if path.is_file()]) == 2
    restore(second, tmp_path / "2")


def test_in_a_folder_that_others_may_read_they_read_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o755)
    (folder / "blobs").mkdir(mode=0o755)
    backups_folder.add(BackupRequest(data_dir(tmp_path / "data", b"one"), TAKEN), folder, Quiet())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("blobs") == 0o700
    assert set(modes.values()) == {0o600}
    kept = [path for path in (folder / "blobs" / "sha256").rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600]


def test_of_two_planes_in_one_folder_each_keeps_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    a, b = data_dir(tmp_path / "a", b"one"), data_dir(tmp_path / "b", b"two")
    older = folder / "mizzen-20200101T000000Z.tar"
    old, _ = backups_folder.add(BackupRequest(a, TAKEN), folder, Quiet())
    shutil.copy(old, older)
    for day in range(1, 4):
        new, _ = backups_folder.add(BackupRequest(b, TAKEN + timedelta(days=day)), folder, Quiet(), keep=1)
    assert backups_folder.list_backups(folder) == [older, old, new]
    with pytest.raises(Conflict, match="several planes") as refused:
        backups_folder.find_newest(folder)
    assert new.name in refused.value.hint
    restore(old, tmp_path / "again")
    assert backups_folder.add(BackupRequest(tmp_path / "again", TAKEN + timedelta(days=9)), folder, Quiet(), keep=1)[
        0
    ].exists()
    assert not old.exists(), "a plane that was restored goes on with its backups"


def test_what_settings_name_comes_back_and_odd_names_are_told(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    (there / "certs").mkdir()
    (tmp_path / "elsewhere.pem").write_text("x")
    for name in ("certs/server.crt", "certs/server.key", "issuer.json", "tls/my cert.pem"):
        (there / name).write_text(name)
    keys = ("certs/server.crt", "./certs/server.key", "tls/ca.pem", "../elsewhere.pem")
    wanted = BackupRequest(there, TAKEN, also=("issuer.json",), also_keys=keys)
    made = create.to_file(wanted, tmp_path / "b.tar", Quiet())
    assert sorted(made.left_out) == ["../elsewhere.pem", "tls/my cert.pem"]
    restore(tmp_path / "b.tar", tmp_path / "again")
    for name in ("certs/server.crt", "certs/server.key", "issuer.json", "tls/ca.pem"):
        assert (tmp_path / "again" / name).read_bytes() == (there / name).read_bytes()
    create.to_file(replace(wanted, keys=False), tmp_path / "c.tar", Quiet())
    restore(tmp_path / "c.tar", tmp_path / "without")
    assert names(tmp_path / "without").isdisjoint({"certs/server.crt", "certs/server.key"})


def test_blobs_beside_are_checked(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    file, _ = backups_folder.add(BackupRequest(data_dir(tmp_path / "data", b"one"), TAKEN), folder, Quiet())
    [blob] = [path for path in (folder / "blobs" / "sha256").rglob("*") if path.is_file()]
    blob.chmod(0o600)
    blob.write_bytes(b"ONE")
    with pytest.raises(BadRequest, match="altered"):
        restore(file, tmp_path / "again")
    blob.unlink()
    with pytest.raises(BadRequest, match="is missing"):
        restore(file, tmp_path / "again")
    assert sorted(os.listdir(tmp_path)) == ["backups", "data"]


def test_a_gzip_that_was_cut_off(tmp_path: Path) -> None:
    backup(data_dir(tmp_path / "data", os.urandom(100_000)), tmp_path / "b.tar.gz")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    assert gzip.decompress(whole)
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.tar.gz").write_bytes(whole[:length])
        with pytest.raises(BadRequest):
            restore(tmp_path / "cut.tar.gz", tmp_path / "again")
        assert not (tmp_path / "again").exists()


def test_documents_come_back_with_the_files_that_they_name(tmp_path: Path) -> None:
    there = data_dir(tmp_path / "data", b"one")
    blobs = FileBlobs(there / "blobs")
    weights = blobs.put_bytes(b"weights").digest
    long = f"checkpoints/{'n' * 60}/{'m' * 60}/3/{'j' * 60}-0123abcd.json"
    kept = {
        long: json.dumps({"files": [{"path": "w", "digest": weights}], "name": "größer"}).encode(),
        "logs/uid/worker-0/0.json": b'{"segments": []}',
    }
    for name, data in kept.items():
        blobs.documents.put(name, data)
    for target in (tmp_path / "b.tar", tmp_path / "shelf"):
        if target.suffix:
            backup(there, target)
        else:
            target, _ = backups_folder.add(BackupRequest(there, TAKEN), target, Quiet())  # noqa: PLW2901
        again = tmp_path / f"again-{target.name}"
        assert restore(target, again).absent == ()
        back = FileBlobs(again / "blobs")
        assert {name: back.documents.get(name) for name in back.documents.names()} == kept
        assert back.path(weights).read_bytes() == b"weights"
        assert not (again / "documents.jsonl").exists()


@pytest.mark.parametrize(
    "line", ["no json", '{"name": "../x", "data": ""}', '{"name": "a"}', "[]", '{"name": 1, "data": 2}']
)
def test_a_document_that_makes_no_sense_is_not_restored(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadRequest, match="a document in the backup is not valid"):
        documents.restore_documents([line.encode()], tmp_path / "blobs")
    assert not names(tmp_path)

"""What training leaves stays as long as what it belongs to, however long its job is gone; then it goes."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.deletion.garbage import CollectionResult, collect_garbage
from mizzen.stores.sqlite.store import SqliteStore

GRACE = timedelta(hours=1)


class World:
    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.folder = folder
        self.store = store
        self.blobs = FileBlobs(folder / "blobs")

    async def create(self, kind: str, name: str, **spec: Any) -> str:
        made = await self.store.create(Resource(kind, Meta(name), spec), "ann")
        return made.meta.uid

    async def delete(self, kind: str, name: str) -> None:
        await self.store.delete(Ref(kind, name), "ann")

    async def version(self, version: str) -> str:
        return await self.create("ModelVersion", f"m.{version}", modelName="m", version=version)

    def checkpoint(self, id_: str, version: str, version_uid: str, **more: Any) -> str:
        """The digest of its file."""
        digest = self.blobs.put_bytes(f"weights of {id_}".encode()).digest
        content = {"namespace": "default", "model": "m", "version": version, "version_uid": version_uid, **more}
        content["files"] = [{"path": "w", "digest": digest, "size": 1}]
        name = f"checkpoints/default/m/{version or 'unversioned'}/{id_}.json"
        assert self.blobs.documents.put(name, json.dumps(content).encode(), new=True)
        return digest

    def logs(self, job: str, *, complete: bool = True) -> None:
        content = {"segments": [], "times": "", "complete": complete, "namespace": "default", "model": "m", "job": "j"}
        self.blobs.documents.put(f"logs/{job}/worker-0/0.json", json.dumps(content).encode())

    def file(self, path: str) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
        return place

    def age(self) -> None:
        """As if all had been left alone for longer than the grace time."""
        then = (datetime.now(UTC) - 2 * GRACE).timestamp()
        for path in self.folder.rglob("*"):
            os.utime(path, (then, then))

    async def collect(self) -> CollectionResult:
        return await collect_garbage(self.store, self.blobs, datetime.now(UTC), GRACE, data_dir=self.folder)


def in_a_world(test: Callable[[World], Awaitable[None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def body() -> None:
            store = await SqliteStore.open(
                tmp_path / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex
            )
            try:
                await test(World(tmp_path / "data", store))
            finally:
                await store.close()

        asyncio.run(body())

    run.__name__ = test.__name__
    return run


@in_a_world
async def test_a_checkpoint_and_its_files_stay_with_the_version(world: World) -> None:
    await world.create("Model", "m")
    uid = await world.version("3")
    world.checkpoint("a", "3", uid)
    world.age()
    assert await world.collect() == CollectionResult()
    await world.delete("ModelVersion", "m.3")
    first = await world.collect()
    assert (first.left, first.files) == (1, 1)
    assert world.blobs.documents.names() == []
    assert list(world.blobs.stored()) == []


@in_a_world
async def test_those_of_an_earlier_version_of_the_same_name_go(world: World) -> None:
    await world.create("Model", "m")
    uid = await world.version("3")
    kept = world.checkpoint("new", "3", uid)
    world.checkpoint("old", "3", "another-uid")
    world.age()
    assert (await world.collect()).left == 1
    assert [one.digest for one in world.blobs.stored()] == [kept]


@in_a_world
async def test_without_a_version_they_go_with_the_model(world: World) -> None:
    await world.create("Model", "m")
    world.checkpoint("a", "", "")
    world.logs("uid")
    world.age()
    assert await world.collect() == CollectionResult()
    await world.delete("Model", "m")
    assert (await world.collect()).left == 2
    assert world.blobs.documents.names() == []


@in_a_world
async def test_what_was_just_left_stays_for_the_grace_time(world: World) -> None:
    world.checkpoint("a", "", "")
    world.logs("uid")
    world.file("events/default/m/unversioned/j/events.out")
    world.file("training/uid/replicas/worker-0/0.log")
    assert await world.collect() == CollectionResult()
    assert len(world.blobs.documents.names()) == 2


@in_a_world
async def test_event_files_go_with_their_version_or_model(world: World) -> None:
    await world.create("Model", "m")
    await world.version("3")
    third, fourth, bare = (
        world.file(f"events/default/m/{version}/j/events.out") for version in ("3", "4", "unversioned")
    )
    other = world.file("events/events/m/3/j/events.out")
    world.age()
    assert (await world.collect()).left >= 2
    assert [one.exists() for one in (third, fourth, bare, other)] == [True, False, True, False]
    await world.delete("Model", "m")
    world.age()
    await world.collect()
    assert not (world.folder / "events" / "default" / "m").exists()


@in_a_world
async def test_event_files_that_somebody_still_writes_stay(world: World) -> None:
    file = world.file("events/default/m/3/j/worker-0/events.out")
    world.age()
    os.utime(file)
    await world.collect()
    assert file.exists()


@in_a_world
async def test_the_folder_of_a_job_goes_once_the_job_has_gone_and_its_logs_are_kept(world: World) -> None:
    await world.create("Model", "m")
    there = await world.create("TrainingJob", "j", modelName="m", command=["true"])
    for uid in (there, "kept", "half", "none"):
        world.file(f"training/{uid}/replicas/worker-0/0.log")
        world.file(f"training/{uid}/dataset/deep/er/file")
    world.logs(there)
    world.logs("kept")
    world.logs("half", complete=False)
    world.age()
    assert (await world.collect()).left == 2
    assert sorted(one.name for one in (world.folder / "training").iterdir()) == sorted([there, "half"])
    assert len(world.blobs.documents.names("logs/")) == 3, "what they are of is still there"


@in_a_world
async def test_the_folder_of_a_job_that_still_ends_stays(world: World) -> None:
    log = world.file("training/uid/replicas/worker-0/0.log")
    world.age()
    os.utime(log)
    assert await world.collect() == CollectionResult()


@in_a_world
async def test_a_damaged_document_keeps_what_it_may_name(world: World) -> None:
    digest = world.blobs.put_bytes(b"weights").digest
    world.blobs.put_bytes(b"garbage")
    world.blobs.documents.put("checkpoints/default/m/3/a.json", f'{{"files": [{{"digest": "{digest}", '.encode())
    world.blobs.documents.put("logs/uid/worker-0/0.json", b'"no object"')
    world.age()
    assert (await world.collect()).files == 0, "a document that is half lost may have named any file"
    assert digest in [one.digest for one in world.blobs.stored()]
    assert len(world.blobs.documents.names()) == 2


@in_a_world
async def test_a_document_that_was_lost_keeps_all_files(world: World) -> None:
    documents, kept = world.blobs.documents, world.blobs.put_bytes(b"weights").digest
    for name in ("a", "b"):
        documents.put(f"checkpoints/default/m/3/{name}.json", f'{{"files": [{{"digest": "{kept}"}}]}}'.encode())
    world.age()
    (world.blobs.root / "named" / "checkpoints/default/m/3/a.json").unlink()
    assert documents.delete("checkpoints/default/m/3/b.json")
    assert list(documents.list_damaged()) == ["checkpoints/default/m/3/a.json"]
    assert (await world.collect()).files == 0
    documents.accept_lost()
    assert (await world.collect()).files == 1


@in_a_world
async def test_one_that_cannot_be_deleted_now_holds_up_no_other(world: World) -> None:
    world.checkpoint("a", "", "")
    world.checkpoint("b", "", "")
    world.age()
    delete = world.blobs.documents.delete

    def away(name: str) -> bool:
        if name.endswith("a.json"):
            raise Unavailable("the blob store does not delete a document")
        return delete(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.blobs.documents, "delete", away)
        assert (await world.collect()).left == 1
    assert (await world.collect()).left == 1

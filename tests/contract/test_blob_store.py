"""Every BlobStore, ours and that of the example, and blobs on disk with one behind them."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mizzen.blobs.backed_store import BackedBlobs
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.object_store import ObjectBlobs
from mizzen.blobs.open_store import open_store
from mizzen.blobs.store import BlobStore, Stored
from mizzen.errors import NotFound, Unavailable
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.deletion.garbage import collect_garbage
from tests.contract.objects import Away, has, new_s3
from tests.contract.stores import open_sqlite

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "lookup" / "src"


def _shelf(folder: Path) -> BlobStore:
    from mizzen_lookup.shelf import Shelf

    store: BlobStore = Shelf(f"shelf://{folder}")
    return store


@pytest.fixture(params=["file", "shelf", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlobStore:
    monkeypatch.syspath_prepend(EXAMPLE)
    made: dict[str, Callable[[], BlobStore]] = {
        "file": lambda: ObjectBlobs(f"file://{tmp_path / 'store'}"),
        "shelf": lambda: _shelf(tmp_path / "store"),
        "s3": lambda: new_s3(request.getfixturevalue("s3")),
    }
    return made[request.param]()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def put(store: BlobStore, data: bytes, folder: Path) -> str:
    file = folder / "source"
    file.write_bytes(data)
    store.put(digest(data), file)
    return digest(data)


def test_what_is_put_is_had_again(store: BlobStore, tmp_path: Path) -> None:
    began = datetime.now(UTC) - timedelta(seconds=2)
    for data in (b"", b"one", b"x" * 3_000_000):
        name = put(store, data, tmp_path)
        put(store, data, tmp_path)
        assert has(store, name)
        target = tmp_path / "target"
        target.write_bytes(b"")
        store.get(name, target)
        assert target.read_bytes() == data
    listed = {one.digest: one for one in store.stored()}
    assert {one.size for one in listed.values()} == {0, 3, 3_000_000}
    assert all(one.touched >= began for one in listed.values())


def test_what_is_not_there(store: BlobStore, tmp_path: Path) -> None:
    name = digest(b"nobody put this")
    assert not has(store, name)
    with pytest.raises(KeyError):
        store.get(name, tmp_path / "target")
    store.delete(name)
    assert list(store.stored()) == []
    there = put(store, b"here", tmp_path)
    store.delete(there)
    assert not has(store, there)


def test_a_lost_disk_is_filled_again(store: BlobStore, tmp_path: Path) -> None:
    blob = BackedBlobs(tmp_path / "disk", store).put_bytes(b"weights")
    assert has(store, blob.digest), "before it is acknowledged"
    new = BackedBlobs(tmp_path / "another", store)
    assert [one.digest for one in new.list_behind()] == [blob.digest]
    assert new.hold([blob.digest, digest(b"?")]) == {digest(b"?")}
    assert new.path(blob.digest).read_bytes() == b"weights"
    with new.batch() as several:
        also = several(io.BytesIO(b"more"))
    assert has(store, also.digest)
    with pytest.raises(NotFound):
        new.path(digest(b"?"))


def test_what_is_collected_goes_from_both(store: BlobStore, tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", store)
    blob = blobs.put_bytes(b"weights")
    assert not blobs.remove(blob.digest, datetime.now(UTC) - timedelta(hours=1)), "somebody has just put it"
    assert has(store, blob.digest)
    assert not blobs.remove_behind(blob.digest), "it is here"
    assert blobs.remove(blob.digest, datetime.now(UTC) + timedelta(hours=1))
    assert blobs.remove_behind(blob.digest)
    assert not has(store, blob.digest)
    assert list(blobs.stored()) == []


def test_what_is_put_while_it_is_deleted_behind_stays_in_both(store: BlobStore, tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", store)
    blob = blobs.put_bytes(b"weights")
    assert blobs.remove(blob.digest, datetime.now(UTC) + timedelta(hours=1))
    delete = store.delete

    def put_first(digest: str) -> None:
        blobs.put_bytes(b"weights")
        delete(digest)

    store.delete = put_first  # type: ignore[method-assign]
    assert not blobs.remove_behind(blob.digest)
    assert has(store, blob.digest)


def test_garbage_goes_from_both_and_what_is_only_here_gets_behind(store: BlobStore, tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", store)
    late = FileBlobs(tmp_path / "disk").put_bytes(b"from before there was a store")

    async def body() -> None:
        objects = await open_sqlite(tmp_path)
        try:
            artifacts = [{"path": "w", "digest": late.digest}]
            await objects.create(Resource("ModelVersion", Meta("v"), {"model": "m", "artifacts": artifacts}), "ann")
            blobs.put_bytes(b"garbage")
            tomorrow = datetime.now(UTC) + timedelta(days=2)
            assert (await collect_garbage(objects, blobs, tomorrow)).files == 1
            assert [one.digest for one in blobs.stored()] == [one.digest for one in store.stored()] == [late.digest]
        finally:
            await objects.close()

    asyncio.run(body())


def test_one_that_does_not_answer_is_told_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    blobs = BackedBlobs(tmp_path / "disk", Away())
    with pytest.raises(Unavailable, match="the blob store cannot store a file: OSError: no route"):
        blobs.put_bytes(b"weights")
    with pytest.raises(Unavailable, match="cannot return a file"):
        blobs.path(digest(b"other"))
    assert blobs.path(digest(b"weights")).is_file(), "what is on the disk is had all the same"


class Zoneless(Away):
    """A plug-in that tells no zone, which cannot be compared with ours."""

    def stored(self) -> Iterator[Stored]:
        yield Stored(digest(b"behind"), 6, datetime(2020, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("behind", [Away(), Zoneless()])
def test_one_that_does_not_answer_holds_up_nothing_here(tmp_path: Path, behind: BlobStore) -> None:
    blobs = BackedBlobs(tmp_path / "disk", behind)
    FileBlobs(tmp_path / "disk").put_bytes(b"garbage")

    async def body() -> None:
        objects = await open_sqlite(tmp_path)
        try:
            assert (await collect_garbage(objects, blobs, datetime.now(UTC) + timedelta(days=2))).files == 1
        finally:
            await objects.close()

    asyncio.run(body())
    assert list(blobs.stored()) == []


def test_what_comes_must_be_what_it_is_called(tmp_path: Path) -> None:
    class Lies(Away):
        def get(self, digest: str, target: Path) -> None:
            target.write_bytes(b"something else")

    with pytest.raises(Unavailable, match="has other content"):
        BackedBlobs(tmp_path / "disk", Lies()).path(digest(b"weights"))


def test_an_address_that_leads_nowhere_ends_no_plane(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blobs = BackedBlobs(tmp_path / "disk", open_store("nowhere:///x"))
    assert "'nowhere' is not the scheme of an installed blob store; expected s3, gs, az, file" in caplog.text
    with pytest.raises(Unavailable, match="'nowhere' is not the scheme of an installed blob store"):
        blobs.put_bytes(b"weights")

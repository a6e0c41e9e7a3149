"""Work in threads that ends when nobody waits for it, and files that are stored many at a time."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.fs.cancellable_thread import CancellableReader, in_thread
from mizzen.blobs.fs.content import CHUNK
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import Invalid, Unavailable
from tests.support.blobs.packing import tarred, unpack, zipped


def test_who_is_cancelled_waits_until_the_work_has_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(stop: threading.Event, word: str) -> None:
        assert word == "word"
        begun.set()
        assert stop.wait(60)
        ended.set()
        CancellableReader(io.BytesIO(b"x"), stop).read(1)

    async def main() -> None:
        task = asyncio.create_task(in_thread(work, "word"))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(main())


def test_results_and_errors_pass() -> None:
    def fails(_stop: threading.Event) -> None:
        raise KeyError("x")

    assert asyncio.run(in_thread(lambda stop: stop.is_set())) is False
    with pytest.raises(KeyError):
        asyncio.run(in_thread(fails))


def test_a_batch_that_is_not_wanted_any_more(tmp_path: Path) -> None:
    blobs, stop = FileBlobs(tmp_path / "blobs"), threading.Event()
    with blobs.batch(stop) as put:
        kept = put(io.BytesIO(b"a"))
        stop.set()
        with pytest.raises(Unavailable):
            put(io.BytesIO(b"b"))
    assert blobs.path(kept.digest).read_bytes() == b"a"
    (tmp_path / "m.bin").write_bytes(b"c")
    with pytest.raises(Unavailable):
        blobs.collect(tmp_path / "m.bin", stop)
    assert not list((tmp_path / "blobs" / "incoming").iterdir())


def test_a_batch_waits_for_the_disk_once_for_each_content_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs, real = FileBlobs(tmp_path / "blobs"), os.fsync
    synced: list[int] = []
    blobs.put_bytes(b"first")  # makes the folders above

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with blobs.batch() as put:
        same = {put(io.BytesIO(b"same")) for _ in range(100)}
    [blob] = same
    assert blobs.path(blob.digest).read_bytes() == b"same"
    place = blobs.path(blob.digest).parent
    assert len(synced) <= 3
    assert synced[-1] == place.stat().st_ino, "whoever relies on it finds it after a crash"

    synced.clear()
    with blobs.batch() as put:
        many = [put(io.BytesIO(str(number).encode())) for number in range(500)]
    folders = {blobs.path(one.digest).parent.stat().st_ino for one in many}
    assert len(synced) <= 500 + 2 * len(folders)
    assert set(synced[-len(folders) :]) == folders


def test_a_batch_keeps_what_begins_alike_apart(tmp_path: Path) -> None:
    blobs, start = FileBlobs(tmp_path / "blobs"), bytes(CHUNK)
    wanted = [b"", start, start + b"a", start + b"b", start + start, start, b"", start + b"a"]
    with blobs.batch() as put:
        found = [put(io.BytesIO(data)) for data in wanted]
    assert [blobs.path(blob.digest).read_bytes() for blob in found] == wanted
    assert [blob.size for blob in found] == [len(data) for data in wanted]


def test_a_zip_with_too_many_files_is_refused_before_any_is_stored(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    many = {f"f{number}": str(number).encode() for number in range(21)}
    with pytest.raises(Invalid, match="more than 20 files"):
        unpack(blobs, zipped(many), IngestLimits(files=20))
    assert not blobs.root.exists()
    with pytest.raises(Invalid, match="more than 20 files"):
        unpack(blobs, tarred(many), IngestLimits(files=20))
    left_out = {**dict(list(many.items())[:20]), "__pycache__/x.pyc": b"", ".git/config": b"", "folder/": b""}
    assert len(unpack(blobs, zipped(left_out), IngestLimits(files=20))) == 20

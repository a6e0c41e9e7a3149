"""Blobs in a folder: content by digest, never torn, never changed."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mizzen.blobs.file_store import BlobDescriptor, FileBlobs
from mizzen.blobs.fs.content import CHUNK, ByteReader
from mizzen.blobs.ingest.spool import new_folder
from mizzen.errors import Conflict, Invalid, NotFound
from tests.support.blobs.contents import digest_of, kept


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_content_is_kept_under_its_digest(blobs: FileBlobs, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    source = tmp_path / "source"
    source.write_bytes(data)
    blob = blobs.put_file(source)
    assert blob == blobs.put_bytes(data) == BlobDescriptor(digest_of(data), size)
    hex_ = blob.digest.removeprefix("sha256:")
    assert blobs.path(blob.digest) == tmp_path / "blobs" / "sha256" / hex_[:2] / hex_
    assert blobs.path(blob.digest).read_bytes() == data
    assert stat.S_IMODE(blobs.path(blob.digest).stat().st_mode) == 0o444
    assert kept(blobs) == [blobs.path(blob.digest)]


def test_content_that_is_there_is_kept(blobs: FileBlobs) -> None:
    blob = blobs.put_bytes(b"same")
    before = blobs.path(blob.digest).stat()
    assert blobs.put_bytes(b"same") == blob
    after = blobs.path(blob.digest).stat()
    assert before.st_ino == after.st_ino


@pytest.mark.parametrize("damage", [b"whole", b"wrong content"], ids=["cut short", "as long"])
def test_content_that_was_damaged_is_repaired(blobs: FileBlobs, damage: bytes) -> None:
    place = blobs.path(blobs.put_bytes(b"whole content").digest)
    place.chmod(0o644)
    place.write_bytes(damage)
    blobs.put_bytes(b"whole content")
    assert place.read_bytes() == b"whole content"


def test_the_same_content_at_the_same_moment(blobs: FileBlobs, tmp_path: Path) -> None:
    data = os.urandom(CHUNK // 2)
    source = tmp_path / "source"
    source.write_bytes(data)
    with ThreadPoolExecutor(8) as threads:
        puts = [threads.submit(blobs.put_file, source) for _ in range(32)]
        assert {put.result() for put in puts} == {BlobDescriptor(digest_of(data), len(data))}
    assert kept(blobs) == [blobs.path(digest_of(data))]
    assert blobs.path(digest_of(data)).read_bytes() == data


def test_sources_that_are_no_files(blobs: FileBlobs, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        blobs.put_file(tmp_path / "none")
    with pytest.raises(Invalid):
        blobs.put_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid):  # and does not wait for somebody to write
        blobs.put_file(tmp_path / "pipe")
    assert kept(blobs) == []


@pytest.mark.parametrize(
    "digest",
    [
        "", "sha256:", "sha256:" + "0" * 63, "sha256:" + "0" * 65, "sha256:" + "A" * 64, "sha256:" + "0" * 64 + "\n",
        "md5:" + "0" * 64, "0" * 64, "sha256:../../../../etc/passwd", "sha256:" + "../" * 21 + "x",
    ],
)  # fmt: skip
def test_what_is_no_digest_is_refused(blobs: FileBlobs, digest: str) -> None:
    with pytest.raises(Invalid):
        blobs.path(digest)


def test_a_digest_nobody_put(blobs: FileBlobs) -> None:
    with pytest.raises(NotFound):
        blobs.path(digest_of(b"nothing"))


def test_a_folder_is_swept_up_once_nobody_has_it_open(blobs: FileBlobs) -> None:
    (blobs.root / "incoming").mkdir(parents=True)
    handle, folder = new_folder(blobs.root / "incoming", "git-")
    (folder / "objects").mkdir()
    blobs.sweep()
    assert folder.is_dir()
    os.close(handle)
    blobs.sweep()
    assert not folder.exists()


def test_sweeping_where_nothing_is(blobs: FileBlobs) -> None:
    blobs.sweep()


def test_a_file_that_changes_while_it_is_read_is_refused(blobs: FileBlobs, tmp_path: Path) -> None:
    file = tmp_path / "growing"
    file.write_bytes(b"first")

    class Meddling(FileBlobs):
        def put(self, source: ByteReader) -> BlobDescriptor:
            blob = super().put(source)
            with file.open("ab") as more:
                more.write(b"second")
            return blob

    with pytest.raises(Conflict, match="changed while it was read"):
        Meddling(blobs.root).put_file(file)

"""Uploads by digest: in pieces, gone on with, one writer at a time, and only for who sent them."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest import uploads as uploads_module
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import Conflict, Invalid, NotFound, TooLarge

DATA = os.urandom(100_000)
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture
def uploads(blobs: FileBlobs) -> Uploads:
    return Uploads(blobs, IngestLimits(upload_bytes=1 << 20, partial_bytes=2 << 20, partials=3))


def send(uploads: Uploads, start: int, end: int, owner: str = "ann") -> bool:
    with uploads.piece(owner, DIGEST, start, len(DATA)) as piece:
        piece.write(DATA[start:end])
        return uploads.finish(owner, DIGEST, len(DATA)) is not None


def test_in_pieces(blobs: FileBlobs, uploads: Uploads) -> None:
    assert not send(uploads, 0, 40_000)
    assert uploads.offset("ann", DIGEST) == 40_000
    assert uploads.offset("bob", DIGEST) == 0
    with pytest.raises(Conflict, match="continues at byte 40000"):
        send(uploads, 50_000, 60_000)
    assert not send(uploads, 30_000, 70_000), "what is sent twice is written twice"
    assert not uploads.has_sent("ann", DIGEST)
    assert send(uploads, 70_000, 100_000)
    assert blobs.path(DIGEST).read_bytes() == DATA
    assert uploads.has_sent("ann", DIGEST)
    assert not uploads.has_sent("bob", DIGEST)
    assert uploads.offset("ann", DIGEST) == 0


def test_the_wrong_content_is_dropped(blobs: FileBlobs, uploads: Uploads) -> None:
    with uploads.piece("ann", DIGEST, 0, 5) as piece:
        piece.write(b"wrong")
        with pytest.raises(Invalid, match="has the digest"):
            uploads.finish("ann", DIGEST, 5)
    with pytest.raises(NotFound):
        blobs.path(DIGEST)
    assert not [path for path in blobs.root.rglob("*") if path.is_file()]


def test_sizes(uploads: Uploads) -> None:
    with pytest.raises(TooLarge), uploads.piece("ann", DIGEST, 0, 2 << 20):
        pass
    with uploads.piece("ann", DIGEST, 0, 10) as piece, pytest.raises(TooLarge):
        piece.write(bytes(11))


def test_one_writer_at_a_time(uploads: Uploads) -> None:
    with uploads.piece("ann", DIGEST, 0, len(DATA)):
        with pytest.raises(Conflict, match="another request is uploading"), uploads.piece("ann", DIGEST, 0, len(DATA)):
            pass
        with uploads.piece("bob", DIGEST, 0, len(DATA)):
            pass


def test_many_at_once(blobs: FileBlobs, uploads: Uploads) -> None:
    def one(number: int) -> bool:
        try:
            return send(uploads, 0, len(DATA), owner=f"user-{number % 4}")
        except Conflict:
            return False

    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(one, range(32)))
    assert any(done)
    assert blobs.path(DIGEST).read_bytes() == DATA


def begin(uploads: Uploads, name: str, size: int, owner: str = "ann") -> None:
    with uploads.piece(owner, f"sha256:{hashlib.sha256(name.encode()).hexdigest()}", 0, 1 << 20) as piece:
        piece.write(bytes(size))


def test_nobody_begins_any_number_of_files(uploads: Uploads) -> None:
    for name in "abc":
        begin(uploads, name, 1)
    with pytest.raises(TooLarge, match="3 uploads are unfinished") as caught:
        begin(uploads, "d", 1)
    assert "finish some" in (caught.value.hint or "")
    begin(uploads, "c", 2)  # but what was begun goes on
    begin(uploads, "d", 1, owner="bob")


def test_nobody_leaves_any_number_of_bytes_unfinished(blobs: FileBlobs) -> None:
    uploads = Uploads(blobs, IngestLimits(upload_bytes=1 << 20, partial_bytes=150_000))
    begin(uploads, "a", 100_000)
    begin(uploads, "b", 40_000)
    begin(uploads, "b", 50_000)
    with pytest.raises(TooLarge, match="unfinished uploads hold too many bytes"):
        begin(uploads, "c", 1)
    with pytest.raises(TooLarge, match="unfinished uploads hold too many bytes"):
        begin(uploads, "b", 50_001)
    begin(uploads, "c", 150_000, owner="bob")
    uploads.collect(datetime.now(UTC) + timedelta(hours=1))
    assert send(uploads, 0, len(DATA)), "a file that is finished no longer counts"
    begin(uploads, "a", 150_000)


def test_what_comes_at_the_same_time_counts(blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads_module, "_AT_ONCE", 10_000)
    uploads = Uploads(blobs, IngestLimits(upload_bytes=1 << 20, partial_bytes=100_000))
    digests = [f"sha256:{hashlib.sha256(name).hexdigest()}" for name in (b"a", b"b")]
    with uploads.piece("ann", digests[0], 0, 1 << 20) as one, uploads.piece("ann", digests[1], 0, 1 << 20) as two:
        for _ in range(5):
            one.write(bytes(10_000))
            two.write(bytes(10_000))
        for piece in (one, two):
            with pytest.raises(TooLarge, match="unfinished"):
                piece.write(b".")
    assert sum(uploads.offset("ann", digest) for digest in digests) == 100_000


def test_what_nobody_went_on_with_is_forgotten(uploads: Uploads) -> None:
    send(uploads, 0, 10)
    now = datetime.now(UTC)
    assert uploads.collect(now - timedelta(hours=1)) == 0
    assert uploads.collect(now + timedelta(hours=1)) == 1
    assert uploads.offset("ann", DIGEST) == 0

"""A disk that is full: said so, nothing left behind, and all works again once there is room."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest import archives
from mizzen.blobs.ingest.intake import Intake
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.blobs.limits import IngestLimits
from mizzen.errors import Unavailable
from tests.support.blobs.packing import tarred

SMALL = 1 << 20
DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


def test_putting(disk: Path) -> None:
    blobs = FileBlobs(disk / "blobs")
    kept = blobs.put_bytes(b"before")
    with pytest.raises(Unavailable, match="No space left") as refused:
        blobs.put_bytes(os.urandom(2 * SMALL))
    assert "full disk" in refused.value.hint
    assert files(disk) == [blobs.path(kept.digest)]
    assert blobs.put_bytes(b"after").size == 5


def test_unpacking(disk: Path) -> None:
    blobs = FileBlobs(disk / "blobs")
    data = tarred({"a": b"small", "b": os.urandom(2 * SMALL)})
    with pytest.raises(Unavailable):
        archives.unpack(io.BytesIO(data), len(data), Intake(blobs.put, IngestLimits(), len(data)), IngestLimits())
    assert not files(disk / "blobs" / "incoming")


def test_sending_in_pieces(disk: Path) -> None:
    uploads = Uploads(FileBlobs(disk / "blobs"), IngestLimits(10 * SMALL))
    with pytest.raises(Unavailable), uploads.piece("ann", DIGEST, 0, 2 * SMALL) as piece:
        piece.write(os.urandom(2 * SMALL))
    assert files(disk) == []
    assert uploads.offset("ann", DIGEST) == 0

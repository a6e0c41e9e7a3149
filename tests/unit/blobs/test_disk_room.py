"""Who may still take how much of a disk that gets full."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mizzen.blobs.disk_room import Level, Room, free_bytes, freeing
from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import NoRoom, Unavailable

MB = 1 << 20


class Disk:
    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self, _: Path) -> int:
        return self.free


@pytest.mark.parametrize(
    ("free", "level", "files", "writes"),
    [(100, Level.ENOUGH, True, True), (99, Level.LOW, False, True), (10, Level.LOW, False, True),
     (9, Level.CRITICAL, False, False), (0, Level.CRITICAL, False, False)],
)  # fmt: skip
def test_marks(tmp_path: Path, free: int, level: Level, files: bool, writes: bool) -> None:
    room = Room(tmp_path, 100, 10, Disk(free))
    assert room.level() is level
    assert (taken(room.for_files), taken(room.for_writes)) == (files, writes)


def test_no_marks(tmp_path: Path) -> None:
    room = Room(tmp_path, 0, 0, Disk(0))
    assert room.level() is Level.ENOUGH
    assert taken(lambda: room.for_files(MB))
    assert taken(room.for_writes)


def test_a_file_has_to_leave_room(tmp_path: Path) -> None:
    room = Room(tmp_path, 100, 10, Disk(150))
    room.for_files(50)
    with pytest.raises(NoRoom, match="no room for 51 bytes more: 150 bytes are free") as refused:
        room.for_files(51)
    assert "delete unused versions" in refused.value.hint
    assert isinstance(refused.value, Unavailable), "worth trying again"


def test_the_real_disk(tmp_path: Path) -> None:
    assert 0 < free_bytes(tmp_path) < 1 << 60


def test_files_are_refused_before_and_while_they_come(tmp_path: Path) -> None:
    disk = Disk(10 * MB)
    blobs = FileBlobs(tmp_path / "blobs", Room(tmp_path, 5 * MB, MB, disk))
    kept = blobs.put_bytes(b"before")
    with blobs.spool() as spool:
        for _ in range(2):
            spool.write(bytes(2 * MB))
            disk.free -= 2 * MB
        with pytest.raises(NoRoom):
            spool.write(bytes(2 * MB))
    disk.free = 4 * MB
    with pytest.raises(NoRoom):
        blobs.put_bytes(b"x")
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == [blobs.path(kept.digest)]
    assert blobs.hold([kept.digest]) == frozenset(), "what is there can be named"
    disk.free = 10 * MB
    blobs.put_bytes(b"x")


def test_uploads_are_refused_by_the_size_they_announce(tmp_path: Path) -> None:
    disk = Disk(10 * MB)
    uploads = Uploads(FileBlobs(tmp_path / "blobs", Room(tmp_path, 5 * MB, MB, disk)))
    data = bytes(6 * MB)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    with pytest.raises(NoRoom), uploads.piece("ann", digest, 0, len(data)):
        raise AssertionError("nothing may be written")
    disk.free = 20 * MB
    with uploads.piece("ann", digest, 0, len(data)) as piece:
        piece.write(data[: 3 * MB])
    disk.free = 8 * MB
    with uploads.piece("ann", digest, 3 * MB, len(data)) as piece:
        piece.write(data[3 * MB :])
        assert uploads.finish("ann", digest, len(data)) is not None


def test_copies_for_serving_leave_what_the_store_needs(tmp_path: Path) -> None:
    disk = Disk(10 * MB)
    blobs = FileBlobs(tmp_path / "blobs", Room(tmp_path, 5 * MB, MB, disk))
    blob = blobs.put_bytes(bytes(2 * MB))
    entries = [Entry("weights", blob.digest, blob.size)]
    disk.free = 3 * MB - 1
    with pytest.raises(NoRoom, match="no room for a copy of 2,097,152 bytes"):
        blobs.lay_out(entries, tmp_path / "work")
    assert not (tmp_path / "work").exists()
    disk.free = 3 * MB
    blobs.lay_out(entries, tmp_path / "work")
    disk.free = 0
    blobs.lay_out(entries, tmp_path / "work")  # it is there already


def taken(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except NoRoom:
        return False
    return True


def test_who_makes_room_may_write(tmp_path: Path) -> None:
    room = Room(tmp_path, 100, 10, Disk(5))
    with freeing():
        room.for_writes()
        assert not taken(room.for_files)
    assert not taken(room.for_writes)

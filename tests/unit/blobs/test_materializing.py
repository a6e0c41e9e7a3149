"""Blobs that become folders again: whole, once, and never through a blob itself."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.errors import Invalid, NotFound, Unavailable
from mizzen.kinds.model import Artifact
from tests.support.blobs.contents import digest_of, tree


def entries_of(blobs: FileBlobs, files: dict[str, bytes]) -> list[Entry]:
    return [Entry(path, blobs.put_bytes(data).digest, len(data)) for path, data in files.items()]


FILES = {"model.bin": b"model", "code/a.py": b"a", "code/deep/b.py": b"b", "same": b"a"}


def test_a_folder_comes_back_as_it_went_in(blobs: FileBlobs, tmp_path: Path) -> None:
    target = tmp_path / "work" / "uid-1"
    blobs.lay_out(entries_of(blobs, FILES), target)
    assert tree(target) == FILES
    assert sorted(path.name for path in target.parent.iterdir()) == [".uid-1.laid", "uid-1"]
    assert {entry.path for entry in blobs.collect(target)} == FILES.keys()


def test_artifacts_can_be_laid_out_as_they_are(blobs: FileBlobs, tmp_path: Path) -> None:
    blob = blobs.put_bytes(b"x")
    blobs.lay_out([Artifact(path="x", digest=blob.digest, size=blob.size, trusted=False)], tmp_path / "out")
    assert tree(tmp_path / "out") == {"x": b"x"}


def test_a_folder_that_is_right_is_left_alone(blobs: FileBlobs, tmp_path: Path) -> None:
    target = tmp_path / "out"
    entries = entries_of(blobs, FILES)
    blobs.lay_out(entries, target)
    before = target.stat().st_ino
    (target / "code" / "__pycache__").mkdir()
    (target / "code" / "__pycache__" / "a.pyc").write_bytes(b"bytecode")
    damage(blobs.path(digest_of(b"model")))  # which reading would find
    blobs.lay_out(entries, target)
    assert target.stat().st_ino == before


@pytest.mark.parametrize(
    "new", [{"same": b"a"}, FILES | {"more": b"m"}, FILES | {"same": b"b"}, {"code": b"now a file"}, {}]
)
def test_a_folder_that_differs_is_replaced(blobs: FileBlobs, tmp_path: Path, new: dict[str, bytes]) -> None:
    target = tmp_path / "out"
    blobs.lay_out(entries_of(blobs, FILES), target)
    blobs.lay_out(entries_of(blobs, new), target)
    assert tree(target) == new
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.laid", "blobs", "out"]


def test_changes_made_to_a_folder_are_undone(blobs: FileBlobs, tmp_path: Path) -> None:
    target = tmp_path / "out"
    blobs.lay_out(entries_of(blobs, FILES), target)
    (target / "same").unlink()
    (target / "same").write_bytes(b"z")  # as long as before
    (target / "code" / "a.py").unlink()
    (target / "code" / "a.py").symlink_to("/etc/hostname")
    blobs.lay_out(entries_of(blobs, FILES), target)
    assert tree(target) == FILES
    assert not (target / "code" / "a.py").is_symlink()


@pytest.mark.parametrize("marker", [None, b"", b"{", b"[]", b'{"model.bin": 1}'])
def test_without_a_good_marker_a_folder_is_laid_out_anew(
    blobs: FileBlobs, tmp_path: Path, marker: bytes | None
) -> None:
    target = tmp_path / "out"
    blobs.lay_out(entries_of(blobs, FILES), target)
    before = target.stat().st_ino
    if marker is None:
        (tmp_path / ".out.laid").unlink()
    else:
        (tmp_path / ".out.laid").write_bytes(marker)
    blobs.lay_out(entries_of(blobs, FILES), target)
    assert target.stat().st_ino != before
    assert tree(target) == FILES


def test_what_is_done_to_a_folder_is_not_done_to_the_blobs(blobs: FileBlobs, tmp_path: Path) -> None:
    entries = entries_of(blobs, FILES)
    blobs.lay_out(entries, tmp_path / "one")
    for path in FILES:
        damage(tmp_path / "one" / path)
    blobs.lay_out(entries, tmp_path / "two")
    assert tree(tmp_path / "two") == FILES
    blobs.lay_out(entries, tmp_path / "one")
    assert tree(tmp_path / "one") == FILES


def test_a_damaged_blob_is_named_and_laid_out_nowhere(blobs: FileBlobs, tmp_path: Path) -> None:
    entries = entries_of(blobs, FILES)
    damage(blobs.path(digest_of(b"model")))
    with pytest.raises(NotFound, match=f"blob {digest_of(b'model')} is damaged"):
        blobs.lay_out(entries, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["blobs"]
    blobs.lay_out(entries_of(blobs, FILES), tmp_path / "out")
    assert tree(tmp_path / "out") == FILES


def damage(file: Path) -> None:
    """As long as before, in place."""
    file.chmod(0o644)
    file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))


def test_what_a_killed_process_left_is_cleared(blobs: FileBlobs, tmp_path: Path) -> None:
    for left in (".out.new", ".out.old"):
        (tmp_path / left / "half").mkdir(parents=True)
        (tmp_path / left / "half" / "file").write_text("x")
    blobs.lay_out(entries_of(blobs, FILES), tmp_path / "out")
    assert tree(tmp_path / "out") == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.laid", "blobs", "out"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another filesystem, which can share no blocks."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second filesystem to write to")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_files_are_copied_where_they_cannot_be_cloned(blobs: FileBlobs, elsewhere: Path) -> None:
    target = elsewhere / "out"
    blobs.lay_out(entries_of(blobs, FILES), target)
    assert tree(target) == FILES
    assert stat.S_IMODE((target / "model.bin").stat().st_mode) == 0o444
    before = target.stat().st_ino
    blobs.lay_out(entries_of(blobs, FILES), target)
    assert target.stat().st_ino == before
    shutil.rmtree(target)
    assert blobs.path(digest_of(b"model")).read_bytes() == b"model"


@pytest.mark.parametrize(
    "paths",
    [
        ["../out"], ["/etc/passwd"], ["a/../../b"], ["a/.."], ["."], [""], ["a//b"], ["a/"], ["./a"], ["a\0b"],
        ["\udcff"], ["a", "a"], ["a", "a/b"], ["a/b/c", "a/b"],
    ],
)  # fmt: skip
def test_paths_that_do_not_fit_are_refused(blobs: FileBlobs, tmp_path: Path, paths: Sequence[str]) -> None:
    blob = blobs.put_bytes(b"x")
    with pytest.raises(Invalid):
        blobs.lay_out([Entry(path, blob.digest, 1) for path in paths], tmp_path / "work" / "target")
    assert not (tmp_path / "work").exists()


def test_a_missing_blob_is_said_before_anything_is_made(blobs: FileBlobs, tmp_path: Path) -> None:
    good = entries_of(blobs, {"a": b"a"})
    with pytest.raises(NotFound):
        blobs.lay_out([*good, Entry("b", digest_of(b"none"), 1)], tmp_path / "work" / "target")
    assert not (tmp_path / "work").exists()


def test_a_place_where_no_folder_can_be(blobs: FileBlobs, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable):
        blobs.lay_out(entries_of(blobs, FILES), tmp_path / "file" / "target")

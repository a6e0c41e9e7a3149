"""Blobs in a folder: content by digest, never torn, never changed; folders in and out of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mizzen.blobs import folders
from mizzen.blobs.content import CHUNK, Readable
from mizzen.blobs.files import Blob, Entry, FileBlobs
from mizzen.errors import Conflict, Invalid, NotFound, Unavailable
from mizzen.kinds.model import Artifact


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    return FileBlobs(tmp_path / "blobs")


def kept(blobs: FileBlobs) -> list[Path]:
    """Every file in the folder, half-written ones too."""
    return [path for path in blobs.root.rglob("*") if path.is_file()]


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- put and path


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_content_is_kept_under_its_digest(blobs: FileBlobs, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    source = tmp_path / "source"
    source.write_bytes(data)
    blob = blobs.put_file(source)
    assert blob == blobs.put_bytes(data) == Blob(digest_of(data), size)
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
        assert {put.result() for put in puts} == {Blob(digest_of(data), len(data))}
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


KILLED = """
import os, signal, sys
from pathlib import Path
from mizzen.blobs.files import FileBlobs

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # the content is written, and not yet in its place
FileBlobs(Path(sys.argv[1])).put_bytes(b"never finished")
"""


def test_a_killed_put_leaves_no_blob_and_is_swept_up(blobs: FileBlobs, tmp_path: Path) -> None:
    whole = blobs.put_bytes(b"whole")
    child = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "blobs"], check=False, timeout=60)
    assert child.returncode == -9
    with pytest.raises(NotFound):
        blobs.path(digest_of(b"never finished"))
    assert len(kept(blobs)) == 2
    blobs.sweep()
    assert kept(blobs) == [blobs.path(whole.digest)]
    assert blobs.put_bytes(b"never finished").digest == digest_of(b"never finished")


FULL = """
import resource, sys
from pathlib import Path
from mizzen.blobs.files import FileBlobs
from mizzen.errors import Unavailable

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    FileBlobs(Path(sys.argv[1])).put_bytes(b"x" * 5000)
except Unavailable as error:
    sys.exit(0 if isinstance(error.__cause__, OSError) else 1)
sys.exit(2)
"""


def test_a_full_disk_is_unavailable_and_leaves_nothing(blobs: FileBlobs, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, tmp_path / "blobs"], check=True, timeout=60)
    assert kept(blobs) == []


def test_sweeping_where_nothing_is(blobs: FileBlobs) -> None:
    blobs.sweep()


# -- collect


def test_a_file_alone(blobs: FileBlobs, tmp_path: Path) -> None:
    file = tmp_path / "model.joblib"
    file.write_bytes(b"model")
    assert blobs.collect(file) == (Entry("model.joblib", digest_of(b"model"), 5),)
    (tmp_path / "latest").symlink_to(file)
    assert blobs.collect(tmp_path / "latest") == (Entry("latest", digest_of(b"model"), 5),)


def test_a_folder_in_order_without_what_tools_leave(blobs: FileBlobs, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    for path in ("b.py", "a/z.py", "a.py", "a/é ü.txt", "a-b", ".hidden", "__pycache__/b.pyc", ".git/HEAD", "a/c.pyc",
                 "a/__pycache__/x"):  # fmt: skip
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (folder / "empty").mkdir()
    entries = blobs.collect(folder)
    assert [entry.path for entry in entries] == sorted([".hidden", "a-b", "a.py", "a/z.py", "a/é ü.txt", "b.py"])
    assert all(entry.digest == digest_of(entry.path.encode()) for entry in entries)
    (tmp_path / "by link").symlink_to(folder)
    assert blobs.collect(tmp_path / "by link") == entries


def test_links_within_the_folder_are_the_files_they_name(blobs: FileBlobs, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "deep").mkdir(parents=True)
    (folder / "real").write_text("content")
    (folder / "deep" / "link").symlink_to("../real")
    assert [(entry.path, entry.digest) for entry in blobs.collect(folder)] == [
        ("deep/link", digest_of(b"content")),
        ("real", digest_of(b"content")),
    ]


def test_every_fault_of_a_folder_at_once(blobs: FileBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "code"
    (folder / "sub").mkdir(parents=True)
    (folder / "good").write_text("good")
    (tmp_path / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "sub" / "up").symlink_to("../../secret")
    (folder / "folder").symlink_to("sub")
    (folder / "nowhere").symlink_to("none")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    (folder / "device").symlink_to("/dev/null")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("named badly")
    monkeypatch.chdir(folder)  # the path of a socket has to be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    with pytest.raises(Invalid) as refused:
        blobs.collect(folder)
    assert {fault.path for fault in refused.value.faults} == {
        "out", "sub/up", "folder", "nowhere", "circle", "pipe", "device", "?", "socket",
    }  # fmt: skip
    assert kept(blobs) == [], "nothing is stored of a folder that is refused"


def test_folders_with_nothing_too_much_or_not_there(
    blobs: FileBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound):
        blobs.collect(tmp_path / "none")
    folder = tmp_path / "code"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__" / "x.pyc").write_text("x")
    with pytest.raises(Invalid, match="no files"):
        blobs.collect(folder)
    monkeypatch.setattr(folders, "MOST_FILES", 3)
    for i in range(3):
        (folder / str(i)).write_text(str(i))
    assert len(blobs.collect(folder)) == 3
    (folder / "one more").write_text("x")
    with pytest.raises(Invalid, match="more than 3 files"):
        blobs.collect(folder)


# -- lay_out


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


# -- folders that are still being written


def test_a_folder_is_read_when_it_is_finished(blobs: FileBlobs, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "model.bin").write_bytes(b"model")
    last = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    assert "changed less than 5 s ago" in str(folders.unfinished(folder, last + 4))
    assert folders.unfinished(folder, last + 6) is None
    (folder / "sub" / "more.part").write_bytes(b"half")
    assert folders.unfinished(folder, last + 1000) == "sub/more.part is still being written"
    (folder / ".complete").touch()
    assert folders.unfinished(folder, last) is None
    assert [entry.path for entry in blobs.collect(folder)] == ["sub/model.bin", "sub/more.part"]


def test_a_file_that_changes_while_it_is_read_is_refused(blobs: FileBlobs, tmp_path: Path) -> None:
    file = tmp_path / "growing"
    file.write_bytes(b"first")

    class Meddling(FileBlobs):
        def put(self, source: Readable) -> Blob:
            blob = super().put(source)
            with file.open("ab") as more:
                more.write(b"second")
            return blob

    with pytest.raises(Conflict, match="changed while it was read"):
        Meddling(blobs.root).put_file(file)

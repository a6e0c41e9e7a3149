"""Folders that become blobs: which files count, and when a folder is finished."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mizzen.blobs.file_store import Entry, FileBlobs
from mizzen.blobs.fs import folders
from mizzen.errors import Invalid, NotFound
from tests.support.blobs.contents import digest_of, kept


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


def test_every_fault_of_a_folder_at_once(blobs: FileBlobs, tmp_path: Path) -> None:
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
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
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


def test_a_marker_of_a_finished_folder_is_left_out(blobs: FileBlobs, tmp_path: Path) -> None:
    folder = tmp_path / "1"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "model.bin").write_bytes(b"model")
    (folder / ".complete").touch()
    assert [entry.path for entry in blobs.collect(folder)] == ["sub/model.bin"]

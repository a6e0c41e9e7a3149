from __future__ import annotations

import os
from pathlib import Path

import pytest

from mizzen.blobs.fs.remove_tree import remove_tree


def test_a_folder_goes_however_deep_it_is(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    outside.mkdir()
    (outside / "stays").touch()
    top.mkdir()
    (top / "link").symlink_to(outside)
    at = os.open(top, os.O_RDONLY)
    for number in range(3000):
        os.mkdir("d", dir_fd=at)
        at, before = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(before)
        if number % 500 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
            os.symlink(outside, "link", dir_fd=at)
    os.close(at)
    remove_tree(top)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "stays").exists()


def test_what_is_not_there_is_gone_already_and_what_is_no_folder_is_told(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "file")

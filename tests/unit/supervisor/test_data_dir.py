from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from mizzen.supervisor import client, launch
from mizzen.supervisor.data_dir import Home, UnusableHome, write_json
from mizzen.supervisor.processes import procfs


def test_a_short_path_keeps_its_run_folder_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home(Path("d"), Path("d/run"))
    home.prepare()
    assert Path("d").stat().st_mode & 0o777 == 0o700
    assert Path("d/run").stat().st_mode & 0o777 == 0o700
    assert not Path("d/run").is_symlink()
    assert {path.name for path in Path("d/run").iterdir()} == {"pipes", "processes", "w"}


def test_the_link_decides_whatever_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = tmp_path / ("long" * 30)
    home = Home.of(data_dir)
    try:
        home.prepare()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        assert Home.of(data_dir) == home
        alias = tmp_path / "alias"
        alias.symlink_to(data_dir)
        assert Home.of(alias) == home
    finally:
        _remove(home)


def test_a_copied_data_dir_does_not_share_the_run_folder(tmp_path: Path) -> None:
    data_dir, copy = tmp_path / ("long" * 30), tmp_path / ("copy" * 30)
    home, other = Home.of(data_dir), Home.of(copy)
    try:
        home.prepare()
        copy.mkdir()
        (copy / "run").symlink_to(home.run)
        other = Home.of(copy)
        assert other.run != home.run
        other.prepare()
        assert (copy / "run").readlink() == other.run
    finally:
        _remove(home)
        _remove(other)


def test_a_run_folder_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    home = Home.of(tmp_path / ("long" * 30))
    try:
        home.run.symlink_to(tmp_path)
        with pytest.raises(UnusableHome, match="not a folder of this user"):
            home.prepare()
    finally:
        home.run.unlink()


@pytest.mark.parametrize("fault", ["owner", "mode", "link"])
def test_nobody_follows_a_run_folder_that_others_may_have_made(tmp_path: Path, fault: str) -> None:
    if fault == "owner" and os.getuid() != 0:
        pytest.skip("only root can give folders away")
    home = Home.of(tmp_path / ("long" * 30))
    try:
        home.prepare()
        write_json(home.info, {"pid": os.getpid(), "start": procfs.start_of(os.getpid()), "listeners": {}})
        assert launch.alive(home) is not None, "it is believed as long as the folder is ours"
        if fault == "owner":
            os.chown(home.run, 65534, 65534)
        elif fault == "mode":
            home.run.chmod(0o755)
        else:
            home.run.rename(tmp_path / "theirs")
            home.run.symlink_to(tmp_path / "theirs")
        for reader in (
            lambda: launch.alive(home),
            lambda: client.ask(home, "info"),
            lambda: client.Tether(home),
            lambda: asyncio.run(client.Client.connect(home)),
            home.prepare,
        ):
            with pytest.raises(UnusableHome) as caught:
                reader()
            assert "TMPDIR" in caught.value.hint
    finally:
        _remove(home)


def test_a_link_in_place_of_the_run_folder_is_not_followed(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path / "run")
    (tmp_path / "theirs").mkdir(mode=0o700)
    home.run.symlink_to(tmp_path / "theirs")
    with pytest.raises(UnusableHome):
        launch.alive(home)


def test_a_file_is_no_data_dir(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = Home.of(tmp_path / "file")
    with pytest.raises(UnusableHome, match="cannot be used as the data dir"):
        home.prepare()


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"pid": 1}'])
def test_a_damaged_note_is_no_supervisor(tmp_path: Path, text: str) -> None:
    home = Home.of(tmp_path / "d")
    home.prepare()
    home.info.write_text(text)
    try:
        assert launch.alive(home) is None
    finally:
        _remove(home)


def _remove(home: Home) -> None:
    if home.run.is_symlink():
        home.run.unlink()
    elif home.run.exists():
        shutil.rmtree(home.run)

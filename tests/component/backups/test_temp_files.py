"""Where backups are written, where not, and what those leave who are killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from mizzen.backups import folder as backups_folder
from mizzen.backups import snapshot, temp_files
from mizzen.backups.create import BackupRequest
from mizzen.blobs.file_store import FileBlobs
from mizzen.errors import Conflict, Forbidden, Unavailable
from tests.support.backups.folders import TAKEN, Quiet, backup, data_dir, names, restore

_KILLED = """
import os, sys
from pathlib import Path
from tests.support.backups.folders import TAKEN, Quiet
from mizzen.backups import folder, restore
from mizzen.backups.create import BackupRequest

class Killed(Quiet):
    def step(self, what, total):
        if what == sys.argv[1]:
            os.kill(os.getpid(), 9)

if sys.argv[1] == "files":
    folder.add(BackupRequest(Path(sys.argv[2]), TAKEN), Path(sys.argv[3]), Killed())
else:
    restore._write = lambda *_: os.kill(os.getpid(), 9)
    restore.restore(Path(sys.argv[2]), Path(sys.argv[3]), Killed())
"""


def killed(step: str, source: Path, target: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, step, str(source), str(target)], check=False)
    assert done.returncode == -9


def test_what_a_killed_backup_left_goes_with_the_next(tmp_path: Path) -> None:
    there, folder = data_dir(tmp_path / "data", b"one"), tmp_path / "backups"
    killed("files", there, folder)
    left = sorted(path.name for path in folder.glob(".mizzen-*"))
    assert [name.rpartition(".")[2] for name in left] == ["db", "part"]
    with temp_files.open_file_draft(folder / "mizzen-another.tar"):  # one that is being written is left alone
        file, _ = backups_folder.add(BackupRequest(there, TAKEN + timedelta(days=1)), folder, Quiet())
        assert {path.name for path in folder.glob(".mizzen-*")} == {
            ".mizzen-another.tar.db",
            ".mizzen-another.tar.part",
        }
    restore(file, tmp_path / "again")


def test_half_of_a_model_that_a_killed_backup_left_goes_once_nobody_writes(tmp_path: Path) -> None:
    there, folder = data_dir(tmp_path / "data", b"one"), tmp_path / "backups"
    backups_folder.add(BackupRequest(there, TAKEN), folder, Quiet())
    left = folder / "blobs" / "incoming" / "half"
    left.write_bytes(b"on")
    with FileBlobs(folder / "blobs").pin():
        backups_folder.add(BackupRequest(there, TAKEN + timedelta(days=1)), folder, Quiet())
    assert left.exists(), "it may be theirs"
    backups_folder.add(BackupRequest(there, TAKEN + timedelta(days=2)), folder, Quiet())
    assert not left.exists()


def test_what_a_killed_restore_left_goes_with_the_next(tmp_path: Path) -> None:
    backup(data_dir(tmp_path / "data", b"one"), tmp_path / "b.tar")
    (tmp_path / ".again.notours.part").mkdir()
    killed("never", tmp_path / "b.tar", tmp_path / "again")
    assert len(list(tmp_path.glob(".again.*.part"))) == 2
    with temp_files.open_folder_draft(tmp_path / "again") as held:
        restore(tmp_path / "b.tar", tmp_path / "again")
        assert {path.name for path in tmp_path.glob(".again.*")} == {held.name, ".again.notours.part"}


def test_who_comes_while_one_becomes_whole_does_not_empty_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, file = data_dir(tmp_path / "data", b"one"), tmp_path / "b.tar"
    opened = os.open

    def late(path: str | Path, flags: int, mode: int = 0o777, **more: int) -> int:
        handle = opened(path, flags, mode, **more)
        if Path(path).name == ".b.tar.part":
            monkeypatch.setattr(os, "open", opened)
            # Another one has it, and is done before we come to lock it.
            Path(path).replace(file)
            file.write_bytes(b"whole")
        return handle

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(Conflict, match="another backup"):
        backup(there, file)
    assert file.read_bytes() == b"whole"


def test_a_data_dir_is_no_place_for_backups(tmp_path: Path) -> None:
    there, other = data_dir(tmp_path / "data", b"one"), data_dir(tmp_path / "other", b"two")
    before = names(there), names(other)
    (tmp_path / "link").symlink_to(there)
    for target in (there / "mizzen.db", there / "b.tar", tmp_path / "link" / "b.tar"):
        with pytest.raises(Conflict, match="inside the data dir"):
            backup(there, target)
    for folder in (there, tmp_path / "link", other):
        with pytest.raises(Conflict, match="is a data dir"):
            backups_folder.add(BackupRequest(there, TAKEN), folder, Quiet(), keep=1)
    assert (names(there), names(other)) == before


def test_all_may_be_named_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir(tmp_path / "data", b"one")
    monkeypatch.chdir(tmp_path)
    file, _ = backups_folder.add(BackupRequest(Path("data"), TAKEN), Path("some/backups"), Quiet(), keep=1)
    restore(file, Path("again"))
    backup(Path("again"), Path("b.tar"))
    restore(Path("b.tar"), Path("and/again"))


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Conflict, match="not a regular file"):
        backup(data_dir(tmp_path / "data", b"one"), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_the_disk_that_is_full_is_named(tmp_path: Path) -> None:
    """Not that of the plane, which is only read."""
    with closing(sqlite3.connect(":memory:")) as small:
        small.execute("PRAGMA max_page_count = 1")
        with (
            pytest.raises(Unavailable, match="/small has no room"),
            snapshot._explain_errors(tmp_path / "data" / "mizzen.db", tmp_path / "small" / "copy.db"),
        ):
            small.execute("CREATE TABLE one (number)")


def test_a_disk_of_its_own_is_no_place_for_a_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told first, and not when all has been written beside it, on another disk."""
    backup(data_dir(tmp_path / "data", b"one"), tmp_path / "b.tar")
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "disk")
    with pytest.raises(Conflict, match="a mount point") as refused:
        restore(tmp_path / "b.tar", tmp_path / "disk")
    assert f"--data-dir {tmp_path / 'disk' / 'data'}" in refused.value.hint
    restore(tmp_path / "b.tar", tmp_path / "disk" / "data")


def test_an_empty_folder_of_somebody_else_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup(data_dir(tmp_path / "data", b"one"), tmp_path / "b.tar")
    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Forbidden, match="another user"):
        restore(tmp_path / "b.tar", tmp_path / "theirs")
    assert os.listdir(tmp_path / "theirs") == []

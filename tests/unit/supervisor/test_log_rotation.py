"""Logs are put aside at their size, so many are kept, old ones go, and whoever follows loses nothing."""

from __future__ import annotations

import errno
import os
import threading
from itertools import islice
from pathlib import Path

import pytest

from mizzen.cli.plane import log_tail
from mizzen.supervisor.processes.log_rotation import LogRetention, expire, is_too_long, rotate
from mizzen.supervisor.protocol import Boot

DAY = 86_400


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("ab", buffering=0) as writer:
        for number in range(5):
            writer.write(b"%d\n" % number)
            assert is_too_long(path, limit=1)
            rotate(path, 3)
        writer.write(b"new\n")
    found = {name: (tmp_path / name).read_text() for name in names(tmp_path)}
    assert found == {"x.log": "new\n", "x.log.1": "4\n", "x.log.2": "3\n", "x.log.3": "2\n"}
    rotate(path, 1)
    assert names(tmp_path) == {"x.log", "x.log.1"}, "fewer are kept from now on"
    assert (tmp_path / "x.log.1").stat().st_mode & 0o777 == 0o600


def test_what_comes_while_it_is_copied_is_copied_too(tmp_path: Path) -> None:
    """A writer in another thread, through many rotations: no line is torn, and none is there twice."""
    path = tmp_path / "x.log"
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        with path.open("ab", buffering=0) as writer:
            while not stop.is_set():
                writer.write(b"%d\n" % written)
                written += 1
                stop.wait(0.0001)

    thread = threading.Thread(target=write)
    thread.start()
    kept: list[int] = []
    try:
        for _ in range(20):
            while not is_too_long(path, limit=1000):
                pass
            rotate(path)
            kept += [int(line) for line in (tmp_path / "x.log.1").read_text().splitlines()]
    finally:
        stop.set()
        thread.join()
    kept += [int(line) for line in path.read_text().splitlines()]
    assert kept == sorted(set(kept)), "none twice, all in order"
    assert kept[-1] == written - 1
    assert written - len(kept) <= 20, "at most what was written in the moment of a cut"


def test_old_ones_go(tmp_path: Path) -> None:
    now = 1_000 * DAY
    for name, days in {"a.0.log": 40, "a.0.log.1": 50, "b.0.log": 10, "plane.log": 40, "plane.log.1": 31}.items():
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (now - days * DAY, now - days * DAY))
    written_to = {tmp_path / "plane.log"}
    assert expire(tmp_path, written_to, now, 0) == []
    gone = expire(tmp_path, written_to, now, 30)
    assert {path.name for path in gone} == {"a.0.log", "a.0.log.1", "plane.log.1"}
    assert names(tmp_path) == {"b.0.log", "plane.log"}


def test_what_is_no_log_is_left_alone(tmp_path: Path) -> None:
    """A folder, a pipe, a link: of an operator, or of a model's code. The supervisor must not end by any of them."""
    now = 1_000 * DAY
    (tmp_path / "old.logs").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "link.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a.0.log").write_text("x")
    for name in names(tmp_path):
        os.utime(tmp_path / name, (0, 0), follow_symlinks=False)
    assert [path.name for path in expire(tmp_path, (), now, 30)] == ["a.0.log"]
    assert names(tmp_path) == {"old.logs", "pipe.log", "link.log"}


def test_on_a_full_disk_it_is_emptied_and_no_copy_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.log"
    path.write_text("line\n")
    (tmp_path / "x.log.1").write_text("before\n")

    def fail(code: int) -> None:
        def write(handle: int, data: bytes) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "write", write)

    fail(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        rotate(path)
    assert {name: (tmp_path / name).read_text() for name in names(tmp_path)} == {
        "x.log": "line\n",
        "x.log.1": "before\n",
    }
    fail(errno.ENOSPC)
    rotate(path)
    monkeypatch.undo()
    assert {name: (tmp_path / name).read_text() for name in names(tmp_path)} == {"x.log": "", "x.log.1": "before\n"}


def test_a_supervisor_is_told(tmp_path: Path) -> None:
    Boot(logs=LogRetention(100, 5, 2.5)).write(tmp_path / "boot.json")
    assert Boot.read(tmp_path / "boot.json").logs == LogRetention(100, 5, 2.5)
    (tmp_path / "older.json").write_text("{}")
    assert Boot.read(tmp_path / "older.json").logs == LogRetention()


def test_following_through_rotations_loses_nothing(tmp_path: Path) -> None:
    """By copy and cut, as of what processes print, and by another name, as of the access log."""
    path = tmp_path / "x.log"
    path.write_text("0\n")
    lines = log_tail.tail([path], None, follow=True)
    assert next(lines) == "0\n"
    for number, put_aside in ((1, rotate), (3, lambda file: file.replace(f"{file}.1"))):
        with path.open("a") as log:
            log.write(f"{number}\n")
        put_aside(path)
        with path.open("a") as log:
            log.write(f"{number + 1}\n")
        assert list(islice(lines, 2)) == [f"{number}\n", f"{number + 1}\n"]

"""Files that others write: pipes, links and devices in their place are refused, and nobody waits for them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mizzen.runs import progress, records, safe_read
from mizzen.runs.paths import ReplicaPlace
from mizzen.runs.records import Progress


def a_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text('{"step": 1}')
    path.symlink_to("elsewhere")


def a_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("make", [os.mkfifo, a_link, a_socket, os.mkdir])
def test_what_is_no_file_is_read_as_if_it_were_not_there_and_nobody_waits(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    place = ReplicaPlace(tmp_path)
    for path in (place.progress, place.past_progress, place.report):
        make(path)
    assert progress.read(place) is None
    assert records.read(place.report) is None
    assert progress.eta(place, Progress(step=1, total=2, time=5.0), None) is None


def test_no_more_is_read_than_may_be(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    os.utime(path, (7, 7))
    assert safe_read.read_small(path, 5) == (b"12345", 7.0)
    with pytest.raises(ValueError, match="more than 4 bytes"):
        safe_read.read_small(path, 4)


def test_a_record_that_is_nested_without_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"[" * 200_000)
    assert records.read(tmp_path / "a") is None

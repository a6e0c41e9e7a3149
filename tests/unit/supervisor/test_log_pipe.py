"""Appending to a log of bounded size."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.supervisor.processes.log_pipe import append
from mizzen.supervisor.processes.log_rotation import LogRetention
from tests.support.examples import examples


def kept(path: Path, files: int) -> bytes:
    names = [*(f"log.{number}" for number in range(files, 0, -1)), "log"]
    return b"".join((path.parent / name).read_bytes() for name in names if (path.parent / name).exists())


def test_lines_stay_whole_and_the_newest_are_kept(tmp_path: Path) -> None:
    path, retention = tmp_path / "log", LogRetention(bytes=100, files=2)
    lines = [b"this is line %d\n" % number for number in range(100)]
    append(path, b"".join(lines[:50]), retention)
    for line in lines[50:]:
        append(path, line, retention)
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["log", "log.1", "log.2"]
    assert all(each.stat().st_size <= 100 for each in files)
    text = kept(path, 2)
    assert b"".join(lines).endswith(text)
    assert text.startswith(b"this is line")
    assert len(text) > 180


def test_a_line_that_fits_no_file_is_cut(tmp_path: Path) -> None:
    path, retention = tmp_path / "log", LogRetention(bytes=10, files=1)
    append(path, b"0123456789abcdefghijABCDE\n", retention)
    assert kept(path, 1) == b"abcdefghijABCDE\n"


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=40), st.integers(1, 200), st.integers(1, 3))
def test_no_file_exceeds_its_size_and_nothing_in_between_is_lost(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], most: int, files: int
) -> None:
    path, retention = tmp_path_factory.mktemp("log") / "log", LogRetention(bytes=most, files=files)
    for part in parts:
        append(path, part, retention)
        assert all(each.stat().st_size <= most for each in path.parent.iterdir())
    whole, text = b"".join(parts), kept(path, files)
    assert whole.endswith(text)
    if len(whole) <= most:
        assert text == whole

"""The number that all gateways share."""

from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.selection.change_marker import ChangeMarker


def test_each_number_is_another_one(tmp_path: Path) -> None:
    word = ChangeMarker(tmp_path / "run" / "selection")
    seen = {word.cell[0]}
    for _ in range(1000):
        word.bump()
        seen.add(word.cell[0])
    assert len(seen) == 1001


def test_all_who_map_it_see_the_same_number(tmp_path: Path) -> None:
    one, other = ChangeMarker(tmp_path / "selection"), ChangeMarker(tmp_path / "selection")
    before = one.cell[0]
    assert other.cell[0] == before
    other.bump()
    assert one.cell[0] == other.cell[0] != before


def test_a_file_that_is_too_short_is_made_whole_with_room_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "selection"
    path.write_bytes(b"abc")
    ChangeMarker(path).bump()
    assert path.stat().st_size == 8
    assert path.stat().st_blocks > 0, "a hole in a full disk would end the process"


def test_a_file_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "selection").mkdir()
    with pytest.raises(OSError, match="selection"):
        ChangeMarker(tmp_path / "selection")


def test_closed(tmp_path: Path) -> None:
    word = ChangeMarker(tmp_path / "selection")
    word.close()
    with pytest.raises(ValueError, match="released"):
        word.bump()

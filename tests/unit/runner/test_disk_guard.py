"""What a runner does about a disk that gets full."""

from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.blobs.disk_room import Room
from mizzen.runner.disk_guard import discard_halves, is_short


@pytest.mark.parametrize(("free", "short"), [(100, False), (76, False), (75, False), (74, True), (10, True)])
def test_it_is_short_half_way_to_where_nothing_goes(tmp_path: Path, free: int, short: bool) -> None:
    assert is_short(Room(tmp_path, 100, 50, lambda _: free)) is short


def test_without_a_mark_it_is_never_short(tmp_path: Path) -> None:
    assert not is_short(Room(tmp_path, 0, 0, lambda _: 0))


def test_halves_go_and_what_is_saved_stays(tmp_path: Path) -> None:
    for name in ("step-1", ".step-1.meta.json", ".large", "step-2.tmp", "step-3.part"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".folder" / "in").mkdir(parents=True)
    (tmp_path / ".link").symlink_to(tmp_path / "step-1")
    discard_halves(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".step-1.meta.json", "step-1"]
    discard_halves(tmp_path / "nowhere")

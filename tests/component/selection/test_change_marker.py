"""The number that all gateways share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mizzen.selection.change_marker import ChangeMarker

BUMPS = (
    "import sys; from pathlib import Path; from mizzen.selection.change_marker import ChangeMarker; "
    "ChangeMarker(Path(sys.argv[1])).bump()"
)


def test_another_process_is_seen_at_once(tmp_path: Path) -> None:
    word = ChangeMarker(tmp_path / "selection")
    before = word.cell[0]
    subprocess.run([sys.executable, "-c", BUMPS, str(tmp_path / "selection")], check=True)
    assert word.cell[0] != before

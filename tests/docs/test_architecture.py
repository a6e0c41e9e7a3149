"""docs/architecture.md names files: every one of them exists, and every package of the source is on its map."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_file_it_names_exists() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", PAGE))
    assert len(named) > 30
    places = (ROOT / "src" / "mizzen", ROOT)
    assert [name for name in sorted(named) if not any((place / name).is_file() for place in places)] == []


def test_every_package_is_on_the_map() -> None:
    tree = PAGE.split("src/mizzen/\n")[1].split("```")[0]
    mapped = set(re.findall(r"^  (\S+?)/? ", tree, flags=re.MULTILINE))
    entries = {path.name for path in (ROOT / "src" / "mizzen").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert entries - {"__init__.py", "__pycache__"} == mapped

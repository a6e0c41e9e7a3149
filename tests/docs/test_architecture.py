"""docs/architecture.md is a map: short, with every package on it. The files that it and its pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs" / "architecture.md"
PAGES = (MAP, *sorted((ROOT / "docs" / "architecture").glob("*.md")))
MOST_WORDS = 1500


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_a_page_names_exists(page: Path) -> None:
    named = _named_files(page.read_text())
    places = (ROOT / "src" / "mizzen", ROOT)
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_the_pages_name_many_files() -> None:
    assert len(_named_files(MAP.read_text())) > 30
    assert len({name for page in PAGES for name in _named_files(page.read_text())}) > 150


def test_every_package_is_on_the_map() -> None:
    tree = MAP.read_text().split("src/mizzen/\n")[1].split("```")[0]
    mapped = set(re.findall(r"^  (\S+?)/? ", tree, flags=re.MULTILINE))
    entries = {path.name for path in (ROOT / "src" / "mizzen").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert entries - {"__init__.py", "__pycache__"} == mapped


def test_the_map_is_short() -> None:
    assert len(MAP.read_text().split()) <= MOST_WORDS


def test_the_map_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\(architecture/([a-z-]+\.md)", MAP.read_text()))
    assert linked == {page.name for page in PAGES} - {MAP.name}


def _named_files(text: str) -> set[str]:
    """The modules and packages below src/mizzen, and the tests and tools, that a page names in code style."""
    files = re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)*\.py)`", text)
    packages = [name for name in re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_]+)*/)`", text) if name not in _IN_DATA_DIR]
    return {*files, *packages}


_IN_DATA_DIR = frozenset({"run/", "run/processes/", "run/counts/", "refusals/", "deploy/"})

"""The one table of frameworks agrees with what can be installed, what there is to load, and what the docs say."""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from pathlib import Path

import pytest

from mizzen import frameworks
from mizzen.blobs.ingest import archives
from mizzen.frameworks import Framework

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = ("tensorflow", "pytorch", "mlflow")
"""Those that are tested by `make test-ml`."""
PAGE = (ROOT / "docs" / "serving-models.md").read_text()


@pytest.mark.parametrize("framework", frameworks.TABLE.values(), ids=lambda framework: framework.name)
def test_each_that_is_served_can_be_installed_and_loaded(framework: Framework) -> None:
    assert framework.loader is not None
    if framework.name in HEAVY and not importlib.util.find_spec(framework.packages[0]):
        assert (ROOT / "src" / f"{framework.loader.replace('.', '/')}.py").is_file()
    else:
        assert callable(importlib.import_module(framework.loader).load)
    assert framework.extra is None or framework.extra in PROJECT["optional-dependencies"]
    assert f"| `{framework.name}` |" in PAGE


def test_files_that_are_archives_inside_are_not_unpacked() -> None:
    zipped = {suffix for name in ("tensorflow", "pytorch") for suffix in frameworks.TABLE[name].suffixes}
    assert zipped <= archives.PLAIN

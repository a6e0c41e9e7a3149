"""Golden texts belong to tests that exist; renamed and deleted tests leave none behind."""

from __future__ import annotations

import json

import pytest

from tests.support.golden import FOLDER

TESTS = FOLDER.parent


@pytest.mark.parametrize("surface", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_golden_texts_belong_to_tests(surface: str) -> None:
    for name in json.loads((FOLDER / f"{surface}.json").read_text("utf-8")):
        module, _, test = name.partition("::")
        files = [TESTS / tier / surface / f"{module}.py" for tier in ("unit", "component")]
        function = test.partition("[")[0]
        assert any(f"def {function}(" in file.read_text("utf-8") for file in files if file.exists()), name

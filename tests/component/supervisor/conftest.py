from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.supervised import Supervised, supervised


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Supervised]:
    with supervised(tmp_path / "d") as plane:
        yield plane

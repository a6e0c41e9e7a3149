from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import planes


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data") as running:
        yield running

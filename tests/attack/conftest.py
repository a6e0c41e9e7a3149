from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import planes


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """One plane per module. Attacks that stop or damage a plane start their own."""
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        yield running

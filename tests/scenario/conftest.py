from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import planes


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """Shared by the tests of a module: each has models and users under names of its own, and leaves others alone."""
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        yield running

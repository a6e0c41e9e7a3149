from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.engines import LocalWorld, World
from tests.support.seaweed import Seaweed, seaweed
from tests.support.supervised import supervised


@pytest.fixture(params=["local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with supervised(tmp_path / "d") as plane:
        yield LocalWorld(plane)


@pytest.fixture(scope="session")
def s3() -> Iterator[Seaweed]:
    """For those who leave it as it is. Whoever kills one starts their own."""
    with seaweed() as server:
        yield server

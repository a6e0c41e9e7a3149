"""Running control APIs: one per test, or one per module for tests that leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.unit.server.harness import Harness, serving


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


@pytest.fixture
def admin(plane: Harness) -> httpx2.Client:
    return plane.client()


@pytest.fixture(scope="module")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with serving(tmp_path_factory.mktemp("plane")) as harness:
        yield harness


@pytest.fixture(scope="module")
def shared_admin(shared_plane: Harness) -> httpx2.Client:
    return shared_plane.client()

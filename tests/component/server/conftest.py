"""Running control APIs: one per test, or one per module for tests that leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.server.harness import Harness, serving


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path) as harness:
        yield harness


@pytest.fixture
def admin(plane: Harness) -> httpx2.Client:
    return plane.client()


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model with versions 1 and 2."""
    admin.post("/model", json={"name": "iris"})
    for content in ("one", "two"):
        answer = admin.post("/model/iris/version", json={"path": plane.file("m.pkl", content)})
        assert answer.status_code == 201
    return admin


@pytest.fixture(scope="module")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with serving(tmp_path_factory.mktemp("plane")) as harness:
        yield harness


@pytest.fixture(scope="module")
def shared_admin(shared_plane: Harness) -> httpx2.Client:
    return shared_plane.client()

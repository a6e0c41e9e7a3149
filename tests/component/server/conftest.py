"""Running control APIs: one per module, in which each test has a namespace; and some of one test alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server.harness import Client, Harness, serving


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """The control API of the module, seen from a namespace that only this test has. With the mark `own_plane`, of the
    test or of its module: a control API that only this test has, seen from the namespace `default`."""
    if request.node.get_closest_marker("own_plane"):
        running = serving(tmp_path)
    else:
        shared: Harness = request.getfixturevalue("shared_plane")
        running = shared.view(tmp_path)
    with running as harness:
        yield harness


@pytest.fixture
def admin(plane: Harness) -> Client:
    return plane.client()


@pytest.fixture
def iris(plane: Harness, admin: Client) -> Client:
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
def shared_admin(shared_plane: Harness) -> Client:
    return shared_plane.client()


@pytest.fixture(scope="module")
def shared_closed_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with serving(tmp_path_factory.mktemp("plane"), anonymous=False) as harness:
        yield harness


@pytest.fixture
def closed(shared_closed_plane: Harness, tmp_path: Path) -> Iterator[Harness]:
    """As `plane`; callers without a token may not read."""
    with shared_closed_plane.view(tmp_path) as harness:
        yield harness

"""Running control APIs: one per module, in which each test has a namespace; and some of one test alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server.harness import Client, Harness, serving

NUMBERS = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_plane: has a control API to itself, because it is about all that is in it")


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """The module's control API, seen from a namespace of the test's own. Where the test or its module is marked with
    `own_plane`: one of its own, seen from the namespace `default`."""
    if request.node.get_closest_marker("own_plane"):
        running = serving(tmp_path)
    else:
        shared: Harness = request.getfixturevalue("shared_plane")
        running = shared.view(f"test-{next(NUMBERS)}", tmp_path)
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

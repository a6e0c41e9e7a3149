"""One plane for each module, and every kubectl against it; each test has a namespace of its own in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.kubectl import CHECKOUT, RELEASES, Kubectl
from tests.support import planes


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """For people with rights only; it keeps no more than the last 100 changes for those who watch."""
    data_dir = tmp_path_factory.mktemp("plane") / "data"
    data_dir.mkdir()
    (data_dir / "settings.toml").write_text("anonymous = false\nkeep_events = 100\n")
    with planes.running_plane(data_dir) as running:
        yield running


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest, plane: planes.TestPlane) -> Kubectl:
    """Of the admin, in the namespace `default`."""
    return user(plane, str(request.param), "admin")


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, release: Kubectl) -> Kubectl:
    words = re.sub("[^a-z]+", "-", request.node.originalname.lower())[:50].strip("-")
    return release.within(f"{words}-{release.release.removeprefix('kubectl-')}")


def user(plane: planes.TestPlane, release: str, name: str, token: str = "") -> Kubectl:
    """Without a token: the admin."""
    assert (CHECKOUT / ".venvs" / release).is_dir(), "make test-conformance sets up the clients"
    home: Path = plane.data_dir.parent / f"{release}-{name}"
    home.mkdir()
    file = home / "kubeconfig"
    file.write_text(plane.cli("kubeconfig", MIZZEN_TOKEN=token or plane.token()).stdout)
    file.chmod(0o600)
    return Kubectl(release, home)

"""The official Python client, unmodified, against a plane, with the kubeconfig that the plane gives."""

from __future__ import annotations

import pytest

from tests.conformance import clients
from tests.support import planes

VENV = "kubernetes"


@pytest.fixture(scope="module")
def kubernetes(forgetful: planes.TestPlane) -> clients.Library:
    return clients.set_up(forgetful, VENV)


@pytest.mark.parametrize("program", clients.programs_of(VENV))
def test_a_program(kubernetes: clients.Library, program: str) -> None:
    kubernetes(program)

"""lightkube, an unmodified client library of others, against a plane, with the kubeconfig that the plane gives."""

from __future__ import annotations

import pytest

from tests.conformance import clients
from tests.support import planes

VENV = "lightkube"


@pytest.fixture(scope="module")
def lightkube(forgetful: planes.TestPlane) -> clients.Library:
    return clients.set_up(forgetful, VENV)


@pytest.mark.parametrize("program", clients.programs_of(VENV))
def test_a_program(lightkube: clients.Library, program: str) -> None:
    lightkube(program)

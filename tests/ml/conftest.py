from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ml import making
from tests.support import planes


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """Shared by all: each test has models under names of its own."""
    with planes.running_plane(tmp_path_factory.mktemp("plane") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def keras_model() -> Any:
    return making.keras_model()


@pytest.fixture(scope="session")
def saved_model(keras_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keras") / "saved"
    keras_model.export(folder, verbose=False)
    return folder


@pytest.fixture(scope="session")
def net() -> making.Net:
    return making.trained_net()

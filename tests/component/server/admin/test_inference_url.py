"""Where the inference API is, as whoever asks can reach it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette

from tests.support.server.harness import serving


@pytest.mark.parametrize(
    ("listens", "told"),
    [
        ("http://127.0.0.1:8471", "http://127.0.0.1:8471"),
        ("http://models.example:8471", "http://models.example:8471"),
        ("http://0.0.0.0:8471", "http://localhost:8471"),
        ("http://[::]:8471", "http://localhost:8471"),
    ],
)
def test_the_address_that_is_told_can_be_connected_to(tmp_path: Path, listens: str, told: str) -> None:
    def change(app: Starlette) -> None:
        app.state.context = replace(app.state.context, inference_url=listens)

    with serving(tmp_path, change=change) as plane:
        assert plane.client(host="localhost:1").get("/").json()["inference"] == told

"""What `mizzen limit` refuses before it asks a plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.command import failed, mizzen


@pytest.mark.parametrize("rate", ["nan", "inf"])
def test_what_is_no_number_is_no_limit(tmp_path: Path, rate: str) -> None:
    failed(
        mizzen("limit", "ann", "--per-second", rate, cwd=tmp_path), f"must be a finite number, not {rate}", "--remove"
    )

from __future__ import annotations

from pathlib import Path

import pytest

from mizzen.blobs.file_store import FileBlobs


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    return FileBlobs(tmp_path / "blobs")

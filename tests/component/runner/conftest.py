from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mizzen.blobs.fs.remove_tree import remove_tree
from tests.support.runner.attempts import Attempts


@pytest.fixture
def attempts(tmp_path: Path) -> Iterator[Attempts]:
    made = Attempts(tmp_path)
    try:
        yield made
    finally:
        made.close()
        remove_tree(made.job.checkpoints)  # deeper than pytest can, where a test made it so

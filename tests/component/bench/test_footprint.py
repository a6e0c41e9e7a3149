"""What Mizzen weighs: import times, sizes, verdicts, and a bare process that really loads a model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import footprint, run


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_bare_process_and_a_runtime_are_measured_when_they_are_ready(tmp_path: Path) -> None:
    model = run.train(tmp_path)
    for seen in (footprint.bare(model), footprint.runtime(tmp_path, model)):
        assert seen.cpu_seconds > 0.05
        assert seen.rss_mb >= seen.pss_mb > 20

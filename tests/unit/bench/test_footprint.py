"""What Mizzen weighs: import times, sizes, verdicts, and a bare process that really loads a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import footprint


def started(what: str, cpu: float, mb: float) -> footprint.Started:
    return footprint.Started(what, 1.0, cpu, mb, mb - 10)


def test_import_times_are_the_modules_own() -> None:
    text = (
        "import time: self [us] | cumulative | imported package\nimport time:      1500 |       9000 |   numpy.core\nx"
    )
    assert footprint.importtime(text) == {"numpy.core": 1.5}


def test_packages_and_bytes_of_an_environment(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "a-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_bytes(b"x" * 2**20)
    (tmp_path / "lib" / "METADATA").write_bytes(b"")
    (tmp_path / "link").symlink_to(package / "METADATA")
    assert footprint.weigh(tmp_path) == (1, 1.0)


@pytest.mark.parametrize(("cpu", "mb", "met"), [(3.9, 139, True), (4.1, 141, False)])
def test_verdicts(cpu: float, mb: float, met: bool) -> None:
    alone = footprint.Installed("mizzen", 51 if not met else 50, 200.0 if met else 201.0)
    lines = list(footprint.verdicts([alone], started("bare", 2.0, 100), started("runtime", cpu, mb)))
    assert len(lines) == 5
    assert {line.startswith("met ") for line in lines} == {met}
    assert all(line.startswith(("met ", "NOT MET ")) for line in lines)

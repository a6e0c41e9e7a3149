"""The example package of plug-ins, installed by pip beside Mizzen: its framework serves, its store keeps the files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import planes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "lookup"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-index",
         "--no-build-isolation", "--no-deps", "--target", str(target), str(EXAMPLE)],
        check=True,
    )  # fmt: skip
    broken = target / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[mizzen.frameworks]\ndamaged = not_there:X\n")
    return target


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    try:
        yield folder
    finally:
        planes.run_cli(folder, "down", check=False)
        planes.end_all(folder)


def test_the_example_serves_and_its_store_fills_a_lost_disk(installed: Path, data_dir: Path, tmp_path: Path) -> None:
    def start() -> None:
        shelf = f"shelf://{tmp_path / 'shelf'}"
        planes.run_cli(data_dir, "up", *planes.FREE_PORTS, PYTHONPATH=str(installed), MIZZEN_BLOB_STORE=shelf)

    start()
    (tmp_path / "prices.lookup").write_text('{"lookup": {"Rome": 1.5, "Oslo": 2.5}}')
    planes.run_cli(data_dir, "deploy", "prices.lookup", "--name", "prices", cwd=tmp_path)
    ask = ("predict", "prices", "--data", '["Rome", "Oslo", "Bern"]', "-o", "json")
    answer = json.loads(planes.run_cli(data_dir, *ask).stdout)
    assert answer["outputs"][0]["data"] == [1.5, 2.5, 0.0]
    assert "'damaged' of the package broken is broken" in (data_dir / "logs" / "plane.log").read_text()
    refused = planes.run_cli(data_dir, "deploy", "prices.lookup", "--name", "other", "--framework", "damaged",
                             cwd=tmp_path, check=False)  # fmt: skip
    assert "the plug-in 'damaged' of the package broken is broken: ModuleNotFoundError" in " ".join(
        refused.stderr.split()
    )

    planes.run_cli(data_dir, "down")
    shutil.rmtree(data_dir / "blobs")
    shutil.rmtree(data_dir / "work")
    start()
    planes.run_cli(data_dir, "scale", "prices", "1")
    assert json.loads(planes.run_cli(data_dir, *ask).stdout)["outputs"][0]["data"] == [1.5, 2.5, 0.0]


def test_they_are_listed(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mizzen.cli.main", "plugins", "-o", "json"],
        env=os.environ | {"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    listed = {(one["kind"], one["name"]): one for one in json.loads(done.stdout)["items"]}
    assert listed["framework", "lookup"]["package"] == "mizzen-lookup"
    assert listed["blob store", "shelf"]["package"] == "mizzen-lookup"
    assert listed["framework", "damaged"]["state"].startswith("broken: ModuleNotFoundError")

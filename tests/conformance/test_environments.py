"""Environments from a real index: releases of scikit-learn that exclude each other, and Pythons that are not ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.engines.local.environments import interpreters
from tests.support import planes

TRAINED = """
import json, sys
import joblib, sklearn
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
rows, labels = load_iris(return_X_y=True)
model = HistGradientBoostingClassifier(max_iter=20 + int(sys.argv[2])).fit(rows, labels)
joblib.dump(model, sys.argv[1])
print(json.dumps([sklearn.__version__, model.predict_proba(rows[::10]).tolist(), rows[::10].tolist()]))
"""
SAYS = """
import sklearn, numpy
def predict(inputs):
    return numpy.array([sklearn.__version__.encode()], dtype=object)
"""
DOUBLES = """
import sys
import numpy
def predict(inputs):
    return {
        "doubled": inputs["x"] * 2,
        "words": numpy.array(["a", "é"] * (len(inputs["x"]) // 2), dtype=object),
        "python": numpy.array([sys.version_info.minor]),
        "numpy": numpy.array([int(numpy.__version__.split(".")[0])]),
    }
"""
RELEASES = ("1.5.2", "1.7.2")
PYTHONS = (("3.10", "1.26.4"), ("3.12", "1.26.4"), ("3.13", "2.2.6"))


def _infer(plane: planes.TestPlane, name: str, request: dict[str, Any]) -> dict[str, Any]:
    answer = httpx2.post(f"{plane.inference_url}/v2/models/{name}/infer", json=request, timeout=60)
    assert answer.status_code == 200, answer.text
    return {output["name"]: output["data"] for output in answer.json()["outputs"]}


def test_two_releases_of_scikit_learn_side_by_side(plane: planes.TestPlane, tmp_path: Path) -> None:
    expected: dict[str, tuple[str, list[list[float]], list[list[float]]]] = {}
    for seed, release in enumerate(RELEASES):
        name, required = f"sk-{release.replace('.', '-')}", ("--requirement", f"scikit-learn=={release}")
        (tmp_path / "says.py").write_text(SAYS)
        told = plane.cli("deploy", "says:predict", "--name", f"{name}-says", *required, cwd=tmp_path, check=False)
        assert told.returncode == 0, told.stderr
        # The interpreter of the environment itself trains: what it answers is what has to be answered.
        (python,) = [
            stamp.parent / "bin" / "python"
            for stamp in (plane.data_dir / "envs").glob("*/.complete")
            if f"scikit_learn=={release}" in json.loads(stamp.read_text())["packages"]
        ]
        model = tmp_path / f"{name}.joblib"
        done = subprocess.run(
            [python, "-c", TRAINED, model, str(seed)], capture_output=True, text=True, check=True, env={}
        )
        expected[name] = tuple(json.loads(done.stdout))
        again = plane.cli("deploy", str(model), "--name", name, *required)
        assert "building its environment" not in again.stderr, "it is shared"
    for name, (release, probabilities, rows) in expected.items():
        tensor = {"name": "input", "datatype": "FP64", "shape": [len(rows), 4], "data": rows}
        asked = {"inputs": [tensor], "outputs": [{"name": "predict_proba"}]}
        assert _infer(plane, name, asked)["predict_proba"] == [number for row in probabilities for number in row]
        anything = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [0.0]}]}
        assert _infer(plane, f"{name}-says", anything)["predict"] == [release]
    assert expected["sk-1-5-2"][1] != expected["sk-1-7-2"][1], "an answer tells which of them gave it"


@pytest.mark.parametrize(("python", "numpy"), PYTHONS)
def test_pythons_and_numpys_that_are_not_ours(plane: planes.TestPlane, tmp_path: Path, python: str, numpy: str) -> None:
    try:
        interpreters.find(python, os.environ)
    except interpreters.NoInterpreter as absent:
        pytest.skip(str(absent))
    name = f"py-{python.replace('.', '-')}"
    (tmp_path / "doubles.py").write_text(DOUBLES)
    plane.cli(
        "deploy", "doubles:predict", "--name", name, "--python", python, "--requirement", f"numpy=={numpy}",
        cwd=tmp_path,
    )  # fmt: skip
    tensor = {"name": "x", "datatype": "FP32", "shape": [4], "data": [1, 2.5, -3, 4]}
    answer = _infer(plane, name, {"inputs": [tensor]})
    assert answer["doubled"] == [2, 5, -6, 8]
    assert answer["words"] == ["a", "é", "a", "é"]
    assert (answer["python"], answer["numpy"]) == ([int(python.split(".")[1])], [int(numpy.split(".", maxsplit=1)[0])])
    outside = {"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [300]}]}
    refused = httpx2.post(f"{plane.inference_url}/v2/models/{name}/infer", json=outside, timeout=60)
    assert refused.status_code == 400, "an older numpy would take it for 44"


def test_what_no_index_has(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    told = plane.cli(
        "deploy", "says:predict", "--name", "absent", "--requirement", "mizzen-has-no-such-package==1",
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert told.returncode == 1
    assert "absent-1 cannot be served (EnvironmentFailed): its environment cannot be built: " in told.stderr
    assert "mizzen-has-no-such-package" in told.stderr

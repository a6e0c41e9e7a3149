"""schemathesis asks all that the gateway's /openapi.json declares, of models of several kinds, and compares."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conformance.kubectl import CHECKOUT
from tests.conformance.schemathesis import HOOKS, Run, patient
from tests.support import models, planes

ECHO = """
def predict(inputs):
    return inputs
"""
KNOWING = HOOKS.with_name("inference.py")

CONFIG = """
# What a model takes is told by its metadata, and that data has to fit its shape cannot be said.
[[operations]]
include-path-regex = "(/infer|:predict)$"
checks.positive_data_acceptance.enabled = false
"""


def tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


IRIS = tensor("input", "FP64", [2, 4], [[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]])
COLUMNS = [tensor("city", "BYTES", [2], ["Rome", "Oslo"]), tensor("age", "FP64", [2], [40, 30])]
INFER: dict[str, list[Any]] = {
    "iris": [
        {"inputs": [IRIS]},
        {"id": "a", "inputs": [IRIS], "outputs": [{"name": "predict_proba"}, {"name": "predict"}]},
        {"inputs": [{**IRIS, "shape": [0, 4], "data": []}]},
    ],
    "tickets": [
        {"inputs": COLUMNS},
        {"inputs": [tensor("input", "BYTES", [1, 2], ["Rome", ""])], "parameters": {"timeout": 10**7}},
    ],
    "scores": [
        {"inputs": [tensor("features", "FP32", [1, 3], [1, 2, 3])], "parameters": {"binary_data_output": True}},
        {"inputs": [tensor("features", "FP32", [1, 3], [1, 2, 3])]},
    ],
    "echo": [
        {"inputs": [tensor("a", "BOOL", [1, 1], [True]), tensor("b", "INT8", [1], [-128])]},
        {"inputs": [tensor("c", "UINT64", [1], [2**64 - 1]), tensor("d", "BYTES", [1], ["é\\u0000"])]},
    ],
}
PREDICT: dict[str, list[Any]] = {
    "iris": [{"instances": [[5.1, 3.5, 1.4, 0.2]]}, {"inputs": [[5.1, 3.5, 1.4, 0.2]]}],
    "tickets": [{"instances": [{"city": "Rome", "age": 40}, {"city": "Oslo", "age": 30}]}],
    "scores": [{"signature_name": "serving_default", "instances": [[1, 2, 3]]}],
    "echo": [{"instances": ["a"]}, {"instances": [{"b64": "w6k="}]}, {"inputs": {"a": [1], "b": [True]}}],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """`iris` has two versions and the alias `stable`. What may be loaded and unloaded is asked nothing else."""
    folder = tmp_path_factory.mktemp("inference")
    (folder / "echo.py").write_text(ECHO)
    models.save_iris(folder / "iris.joblib")
    for name in ("pipeline", "graph"):
        subprocess.run([sys.executable, str(CHECKOUT / "examples" / "models" / f"{name}.py")], cwd=folder, check=True)
    with planes.running_plane(folder / "data") as plane:
        for file, name in (
            ("iris.joblib", "iris"), ("iris.joblib", "iris"), ("iris.joblib", "spare"), ("tickets.joblib", "tickets"),
            ("scores.onnx", "scores"), ("echo:predict", "echo"),
        ):  # fmt: skip
            plane.cli("deploy", file, "--name", name, cwd=folder)
        plane.cli("alias", "set", "iris", "stable", "1")
        alias = f"{plane.inference_url}/v2/models/iris/versions/stable/ready"
        planes.wait_until(lambda: httpx2.get(alias).status_code == 200, "the alias answers")
        yield plane


@patient
def test_the_answers_are_as_declared(served: planes.TestPlane, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    names = {
        "namespace": ["default"], "model": sorted(INFER), "version": ["1", "2", "stable", "9"], "label": ["stable", "1"]
    }  # fmt: skip
    known = {"names": names, "changed": ["spare"], "infer": INFER, "predict": PREDICT}
    (home / "served.json").write_text(json.dumps(known))
    Run(examples=4, config=CONFIG, hooks=KNOWING).against(served.inference_url, served.token(), home)

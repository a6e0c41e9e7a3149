"""V1 as TF Serving's own documentation asks it: there is no client of it for REST but requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import requests

ROWS = [[5.1, 3.5, 1.4, 0.2], [6.7, 3.1, 5.6, 2.4]]
PREDICTED = [0, 2]
GRAPHS = {"iris-split": "DT_INT64", "iris-bandit": "DT_INT64", "iris-mean": "DT_DOUBLE", "iris-chain": "DT_INT64"}
"""And the type of what they predict."""
HEADERS = {"content-type": "application/json"}


def status(_namespace: str) -> None:
    versions = requests.get(_at("iris"), timeout=30).json()["model_version_status"]
    assert {one["version"] for one in versions} == {"1", "2"}
    fine = {"error_code": "OK", "error_message": ""}
    assert all(one["state"] == "AVAILABLE" and one["status"] == fine for one in versions)
    [first] = requests.get(_at("iris/labels/stable"), timeout=30).json()["model_version_status"]
    assert first["version"] == "1"


def metadata(_namespace: str) -> None:
    said = requests.get(_at("iris/versions/1/metadata"), timeout=30).json()
    assert said["model_spec"]["name"] == "iris"
    assert said["model_spec"]["version"] == "1"
    signature = said["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["input"]["dtype"] == "DT_DOUBLE"
    assert [size["size"] for size in signature["inputs"]["input"]["tensor_shape"]["dim"]] == ["-1", "4"]


def rows(_namespace: str) -> None:
    data = json.dumps({"signature_name": "serving_default", "instances": ROWS})
    for place in ("iris", "iris/versions/1", "iris/labels/stable"):
        answer = requests.post(_at(f"{place}:predict"), data=data, headers=HEADERS, timeout=30)
        assert json.loads(answer.text)["predictions"] == PREDICTED


def columns(_namespace: str) -> None:
    answer = requests.post(_at("iris:predict"), json={"inputs": {"input": ROWS}}, timeout=30)
    answer.raise_for_status()
    assert answer.json() == {"outputs": PREDICTED}


def bytes_in_base64(_namespace: str) -> None:
    """As the client for images does it, without a content type."""
    data = json.dumps({"instances": [{"b64": base64.b64encode("é".encode()).decode("utf-8")}]})
    answer = requests.post(_at("echo:predict"), data=data, timeout=30)
    assert answer.json()["predictions"] == ["é"]


def graphs(_namespace: str) -> None:
    for graph, kind in GRAPHS.items():
        [said] = requests.get(_at(graph), timeout=30).json()["model_version_status"]
        assert (said["version"], said["state"]) == ("1", "AVAILABLE")
        told = requests.get(_at(f"{graph}/metadata"), timeout=30).json()
        signature = told["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert signature["inputs"]["input"]["dtype"] == "DT_DOUBLE"
        assert signature["outputs"]["predict"]["dtype"] == kind
        answer = requests.post(_at(f"{graph}:predict"), json={"instances": ROWS}, timeout=30)
        assert answer.json() == {"predictions": PREDICTED}
        assert answer.headers["mizzen-nodes"]
        answer = requests.post(_at(f"{graph}:predict"), json={"inputs": {"input": ROWS}}, timeout=30)
        assert answer.json() == {"outputs": PREDICTED}
        assert requests.post(_at(f"{graph}:predict"), json={"instances": [[1.0]]}, timeout=30).status_code == 400


def errors(_namespace: str) -> None:
    cases: tuple[tuple[str, Any, int], ...] = (
        ("nobody:predict", {"instances": ROWS}, 404), ("iris/versions/9:predict", {"instances": ROWS}, 404),
        ("iris/labels/nothing:predict", {"instances": ROWS}, 404), ("iris:predict", {"instances": [[1.0]]}, 400),
        ("iris:predict", {"rows": ROWS}, 400), ("iris:predict", {"instances": ROWS, "signature_name": "other"}, 400),
    )  # fmt: skip
    for place, body, code in cases:
        answer = requests.post(_at(place), json=body, timeout=30)
        assert answer.status_code == code, answer.text
        assert answer.json()["error"]
    assert requests.post(_at("iris:predict"), data="{", timeout=30).status_code == 400
    assert requests.get(_at("nobody"), timeout=30).status_code == 404


def _at(place: str) -> str:
    told = json.loads((Path.home() / "inference.json").read_text())
    return f"http://{told['url']}/v1/models/{place}"

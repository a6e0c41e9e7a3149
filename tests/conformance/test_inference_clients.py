"""Unmodified clients of others for inference, each in its own environment, against a plane: Triton's, KServe's, and
what TF Serving tells people to use. They call graphs as they call models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import joblib
import pytest
import yaml
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from tests.conformance import clients
from tests.support import planes

VENVS = ("tritonclient", "kserve", "requests", "grpcio")
ECHO = "def predict(inputs):\n    return inputs\n"
SAME = """
class Same:
    inputs = ({"name": "input", "datatype": "FP64", "shape": [-1, 4]},)

    def predict(self, inputs):
        return inputs
"""
PROGRAMS = [(venv, program) for venv in VENVS for program in clients.programs_of(venv)]


def _graph(name: str, *dag: dict[str, Any]) -> dict[str, Any]:
    spec = {"dag": list(dag)}
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "MLGraph", "metadata": {"name": name}, "spec": spec}


def _calls(name: str, model: str, *after: str) -> dict[str, Any]:
    return {"name": name, "dependencies": list(after), "implementation": {"kfservice": model}}


ARMS = (_calls("b", "left", "a"), _calls("c", "right", "a"))
MEAN = {"name": "d", "dependencies": ["b", "c"], "merge": {"ensemble": {}}}
GRAPHS = (
    _graph("iris-split", {"name": "a", "route": {"split": {}}}, *ARMS),
    _graph("iris-bandit", {"name": "a", "route": {"mab": {"egreedy": 0.5}}}, *ARMS),
    _graph("iris-mean", _calls("b", "left"), _calls("c", "right"), MEAN),
    _graph("iris-chain", _calls("b", "same"), _calls("c", "left", "b")),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the programs have to know, as JSON. `iris` has two versions and the alias `stable` for the first. Graphs of
    `left` and `right` answer as it does."""
    folder = tmp_path_factory.mktemp("inference")
    (folder / "echo.py").write_text(ECHO)
    (folder / "same.py").write_text(SAME)
    model = KNeighborsClassifier().fit(*load_iris(return_X_y=True))
    joblib.dump(model, folder / "iris.joblib")
    with planes.running_plane(folder / "data") as plane:
        for words in (("iris.joblib", "--name", "iris"), ("iris.joblib", "--name", "iris"),
                      ("iris.joblib", "--name", "spare"), ("echo:predict", "--name", "echo"),
                      ("iris.joblib", "--name", "left"), ("iris.joblib", "--name", "right"),
                      ("same:Same", "--name", "same")):  # fmt: skip
            plane.cli("deploy", *words, cwd=folder)
        with httpx2.Client(base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}) as admin:
            admin.put("/model/iris/alias/stable", json={"version": 1}).raise_for_status()
            admin.post("/user", json={"name": "ann"}).raise_for_status()
            ann = admin.post("/user/ann/token", json={}).raise_for_status().json()["token"]
        (folder / "graphs.yaml").write_text(yaml.safe_dump_all(GRAPHS))
        plane.cli("apply", "-f", "graphs.yaml", cwd=folder)
        url = plane.inference_url
        for graph in GRAPHS:
            ready = f"{url}/v2/models/{graph['metadata']['name']}/ready"
            planes.wait_until(lambda at=ready: httpx2.get(at).status_code == 200, ready)  # type: ignore[misc]
        alias = f"{url}/v2/models/iris/versions/stable/ready"
        planes.wait_until(lambda: httpx2.get(alias).status_code == 200, "the alias answers")
        where = {"url": url.removeprefix("http://"), "grpc": plane.grpc_address}
        yield json.dumps({**where, "admin": plane.token(), "ann": ann})


@pytest.mark.parametrize(("venv", "program"), PROGRAMS)
def test_a_program(told: str, tmp_path: Path, venv: str, program: str) -> None:
    (tmp_path / "inference.json").write_text(told)
    clients.Library(venv, tmp_path)(program)

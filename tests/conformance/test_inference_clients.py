"""Unmodified clients of others for inference, each in its own environment, against a plane: Triton's, KServe's, and
what TF Serving tells people to use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import joblib
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from tests.conformance import clients
from tests.support import planes

VENVS = ("tritonclient", "kserve", "requests", "grpcio")
ECHO = "def predict(inputs):\n    return inputs\n"
PROGRAMS = [(venv, program) for venv in VENVS for program in clients.programs_of(venv)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the programs have to know, as JSON. `iris` has two versions and the alias `stable` for the first."""
    folder = tmp_path_factory.mktemp("inference")
    (folder / "echo.py").write_text(ECHO)
    model = KNeighborsClassifier().fit(*load_iris(return_X_y=True))
    joblib.dump(model, folder / "iris.joblib")
    with planes.running_plane(folder / "data") as plane:
        for words in (("iris.joblib", "--name", "iris"), ("iris.joblib", "--name", "iris"),
                      ("iris.joblib", "--name", "spare"), ("echo:predict", "--name", "echo")):  # fmt: skip
            plane.cli("deploy", *words, cwd=folder)
        with httpx2.Client(base_url=plane.control_url, headers={"authorization": f"Bearer {plane.token()}"}) as admin:
            admin.put("/model/iris/alias/stable", json={"version": 1}).raise_for_status()
            admin.post("/user", json={"name": "ann"}).raise_for_status()
            ann = admin.post("/user/ann/token", json={}).raise_for_status().json()["token"]
        url = plane.inference_url
        alias = f"{url}/v2/models/iris/versions/stable/ready"
        planes.wait_until(lambda: httpx2.get(alias).status_code == 200, "the alias answers")
        where = {"url": url.removeprefix("http://"), "grpc": plane.grpc_address}
        yield json.dumps({**where, "admin": plane.token(), "ann": ann})


@pytest.mark.parametrize(("venv", "program"), PROGRAMS)
def test_a_program(told: str, tmp_path: Path, venv: str, program: str) -> None:
    (tmp_path / "inference.json").write_text(told)
    clients.Library(venv, tmp_path)(program)

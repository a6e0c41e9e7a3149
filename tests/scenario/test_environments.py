"""Versions that bring their own packages: beside each other, beside ours, and when they cannot be had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import planes, wheels

HERE = "/apis/mizzen.dev/v1alpha1/namespaces/default"
MODEL = """
import os, sys
import numpy, thing

def predict(inputs):
    try:
        import pydantic
        ours = 1.0
    except ImportError:
        ours = 0.0
    return {"thing": numpy.array([float(thing.__version__)]), "ours": numpy.array([ours])}
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """Its packages come from a folder: two versions of a thing, and numpy as it is installed here."""
    folder = tmp_path_factory.mktemp("environments")
    for version in ("1.0", "2.0"):
        wheels.make(folder / "wheels", "thing", version)
    wheels.of_installed(folder / "wheels", "numpy")
    (folder / "data").mkdir()
    (folder / "data" / "settings.toml").write_text(f'environment_wheels = "{folder / "wheels"}"\n')
    with planes.running_plane(folder / "data") as running:
        yield running


def _folder(path: Path, requirements: str | None = None) -> Path:
    path.mkdir()
    (path / "model.py").write_text(MODEL)
    if requirements is not None:
        (path / "requirements.txt").write_text(requirements)
    return path


def _answer(plane: planes.TestPlane, name: str) -> dict[str, float]:
    answer = json.loads(plane.cli("predict", name, "--data", "[1]", "-o", "json").stdout)
    return {output["name"]: output["data"][0] for output in answer["outputs"]}


def _ready(plane: planes.TestPlane, server: str) -> dict[str, Any]:
    with _client(plane) as client:
        status = client.get(f"{HERE}/inferencemodels/{server}").json()["status"]
    return next((one for one in status.get("conditions", []) if one["type"] == "Ready"), {"reason": ""})


def _client(plane: planes.TestPlane) -> httpx2.Client:
    headers = {"authorization": f"Bearer {plane.token()}"}
    return httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, verify=False)


def test_each_finds_its_own_packages_and_none_of_ours(plane: planes.TestPlane, tmp_path: Path) -> None:
    first = plane.cli(
        "deploy", str(_folder(tmp_path / "a", "thing==1.0  # that one\n")), "--name", "first",
        "--entrypoint", "model:predict",
    )  # fmt: skip
    assert "registered version 1, which requires thing==1.0" in first.stderr, "whose file was taken is said"
    assert "… building its environment: " in first.stderr
    plane.cli(
        "deploy", str(_folder(tmp_path / "b")), "--name", "second", "--entrypoint", "model:predict",
        "--requirement", "thing==2.0",
    )  # fmt: skip
    assert _answer(plane, "first") == {"thing": 1.0, "ours": 0.0}
    assert _answer(plane, "second") == {"thing": 2.0, "ours": 0.0}

    again = plane.cli("scale", "first", "2")
    assert "building" not in again.stderr, "a second replica finds it there"


def test_what_cannot_be_built_shows_its_log_and_the_old_version_goes_on(
    plane: planes.TestPlane, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "c")
    words = ("deploy", str(folder), "--name", "old", "--entrypoint", "model:predict", "--requirement")
    plane.cli(*words, "thing==1.0")
    failed = plane.cli(*words, "thing==9.9", check=False)
    assert failed.returncode == 1
    assert "old-2 cannot be served (EnvironmentFailed): its environment cannot be built: " in failed.stderr
    assert "the log of the build ends:\n  | " in failed.stderr
    assert "you require thing==9.9" in failed.stderr
    assert "it stays registered as old version 2; 'mizzen serve old 2' tries again" in failed.stderr
    assert _answer(plane, "old") == {"thing": 1.0, "ours": 0.0}

    with _client(plane) as client:  # the same server is to serve it
        merge = {"content-type": "application/merge-patch+json"}
        patched = client.patch(
            f"{HERE}/inferencemodels/old-1", content=json.dumps({"spec": {"targetVersion": "2"}}), headers=merge
        )
        assert patched.status_code == 200, patched.text
    planes.wait_until(lambda: _ready(plane, "old-1")["reason"] == "EnvironmentFailed", "it says why not")
    assert _ready(plane, "old-1")["message"].endswith("; the previous replicas keep serving")
    assert _answer(plane, "old-1") == {"thing": 1.0, "ours": 0.0}
    assert "you require thing==9.9" in plane.cli("logs", "old-1", "--build").stdout


def test_packages_are_code_and_wait_for_somebody_who_vouches(plane: planes.TestPlane, tmp_path: Path) -> None:
    plane.cli("model", "create", "brought")
    plane.cli("user", "add", "ann")
    ann = plane.cli("token", "create", "ann").stdout.strip()
    plane.cli("permit", "ann", "write", "brought")
    source = (str(_folder(tmp_path / "d")), "--entrypoint", "model:predict", "--requirement", "thing==1.0")
    plane.cli("version", "add", "brought", *source, MIZZEN_TOKEN=ann)
    told = plane.cli("serve", "brought", "1", check=False, MIZZEN_TOKEN=ann)
    assert "(RequirementsUntrusted): ModelVersion/brought.1 requires packages, which are code" in told.stderr
    assert "an admin of the model can run 'mizzen version trust brought 1'" in told.stderr
    plane.cli("version", "trust", "brought", "1")
    planes.wait_until(lambda: _ready(plane, "brought-1")["reason"] == "Serving", "it is served, without another word")


def test_what_is_missing_in_an_environment_is_to_be_required(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import yaml\ndef predict(inputs):\n    return inputs\n")
    told = plane.cli(
        "deploy", "model:predict", "--name", "lacking", "--requirement", "thing==1.0", cwd=tmp_path, check=False
    )
    assert "No module named 'yaml'; the model needs it: add pyyaml to the requirements of the version" in told.stderr


def test_a_python_that_is_not_there(plane: planes.TestPlane, tmp_path: Path) -> None:
    with _client(plane) as client:
        assert client.post("/model", json={"name": "elsewhere"}).status_code == 201
        given = {"path": str(_folder(tmp_path / "e")), "entrypoint": "model:predict", "python": "3.99"}
        made = client.post("/model/elsewhere/version", json=given)
        assert made.status_code == 201, made.text
        assert made.json()["python"] == "3.99"
        assert client.post("/model/elsewhere/serve/1", json={}).status_code == 201
    planes.wait_until(lambda: _ready(plane, "elsewhere-1")["reason"] == "EnvironmentFailed", "it says so")
    assert "there is no Python 3.99 on the plane's machine; it has 3." in _ready(plane, "elsewhere-1")["message"]

"""The walk apply -> serving -> predict, as a person takes it: through the CLI and curl-like requests."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from tests.support import models, planes

IRIS_ROW = "[[5.1,3.5,1.4,0.2]]"


def test_model_file_and_python_function(plane: planes.TestPlane, tmp_path: Path) -> None:
    models.save_iris(tmp_path / "model.joblib")
    plane.cli("deploy", "model.joblib", "--name", "iris", cwd=tmp_path)
    answer = json.loads(plane.cli("predict", "iris", "--data", IRIS_ROW, "-o", "json").stdout)
    assert answer["model_version"] == "1"
    assert answer["outputs"][0]["data"] == [0]

    (tmp_path / "double.py").write_text("def predict(inputs):\n    return inputs['x'] * 2\n")
    plane.cli("deploy", "double:predict", "--name", "double", cwd=tmp_path)
    reply = httpx2.post(
        f"{plane.inference_url}/v2/models/double/infer",
        json={"inputs": [{"name": "x", "datatype": "INT64", "shape": [3], "data": [1, 2, 3]}], "id": "mine"},
        verify=False,
    )
    assert reply.status_code == 200
    assert reply.json()["outputs"][0]["data"] == [2, 4, 6]
    assert reply.json()["id"] == reply.headers["mizzen-request-id"] == "mine"

    listed = json.loads(plane.cli("get", "inferencemodels", "-o", "json").stdout)
    assert {item["metadata"]["name"] for item in listed["items"]} >= {"iris-1", "double-1"}
    assert "ready" in plane.cli("logs", "iris-1").stdout


def test_second_version_becomes_current_only_when_promoted(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text("def one(inputs):\n    return [1]\n\n\ndef two(inputs):\n    return [2]\n")
    plane.cli("deploy", "answer:one", "--name", "answer", cwd=tmp_path)
    plane.cli("deploy", "answer:two", "--name", "answer", "--no-promote", cwd=tmp_path)
    request = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [0]}]}

    def ask(path: str) -> tuple[str, int]:
        reply = httpx2.post(f"{plane.inference_url}/v2/models/{path}/infer", json=request, verify=False).json()
        return reply["model_version"], reply["outputs"][0]["data"][0]

    assert ask("answer") == ("1", 1)
    assert ask("answer-2") == ("2", 2)
    plane.cli("promote", "answer", "2")
    assert ask("answer") == ("2", 2)
    assert ask("answer/versions/1") == ("1", 1)

    actions = [entry["action"] for entry in _history(plane, "answer") if entry["object"] == "Model/answer"]
    assert actions == ["created", "promoted", "promoted"]

    headers = {"Authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, verify=False) as api:
        for version in ("1", "2") * 5:
            assert api.post("/model/answer/current", json={"version": version}).status_code == 200
            assert ask("answer")[0] == version, "whoever decides so is answered by it at once"


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("model.joblib", b"this is no pickle", "model.joblib"),
        ("needs.py", b"import surely_not_installed\n\n\ndef predict(inputs):\n    return 1\n", "surely_not_installed"),
        ("raises.py", b"class Predict:\n    def load(self, path):\n        print('looking', 'around')\n"
                      b"        raise OSError('no weights')\n\n"
                      b"    def predict(self, inputs):\n        return 1\n", "no weights"),
    ],
)  # fmt: skip
def test_broken_model_is_explained_and_leaves_nothing_half_done(
    plane: planes.TestPlane, tmp_path: Path, file: str, content: bytes, says: str
) -> None:
    (tmp_path / file).write_bytes(content)
    what = {"needs.py": "needs:predict", "raises.py": "raises:Predict"}.get(file, file)
    name, before = f"broken-{file.partition('.')[0]}", set(plane.pids("runtime"))
    failed = plane.cli("deploy", what, "--name", name, cwd=tmp_path, check=False)
    assert failed.returncode == 1
    assert says in failed.stderr
    assert f"{name} version 1" in failed.stderr
    assert file != "raises.py" or "looking around" in failed.stderr, "what it printed"
    assert "mizzen/runtime" not in failed.stderr, "a traceback is the model's own"

    def nothing_runs() -> bool:
        items = [
            each for kind in ("im", "wl") for each in json.loads(plane.cli("get", kind, "-o", "json").stdout)["items"]
        ]
        left = [each for each in items if each["metadata"]["name"].startswith(name)]
        return left == [] and set(plane.pids("runtime")) <= before

    planes.wait_until(nothing_runs, "the failed server is gone")
    version = json.loads(plane.cli("get", "modelversion", f"{name}.1", "-o", "json").stdout)
    (servable,) = [one for one in version["status"]["conditions"] if one["type"] == "Servable"]
    assert servable["status"] == "False"
    assert says in servable["message"]
    assert httpx2.get(f"{plane.inference_url}/v2/models/{name}/ready", verify=False).status_code in (404, 503)


def test_nothing_of_a_healthy_plane_is_refused(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "sound.py").write_text("def one(inputs):\n    return [1]\n")
    plane.cli("deploy", "sound:one", "--name", "sound", cwd=tmp_path)
    for kind in ("models", "modelversions", "inferencemodels", "workloads"):
        items = json.loads(plane.cli("get", kind, "-o", "json").stdout)["items"]
        mine = [item for item in items if item["metadata"]["name"].startswith("sound")]
        for item in mine:
            accepted = [one for one in item["status"]["conditions"] if one["type"] == "Accepted"]
            assert [one["status"] for one in accepted] == ["True"], item
            assert item["status"]["observedGeneration"] == item["metadata"]["generation"]
        assert mine, kind


def test_what_does_not_exist_is_said_clearly(plane: planes.TestPlane, tmp_path: Path) -> None:
    for words, says in (
        (("deploy", "nowhere.joblib", "--name", "x"), "nowhere.joblib"),
        (("deploy", "nowhere:predict", "--name", "x"), "nowhere"),
        (("predict", "nobody", "--data", "[[1]]"), "nobody"),
        (("get", "modell"), "did you mean 'model'"),
        (("promote", "nobody", "1"), "nobody"),
    ):
        failed = plane.cli(*words, cwd=tmp_path, check=False)
        assert failed.returncode in (1, 2), words
        assert says in failed.stderr, (words, failed.stderr)
        assert "Traceback" not in failed.stderr


def test_undeploy_ends_the_process_and_the_name(plane: planes.TestPlane, tmp_path: Path) -> None:
    before = set(plane.pids("runtime"))
    (tmp_path / "brief.py").write_text("def one(inputs):\n    return [1]\n")
    plane.cli("deploy", "brief:one", "--name", "brief", cwd=tmp_path)
    assert len(set(plane.pids("runtime")) - before) == 1
    plane.cli("undeploy", "brief")
    planes.wait_until(lambda: set(plane.pids("runtime")) <= before, "the runtime has ended")
    reply = httpx2.get(f"{plane.inference_url}/v2/models/brief/ready", verify=False)
    assert reply.status_code in (404, 503)


def test_one_of_two_versions_ends_and_the_other_is_scaled(plane: planes.TestPlane, tmp_path: Path) -> None:
    before = set(plane.pids("runtime"))
    (tmp_path / "twice.py").write_text("def one(inputs):\n    return [1]\n")
    plane.cli("deploy", "twice:one", "--name", "twice", cwd=tmp_path)
    (tmp_path / "twice.py").write_text("def one(inputs):\n    return [2]\n")
    plane.cli("deploy", "twice:one", "--name", "twice", "--no-promote", cwd=tmp_path)
    refused = plane.cli("undeploy", "twice", "--version", "1", check=False)
    assert "version 1 of twice is current: without it, requests to twice would get a 503" in refused.stderr
    assert "hint: 'mizzen promote twice 2' makes version 2 current first; --force stops it" in refused.stderr

    assert plane.cli("scale", "twice", "3").stdout == "twice-1 has 3 replicas\n"
    assert len(set(plane.pids("runtime")) - before) == 4
    told = [each for each in plane.status()["processes"] if each.get("server") == "twice-1"]
    named = [(each["namespace"], each["model"], each["replica"]) for each in told]
    assert sorted(named) == [("default", "twice", 0), ("default", "twice", 1), ("default", "twice", 2)]
    assert plane.cli("scale", "twice-1", "1").stdout == "twice-1 has 1 replica\n"
    assert len(set(plane.pids("runtime")) - before) == 2

    plane.cli("undeploy", "twice", "--version", "1", "--force")
    refused = plane.cli("predict", "twice", "--data", "[[1]]", check=False)
    assert "error: version 1 of 'twice' is not served; 'mizzen serve twice 1' serves it" in refused.stderr
    plane.cli("promote", "twice", "2")
    assert plane.cli("undeploy", "twice", "--version", "2").stdout == "twice-2 stopped\n"  # the last of all may


def _history(plane: planes.TestPlane, model: str) -> list[dict[str, str]]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    items: list[dict[str, str]] = httpx2.get(
        f"{plane.control_url}/model/{model}/history", headers=headers, verify=False
    ).json()["items"]
    return items

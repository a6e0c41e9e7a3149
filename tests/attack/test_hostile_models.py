"""Hostile models, jobs and packages, all trusted by an admin: whatever they try from inside, none of it succeeds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import planes, wheels
from tests.support.hostile import programs, stage
from tests.support.hostile.stage import Stage


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hostile")
    wheels.of_installed(folder / "wheels", "numpy")
    with stage.running(folder, settings=f'environment_wheels = "{folder / "wheels"}"\n') as running:
        yield running


def none_succeeded(report: dict[str, Any]) -> None:
    assert report["tried"] > 150, "the whole list was tried"
    assert report["succeeded"] == {}


def targets(attacked: Stage) -> programs.Targets:
    assert attacked.targets is not None
    return attacked.targets


def test_a_pickle_of_sklearn(attacked: Stage, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(*programs.rows())
    attacked.deploy(programs.pickled(tmp_path / "m.joblib", targets(attacked), model), "pickle")
    none_succeeded(attacked.report_of("pickle"))


def test_a_pickled_wrapper_of_xgboost(attacked: Stage, tmp_path: Path) -> None:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=1).fit(*programs.rows())
    file = programs.pickled(tmp_path / "m.pkl", targets(attacked), model)
    attacked.deploy(file, "wrapper", "--framework", "xgboost")
    none_succeeded(attacked.report_of("wrapper"))


@pytest.mark.parametrize("entrypoint", ["predict", "Model"])
def test_python_code(attacked: Stage, tmp_path: Path, entrypoint: str) -> None:
    folder = programs.python_module(tmp_path / "code", targets(attacked))
    name = f"python-{entrypoint.lower()}"
    attacked.deploy(folder, name, "--entrypoint", f"model:{entrypoint}")
    none_succeeded(attacked.report_of(name))


def test_a_training_job(attacked: Stage) -> None:
    none_succeeded(attacked.train("trains"))


def test_the_build_of_a_package(attacked: Stage, tmp_path: Path) -> None:
    programs.package(tmp_path.parent / "sdists", targets(attacked)).rename(
        Path(attacked.plane.data_dir.parent / "wheels" / "thing-1.0.tar.gz")
    )
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").write_text(
        "import thing\n\nprint(thing.REPORT)\n\ndef predict(inputs):\n    return inputs\n"
    )
    attacked.deploy(tmp_path / "code", "builds", "--entrypoint", "model:predict", "--requirement", "thing==1.0")
    none_succeeded(attacked.report_of("builds"))


def test_a_program_of_a_graph(attacked: Stage, tmp_path: Path) -> None:
    code = programs.source(targets(attacked)) + "\nimport time\ntime.sleep(600)\n"
    container = {"name": "hostile", "image": "python", "command": ["python", "-c", code]}
    graph = {
        "apiVersion": "mizzen.dev/v1alpha1",
        "kind": "MLGraph",
        "metadata": {"name": "hostile"},
        "spec": {
            "custom": [{"spec": {"containers": [container]}}],
            "dag": [{"name": "hostile"}],
        },
    }
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    logs = attacked.plane.data_dir / "logs"
    before = set(logs.glob("*.log"))
    attacked.cli("apply", "-f", str(tmp_path / "graph.json"))

    def printed() -> str:
        return "".join(log.read_text(errors="replace") for log in {*logs.glob("*.log")} - before)

    none_succeeded(attacked.report_in(printed, "the program"))


def test_skops_opens_no_file_outside(attacked: Stage, tmp_path: Path) -> None:
    """Plain classes of scikit-learn read the files that their inputs name, where the model may."""
    attacked.deploy(programs.reader_in_skops(tmp_path / "m.skops"), "reader")

    def predict(path: str) -> Any:
        return attacked.cli("predict", "reader", "--data", json.dumps([path]), "-o", "json", check=False)

    planes.wait_until(lambda: predict("/etc/passwd").returncode == 0, "it counts the letters of a public file", 90)
    found = targets(attacked)["files"]
    for path in (*found.values(), "../../admin-token", "../../../admin-token"):
        done = predict(path)
        assert done.returncode != 0, f"{path}: {done.stdout}"


def test_onnx_loads_no_data_from_outside(attacked: Stage, tmp_path: Path) -> None:
    token = Path(targets(attacked)["token"])
    size = token.stat().st_size
    for number, location in enumerate(("../../../admin-token", "../../../../data/admin-token", str(token))):
        name = f"thief-{number}"
        attacked.deploy(programs.onnx_with_external_data(tmp_path / name, location, size), name)

        def ended(name: str = name) -> bool:
            found = json.loads(attacked.cli("get", "inferencemodel", "-o", "json").stdout)["items"]
            [this] = [each for each in found if each["spec"]["modelName"] == name]
            return any(each["reason"] == "LoadFailed" for each in this["status"].get("conditions", ()))

        planes.wait_until(ended, f"{name} cannot be loaded", 90)

"""Folders as MLflow writes them, where MLflow is not installed; those of the real one are in tests/ml."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from tests.support.runtime import asking

SKLEARN = """
flavors:
  python_function: {loader_module: mlflow.sklearn, model_path: model.pkl}
  sklearn: {pickled_model: model.pkl, serialization_format: cloudpickle, code: null}
"""


def folder(tmp_path: Path, description: str) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "MLmodel").write_text(description)
    return tmp_path


def load(version: Path, entrypoint: str = "run/MLmodel", *, trusted: bool = True) -> LoadedModel:
    return registry.load("mlflow", entrypoint, version, trusted=trusted, batch=False)


@pytest.mark.parametrize("entrypoint", ["run/MLmodel", "run"])
def test_what_another_framework_reads_needs_no_mlflow(tmp_path: Path, entrypoint: str) -> None:
    version = folder(tmp_path, SKLEARN)
    rows = np.array([[-1.0], [1.0]])
    joblib.dump(LogisticRegression().fit(rows, [0, 1]), version / "run" / "model.pkl")
    with pytest.raises(LoadError, match=r"'run/model.pkl' is a pickle, .* is not marked as trusted"):
        load(version, entrypoint, trusted=False)
    model = load(version, entrypoint)
    assert model.framework == "sklearn"
    assert asking.ask(model, {"input": rows})["predict"].tolist() == [0, 1]


def test_code_beside_a_model_can_be_imported_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = folder(tmp_path, SKLEARN.replace("code: null", "code: code"))
    (version / "run" / "code").mkdir()
    (version / "run" / "code" / "mlflow_own_code.py").write_text(
        "from sklearn.linear_model import LogisticRegression\n\n\nclass Own(LogisticRegression):\n    pass\n"
    )
    monkeypatch.syspath_prepend(version / "run" / "code")
    own = importlib.import_module("mlflow_own_code").Own
    joblib.dump(own().fit(np.array([[-1.0], [1.0]]), [0, 1]), version / "run" / "model.pkl")
    monkeypatch.undo()
    sys.modules.pop("mlflow_own_code")
    with pytest.raises(LoadError, match="contains Python code, and is not marked as trusted"):
        load(version, trusted=False)
    assert load(version).framework == "sklearn"


def test_without_mlflow_the_line_that_installs_it_is_told(tmp_path: Path) -> None:
    version = folder(tmp_path, "flavors: {python_function: {loader_module: mlflow.pyfunc.model}}")
    with pytest.raises(LoadError, match="is loaded by Python code, and is not marked as trusted"):
        load(version, trusted=False)
    with pytest.raises(LoadError, match=r"needs mlflow, which is not installed: pip install 'mizzen\[mlflow\]'"):
        load(version)


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ("flavors: [sklearn]", "does not list its flavors"),
        ("a: {b", "'run/MLmodel' could not be read"),
        ("flavors: {spacy: {data: x}}", "no flavor of 'run/MLmodel' can be served here: it has spacy"),
        ("flavors: {onnx: {data: ../../secret}}", "can be served here"),
    ],
)
def test_a_description_that_leads_nowhere(tmp_path: Path, description: str, says: str) -> None:
    with pytest.raises(LoadError, match=says):
        load(folder(tmp_path, description))

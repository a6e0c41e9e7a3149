"""Signatures declared beside a model: compared with its own, or taken where it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from mizzen.runtime import declared_signature
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec
from tests.support.runtime import asking

ROWS, LABELS = load_iris(return_X_y=True)
PREDICT, PROBABILITIES = TensorSpec("predict", "INT64", (-1,)), TensorSpec("predict_proba", "FP64", (-1, 3))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("declared") / "model.joblib"
    joblib.dump(LogisticRegression(max_iter=500).fit(ROWS, LABELS), file)
    return file


def python(folder: Path, name: str, code: str, **said: Any) -> LoadedModel:
    (folder / f"{name}.py").write_text(code)
    return registry.load("python", f"{name}:predict", folder, trusted=True, batch=False, **said)


def test_declared_outputs_are_given_by_default(file: Path) -> None:
    model = asking.load("sklearn", file, outputs=(PROBABILITIES, PREDICT))
    assert list(asking.ask(model, {"input": ROWS[:2]})) == ["predict_proba", "predict"]
    assert list(asking.ask(model, {"input": ROWS[:2]}, ["decision_function"])) == ["decision_function"]
    assert [spec.name for spec in model.outputs] == ["predict_proba", "predict", "decision_function"]


@pytest.mark.parametrize("shape", [(-1, 4), (1, 4), (-1, -1)])
@pytest.mark.parametrize("datatype", ["FP64", "FP32", "INT32"])
def test_inputs_that_fit(file: Path, datatype: str, shape: tuple[int, ...]) -> None:
    model = asking.load("sklearn", file, inputs=(TensorSpec("input", datatype, shape),))
    assert model.inputs == (TensorSpec("input", "FP64", (-1, 4)),)
    assert asking.ask(model, {"input": ROWS[:2].astype(np.float32)})["predict"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            {"inputs": (TensorSpec("x", "FP64", (-1, 4)),)},
            "says 'x' FP64 [-1, 4], but the model takes 'input'",
        ),
        ({"inputs": (TensorSpec("input", "FP64", (-1, 5)),)}, "but the model takes 'input' FP64 [-1, 4]"),
        ({"inputs": (TensorSpec("input", "BYTES", (-1, 4)),)}, "spec.inputs says 'input' BYTES [-1, 4]"),
        (
            {"outputs": (TensorSpec("score", "FP64", (-1,)),)},
            "the model returns 'predict' INT64 [-1], 'predict_proba'",
        ),
        ({"outputs": (TensorSpec("predict", "FP64", (-1,)),)}, "spec.outputs says 'predict' FP64 [-1], but the model"),
        ({"outputs": (TensorSpec("predict", "INT64", (-1, 2)),)}, "spec.outputs says 'predict' INT64 [-1, 2]"),
    ],
)
def test_what_does_not_fit_names_both(file: Path, said: dict[str, Any], wanted: str) -> None:
    with pytest.raises(LoadError) as caught:
        asking.load("sklearn", file, **said)
    assert wanted in str(caught.value)


def test_a_function_gets_a_signature(tmp_path: Path) -> None:
    code = "def predict(inputs):\n    return {'a': inputs['x'] + 1, 'b': inputs['x']}\n"
    spec = TensorSpec("x", "FP64", (2,))
    model = python(tmp_path, "plain_function", code, inputs=(spec,), outputs=(TensorSpec("b", "FP64", (2,)),))
    assert (model.strict, model.inputs) == (True, (spec,))
    assert list(asking.ask(model, {"x": np.zeros(2)})) == ["b"]
    assert "must have shape [2], not [3]" in asking.refused(model, {"x": np.zeros(3)})
    assert "no output 'c'" in asking.refused(model, {"x": np.zeros(2)}, ["c"])


def test_a_function_that_declares_its_own(tmp_path: Path) -> None:
    code = (
        "def predict(inputs):\n    return inputs['x']\n"
        "predict.inputs = [{'name': 'x', 'datatype': 'FP64', 'shape': [-1]}]\n"
    )
    with pytest.raises(LoadError, match=r"spec.inputs says 'y' FP64 \[-1\], but the model takes 'x' FP64 \[-1\]"):
        python(tmp_path, "own_signature", code, inputs=(TensorSpec("y", "FP64", (-1,)),))


@pytest.mark.parametrize("text", ["{}", "[1]", "nonsense", '[{"name": "x"}]', "3"])
def test_what_is_no_signature(text: str) -> None:
    with pytest.raises(LoadError, match="--inputs must be a JSON list of tensors"):
        declared_signature.read(text, "--inputs")


def test_a_signature_as_text() -> None:
    one = '{"name": "x", "datatype": "FP64", "shape": [-1, 4]}'
    assert declared_signature.read(f"[{one}]", "--inputs") == (TensorSpec("x", "FP64", (-1, 4)),)
    with pytest.raises(LoadError, match="--inputs declares a name twice"):
        declared_signature.read(f"[{one}, {one}]", "--inputs")

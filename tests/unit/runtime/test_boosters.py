"""Real XGBoost and LightGBM models, from each file they write: callers get what was seen in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.datasets import load_iris

from mizzen.runtime.frameworks.model import LoadError
from mizzen.runtime.signature import TensorSpec
from tests.support.runtime import asking

ROWS, LABELS = load_iris(return_X_y=True)
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c", "d"])
INPUT = (TensorSpec("input", "FP64", (-1, 4)),)
BINARY = (LABELS > 0).astype(int)


@pytest.mark.parametrize("name", ["model.json", "model.ubj"])
@pytest.mark.parametrize("labels", [LABELS, BINARY], ids=["three", "two"])
@pytest.mark.parametrize("rows", [ROWS, FRAME], ids=["array", "frame"])
def test_an_xgboost_classifier_gives_labels(tmp_path: Path, name: str, labels: Any, rows: Any) -> None:
    fitted = xgboost.XGBClassifier(n_estimators=5).fit(rows, labels)
    fitted.save_model(tmp_path / name)
    model = asking.load("xgboost", tmp_path / name, trusted=False)
    classes = len(set(labels))
    assert model.inputs == INPUT
    assert model.outputs == (
        TensorSpec("predict", "INT64", (-1,)), TensorSpec("predict_proba", "FP32", (-1, classes)),
    )  # fmt: skip
    answer = asking.ask(model, {"input": ROWS}, ["predict", "predict_proba"])
    np.testing.assert_array_equal(answer["predict"], fitted.predict(rows))
    np.testing.assert_allclose(answer["predict_proba"], fitted.predict_proba(rows), rtol=1e-5)


def test_an_xgboost_regressor(tmp_path: Path) -> None:
    fitted = xgboost.XGBRegressor(n_estimators=5).fit(ROWS[:, :3], ROWS[:, 3])
    fitted.save_model(tmp_path / "model.json")
    model = asking.load("xgboost", tmp_path / "model.json", trusted=False)
    assert model.outputs == (TensorSpec("predict", "FP32", (-1,)),)
    got = asking.ask(model, {"input": ROWS[:, :3]})["predict"]
    np.testing.assert_allclose(got, fitted.predict(ROWS[:, :3]), rtol=1e-5)


@pytest.mark.parametrize("rows", [ROWS, FRAME], ids=["array", "frame"])
def test_a_plain_booster_gives_what_booster_predict_gives(tmp_path: Path, rows: Any) -> None:
    matrix = xgboost.DMatrix(rows, LABELS)
    booster = xgboost.train({"objective": "multi:softprob", "num_class": 3}, matrix, 4)
    booster.save_model(tmp_path / "model.ubj")
    model = asking.load("xgboost", tmp_path / "model.ubj", trusted=False)
    assert (model.inputs, model.outputs) == (INPUT, (TensorSpec("predict", "FP32", (-1, 3)),))
    np.testing.assert_allclose(asking.ask(model, {"input": ROWS})["predict"], booster.predict(matrix), rtol=1e-5)
    assert asking.ask(model, {"input": ROWS[:0]})["predict"].shape == (0, 3)


def test_threads_are_as_many_as_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIZZEN_THREADS", "1")
    fitted = xgboost.XGBClassifier(n_estimators=2, n_jobs=8).fit(ROWS, LABELS)
    fitted.save_model(tmp_path / "model.json")
    model: Any = asking.load("xgboost", tmp_path / "model.json")
    assert model.estimator.n_jobs == 1
    lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1).fit(ROWS, LABELS).booster_.save_model(tmp_path / "m.txt")
    other: Any = asking.load("lightgbm", tmp_path / "m.txt")
    assert other.threads == 1


@pytest.mark.parametrize(("labels", "shape"), [(LABELS, (-1, 3)), (BINARY, (-1,))], ids=["three", "two"])
def test_a_lightgbm_text_file(tmp_path: Path, labels: Any, shape: tuple[int, ...]) -> None:
    fitted = lightgbm.LGBMClassifier(n_estimators=5, verbosity=-1).fit(FRAME, labels)
    fitted.booster_.save_model(tmp_path / "model.txt")
    model = asking.load("lightgbm", tmp_path / "model.txt", trusted=False)
    assert (model.inputs, model.outputs) == (INPUT, (TensorSpec("predict", "FP64", shape),))
    np.testing.assert_allclose(asking.ask(model, {"input": ROWS})["predict"], fitted.booster_.predict(ROWS))
    assert asking.ask(model, {"input": ROWS[:0]})["predict"].shape == (0, *shape[1:])


@pytest.mark.parametrize(
    ("framework", "estimator"),
    [
        ("xgboost", xgboost.XGBClassifier(n_estimators=3)),
        ("lightgbm", lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1)),
    ],
    ids=["xgboost", "lightgbm"],
)
@pytest.mark.parametrize("rows", [ROWS, FRAME], ids=["array", "frame"])
def test_pickles_need_trust(tmp_path: Path, framework: str, estimator: Any, rows: Any) -> None:
    fitted = estimator.fit(rows, LABELS)
    joblib.dump(fitted, tmp_path / "model.joblib")
    with pytest.raises(LoadError, match="is a pickle, which runs code"):
        asking.load(framework, tmp_path / "model.joblib", trusted=False)
    for name in (framework, "sklearn"):
        model = asking.load(name, tmp_path / "model.joblib")
        assert (model.framework, model.inputs) == (name, INPUT)
        answer = asking.ask(model, {"input": ROWS}, ["predict", "predict_proba"])
        np.testing.assert_array_equal(answer["predict"], fitted.predict(rows))
        np.testing.assert_allclose(answer["predict_proba"], fitted.predict_proba(rows), rtol=1e-5)


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm", "onnx"])
def test_what_is_no_such_file_says_so(tmp_path: Path, framework: str) -> None:
    (tmp_path / "model.bin").write_bytes(b"something else")
    reader = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "onnx": "onnxruntime"}[framework]
    with pytest.raises(LoadError, match=f"'model.bin' could not be read by {reader}: "):
        asking.load(framework, tmp_path / "model.bin")

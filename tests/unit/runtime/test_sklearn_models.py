"""Real scikit-learn models, loaded from real files and asked through batches."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn.base
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime import batching
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec

ROWS, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]

Serve = Callable[[Any], LoadedModel]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    def serve(estimator: Any) -> LoadedModel:
        joblib.dump(estimator, tmp_path / "model.joblib")
        return registry.load("sklearn", "model.joblib", tmp_path, trusted=True, batch=False)

    return serve


def ask(model: LoadedModel, rows: Array, outputs: list[str] | None = None) -> dict[str, Any]:
    """Each row as a request of its own, all in one batch; the answers put together again."""
    asked = [
        [[["input", "FP64", [1, len(row)], framing.JSON, json.dumps(row.tolist()).encode()]], outputs] for row in rows
    ]
    together: dict[str, Any] = {}
    for status, payload in batching.answer(model, asked).results:
        assert status == framing.OK, payload
        for output in json.loads(payload):
            together.setdefault(output["name"], []).append(np.array(output["data"]).reshape(output["shape"][1:]))
    return {name: np.array(parts) for name, parts in together.items()}


def test_a_classifier(serve: Serve) -> None:
    estimator = LogisticRegression(max_iter=500).fit(ROWS, LABELS)
    model = serve(estimator)
    assert (model.framework, model.strict, model.batch) == ("sklearn", True, True)
    assert model.inputs == (TensorSpec("input", "FP64", (-1, 4)),)
    assert model.outputs == (
        TensorSpec("predict", "INT64", (-1,)),
        TensorSpec("predict_proba", "FP64", (-1, 3)),
        TensorSpec("decision_function", "FP64", (-1, 3)),
    )
    got = ask(model, ROWS[::10])
    assert list(got) == ["predict"]
    np.testing.assert_array_equal(got["predict"], estimator.predict(ROWS[::10]))
    both = ask(model, ROWS[::10], ["predict_proba", "predict"])
    np.testing.assert_allclose(both["predict_proba"], estimator.predict_proba(ROWS[::10]))


def test_a_pipeline_with_string_labels(serve: Serve) -> None:
    estimator: Pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, NAMES)
    model = serve(estimator)
    assert model.inputs[0].shape == (-1, 4)
    assert model.outputs[0] == TensorSpec("predict", "BYTES", (-1,))
    assert ask(model, ROWS[::10])["predict"].tolist() == estimator.predict(ROWS[::10]).tolist()


def test_boolean_labels(serve: Serve) -> None:
    model = serve(LogisticRegression(max_iter=500).fit(ROWS, LABELS == 0))
    assert model.outputs[0] == TensorSpec("predict", "BOOL", (-1,))
    assert ask(model, ROWS[[0, 100]])["predict"].tolist() == [True, False]


def test_a_regressor_of_several_targets(serve: Serve) -> None:
    estimator = LinearRegression().fit(ROWS[:, :2], ROWS[:, 2:])
    model = serve(estimator)
    assert model.outputs == (TensorSpec("predict", "FP64", (-1, 2)),)
    np.testing.assert_allclose(ask(model, ROWS[:5, :2])["predict"], estimator.predict(ROWS[:5, :2]))


def test_a_classifier_of_several_targets(serve: Serve) -> None:
    targets = np.stack([LABELS, 2 - LABELS], axis=1)
    model = serve(RandomForestClassifier(3, random_state=0).fit(ROWS, targets))
    assert [(spec.name, spec.shape) for spec in model.outputs] == [("predict", (-1, 2)), ("predict_proba", (-1, 2, 3))]


def test_clusters(serve: Serve) -> None:
    estimator = KMeans(3, n_init=1, random_state=0).fit(ROWS)
    model = serve(estimator)
    assert [(spec.name, spec.datatype) for spec in model.outputs] == [("predict", "INT64"), ("transform", "FP64")]
    np.testing.assert_array_equal(ask(model, ROWS[::10])["predict"], estimator.predict(ROWS[::10]))
    np.testing.assert_allclose(ask(model, ROWS[::10], ["transform"])["transform"], estimator.transform(ROWS[::10]))


def test_a_transformer_gives_transform_by_default(serve: Serve) -> None:
    estimator = StandardScaler(copy=False).fit(ROWS.copy())
    model = serve(estimator)
    assert model.outputs == (TensorSpec("transform", "FP64", (-1, 4)),)
    np.testing.assert_allclose(ask(model, ROWS[:3])["transform"], estimator.transform(ROWS[:3].copy()))


def test_sparse_output_is_made_dense(serve: Serve) -> None:
    model = serve(OneHotEncoder(handle_unknown="ignore").fit([[0.0], [1.0], [2.0]]))
    assert ask(model, np.array([[1.0], [2.0]]))["transform"].tolist() == [[0, 1, 0], [0, 0, 1]]


def test_without_a_number_of_features_any_width_goes(serve: Serve) -> None:
    model = serve(FunctionTransformer(np.log1p))
    assert model.inputs == (TensorSpec("input", "FP64", (-1, -1)),)
    assert ask(model, np.zeros((2, 7)))["transform"].shape == (2, 7)


def test_zero_rows_and_bad_rows(serve: Serve) -> None:
    model = serve(LogisticRegression(max_iter=500).fit(ROWS, LABELS))
    empty = [[["input", "FP64", [0, 4], framing.JSON, b"[]"]], ["predict_proba"]]
    narrow = [[["input", "FP64", [1, 3], framing.JSON, b"[1,2,3]"]], None]
    answers = batching.answer(model, [empty, narrow])
    assert json.loads(answers.results[0][1]) == [
        {"name": "predict_proba", "datatype": "FP64", "shape": [0, 3], "data": []}
    ]
    assert answers.results[1] == (framing.BAD_INPUT, b"input 'input' must have shape [-1, 4], not [1, 3]")


def test_a_model_that_cannot_stand_zeros_still_serves(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    model = serve(_Picky().fit(ROWS, NAMES))
    assert model.outputs == (TensorSpec("predict", "BYTES", (-1,)), TensorSpec("predict_proba", "FP64", (-1, 3)))
    assert "predict of a synthetic row: ValueError: zeros" in caplog.text
    assert ask(model, ROWS[:2])["predict"].tolist() == ["setosa", "setosa"]


def test_a_plain_pickle(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(LinearRegression().fit(ROWS, LABELS)))
    model = registry.load("sklearn", "model.pkl", tmp_path, trusted=True, batch=False)
    assert model.outputs == (TensorSpec("predict", "FP64", (-1,)),)


def test_an_older_version_is_logged_and_served(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = LinearRegression().fit(ROWS, LABELS)
    with monkeypatch.context() as older:
        older.setattr(sklearn.base, "__version__", "1.0")
        stored = pickle.dumps(estimator)
    with caplog.at_level(logging.WARNING):
        model = serve(_Wrapped(stored))
    assert "from version 1.0 when using version" in caplog.text
    assert model.outputs[0].name == "predict"


@pytest.mark.parametrize(
    ("entrypoint", "trusted", "wanted"),
    [
        ("model.joblib", False, "is a pickle, which runs code when it is loaded, and is not marked as trusted"),
        ("model.joblib", True, "holds a builtins.dict, which has neither predict nor transform"),
        ("other.joblib", True, "this version has no file 'other.joblib'; it has model.joblib"),
        ("../model.joblib", True, "must stay within the version's folder"),
    ],
)
def test_what_cannot_be_served_says_why(tmp_path: Path, entrypoint: str, trusted: bool, wanted: str) -> None:
    joblib.dump({"a": 1}, tmp_path / "model.joblib")
    with pytest.raises(LoadError, match=wanted):
        registry.load("sklearn", entrypoint, tmp_path, trusted=trusted, batch=False)


def test_an_unknown_framework(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="framework 'torch' is not supported; supported are sklearn, xgboost"):
        registry.load("torch", "model.pt", tmp_path, trusted=True, batch=False)


class _Picky(DecisionTreeClassifier):  # type: ignore[misc]
    def predict(self, rows: Any, check_input: bool = True) -> Any:
        if not rows.any():
            raise ValueError("zeros")
        return super().predict(rows)

    def predict_proba(self, rows: Any, check_input: bool = True) -> Any:
        if not rows.any():
            raise ValueError("zeros")
        return super().predict_proba(rows)


class _Wrapped:
    """Loads as what is pickled in it."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._stored,)

"""Linear models without scikit-learn's looks at the input: the same answers to the last bit, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import linear_model, svm
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from mizzen.runtime.estimators import linear_fast_path

WIDTH = 6


def _labelled(classes: int, *, words: bool = False) -> tuple[Any, Any]:
    rows, labels = make_classification(
        200, WIDTH, n_informative=5, n_redundant=0, n_classes=classes, random_state=1, class_sep=0.5
    )
    return rows, np.array(["no", "yes", "maybe"])[labels] if words else labels


def _measured(targets: int = 1) -> tuple[Any, Any]:
    rows, values = make_regression(200, WIDTH, n_targets=targets, random_state=1)[:2]
    return rows, values


LINEAR = [
    (linear_model.LogisticRegression(max_iter=500), _labelled(2)),
    (linear_model.LogisticRegression(max_iter=500), _labelled(3)),
    (linear_model.LogisticRegression(max_iter=500), _labelled(3, words=True)),
    (linear_model.LogisticRegression(max_iter=500), _labelled(2, words=True)),
    (linear_model.SGDClassifier(random_state=0), _labelled(3)),
    (linear_model.Perceptron(), _labelled(2)),
    (svm.LinearSVC(), _labelled(3)),
    (linear_model.LinearRegression(), _measured()),
    (linear_model.LinearRegression(), _measured(3)),
    (linear_model.Ridge(), _measured(2)),
    (linear_model.Lasso(), _measured()),
]


@pytest.mark.parametrize(("model", "data"), LINEAR)
def test_it_answers_to_the_last_bit_what_the_model_does(model: Any, data: tuple[Any, Any]) -> None:
    model.fit(*data)
    found = linear_fast_path.shortcuts(model, WIDTH)
    assert list(found) == ["predict"]
    numbers = np.random.default_rng(5)
    for rows in (1, 2, 33, 500):
        for scale in (1e-9, 1.0, 1e9):
            probe = numbers.normal(scale=scale, size=(rows, WIDTH))
            ours, theirs = found["predict"](probe), model.predict(probe)
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)
    assert found["predict"](np.zeros((3, WIDTH))).shape == model.predict(np.zeros((3, WIDTH))).shape


class Shifted(linear_model.LogisticRegression):  # type: ignore[misc]
    """Code of somebody's own in the way."""

    def decision_function(self, X: Any) -> Any:  # noqa: N803 - their name
        return super().decision_function(X) + 100


class Renamed(linear_model.LinearRegression):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:  # noqa: N803
        return -super().predict(X)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Shifted(max_iter=500), _labelled(2)),
        (Renamed(), _measured()),
        (RandomForestClassifier(n_estimators=3), _labelled(2)),
        (make_pipeline(linear_model.LogisticRegression(max_iter=500)), _labelled(2)),
        (linear_model.RidgeClassifier(), _labelled(2)),
        (linear_model.PoissonRegressor(), (np.ones((20, WIDTH)), np.ones(20))),
    ],
)
def test_models_that_do_it_in_another_way_answer_themselves(model: Any, data: tuple[Any, Any]) -> None:
    model.fit(*data)
    found = linear_fast_path.shortcuts(model, WIDTH)
    probe = np.random.default_rng(5).normal(size=(50, WIDTH))
    assert not found or np.array_equal(found["predict"](probe), model.predict(probe))
    assert "predict" not in type(model).__dict__ or not found


def test_what_is_no_estimator_has_none() -> None:
    assert linear_fast_path.shortcuts(object(), WIDTH) == {}
    assert linear_fast_path.shortcuts(linear_model.LogisticRegression(), WIDTH) == {}, "it is not fitted"
    fitted = linear_model.LinearRegression().fit(*_measured())
    assert linear_fast_path.shortcuts(fitted, None) == {}
    assert linear_fast_path.shortcuts(fitted, WIDTH + 1) == {}

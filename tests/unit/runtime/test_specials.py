"""Whether a model takes NaN and Infinity is found by asking it, column by column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mizzen.protocol import frames
from mizzen.runtime import batches
from mizzen.runtime.frameworks import specials
from tests.unit.runtime.asking import load

X, Y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]]), [0, 0, 1, 1]


def _imputed(columns: list[int]) -> Any:
    return make_pipeline(
        ColumnTransformer([("filled", SimpleImputer(), columns)], remainder="passthrough"), LogisticRegression()
    )


@pytest.mark.parametrize(
    ("estimator", "refuses"),
    [
        (LogisticRegression(), {"NaN", "Infinity"}),
        (make_pipeline(StandardScaler(), LogisticRegression()), {"NaN", "Infinity"}),
        (make_pipeline(SimpleImputer(), LogisticRegression()), {"Infinity"}),
        (HistGradientBoostingClassifier(max_iter=2), set()),
        (_imputed([1]), {"Infinity"}),
    ],
)
def test_what_is_refused(tmp_path: Path, estimator: Any, refuses: set[str]) -> None:
    joblib.dump(estimator.fit(X, Y), tmp_path / "m.joblib")
    model = load("sklearn", tmp_path / "m.joblib")
    assert model.refuses == refuses
    for word, value in (("NaN", np.nan), ("Infinity", np.inf)):
        rows = np.array([[1.0, value]])
        [(status, payload)] = batches.answer(
            model, [[[["input", "FP64", [1, 2], frames.RAW, rows.tobytes()]], None]]
        ).results
        assert status == (frames.BAD_INPUT if word in refuses else frames.OK), payload
        assert status == frames.BAD_INPUT or len(json.loads(payload)[0]["data"]) == 1


def test_a_wide_model_is_not_asked() -> None:
    def never(_rows: Any) -> Any:
        raise AssertionError("asked")

    assert specials.refused(never, specials.MOST_COLUMNS + 1) == frozenset()
    assert specials.refused(never, None) == frozenset()
    assert specials.refused(never, 1) == {"NaN", "Infinity"}

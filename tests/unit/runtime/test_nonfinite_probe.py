"""Whether a model takes NaN and Infinity is found by asking it, column by column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mizzen.protocol.frames import framing
from mizzen.runtime import batching
from mizzen.runtime.estimators import nonfinite_probe
from mizzen.runtime.estimators.features import Matrix
from tests.support.runtime.asking import load

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
        (RandomForestClassifier(2), {"Infinity"}),
        (_imputed([1]), {"Infinity"}),
    ],
)
def test_what_is_refused(tmp_path: Path, estimator: Any, refuses: set[str]) -> None:
    joblib.dump(estimator.fit(X, Y), tmp_path / "m.joblib")
    model = load("sklearn", tmp_path / "m.joblib")
    assert model.refuses == refuses
    for word, value in (("NaN", np.nan), ("Infinity", np.inf)):
        rows = np.array([[1.0, value]])
        [(status, payload)] = batching.answer(
            model, [[[["input", "FP64", [1, 2], framing.RAW, rows.tobytes()]], None]]
        ).results
        assert status == (framing.BAD_INPUT if word in refuses else framing.OK), payload
        assert status == framing.BAD_INPUT or len(json.loads(payload)[0]["data"]) == 1


def test_a_wide_model_is_not_asked() -> None:
    def never(_rows: Any) -> Any:
        raise AssertionError("asked")

    assert nonfinite_probe.probe(never, Matrix(nonfinite_probe.MOST_COLUMNS + 1)).everywhere == frozenset()
    assert nonfinite_probe.probe(never, Matrix(None)).everywhere == frozenset()
    assert nonfinite_probe.probe(never, Matrix(1)).everywhere == frozenset(), (
        "it takes no row of zeros: nothing is known"
    )


def test_numbers_beyond_what_trees_compute_with(tmp_path: Path) -> None:
    joblib.dump(RandomForestClassifier(2).fit(X, Y), tmp_path / "m.joblib")
    joblib.dump(LogisticRegression().fit(X, Y), tmp_path / "linear.joblib")
    xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, label=Y), 2).save_model(tmp_path / "m.json")
    large = [[["input", "FP64", [1, 2], framing.JSON, b"[1, -1e300]"]], None]
    for framework, file, fault in (
        ("sklearn", "m.joblib", "column 1 of 'input' holds a number beyond 3.4e+38"),
        ("xgboost", "m.json", "holds Infinity or a number beyond 3.4e+38"),
        ("sklearn", "linear.joblib", ""),
    ):
        [(status, payload)] = batching.answer(load(framework, tmp_path / file), [large]).results
        assert status == (framing.BAD_INPUT if fault else framing.OK)
        assert fault in payload.decode()


class Counted(LogisticRegression):  # type: ignore[misc]
    """Notes each row that it is asked about."""

    def predict(self, rows: Any) -> Any:
        CALLS.append(len(rows))
        return super().predict(rows)


CALLS: list[int] = []
FRAME = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "size": [1.0, 2.0, 3.0, 4.0], "city": ["Oslo", "Rome"] * 2})


def _framed() -> Any:
    """A missing age is filled in, a missing size is not."""
    columns = ColumnTransformer(
        [("text", OneHotEncoder(), ["city"]), ("filled", SimpleImputer(), ["age"])], remainder="passthrough"
    )
    return make_pipeline(columns, Counted()).fit(FRAME, Y)


def _columns(age: float, size: float) -> list[Any]:
    given = [[name, "FP64", [1], framing.RAW, np.array([value]).tobytes()] for name, value in
             (("age", age), ("size", size))]  # fmt: skip
    return [[["city", "BYTES", [1], framing.JSON, b'["Oslo"]'], *given], None]


def _table(age: str, size: str) -> list[Any]:
    data = json.dumps([age, size, "Oslo"]).encode()
    return [[["input", "BYTES", [1, 3], framing.JSON, data]], None]


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (_columns(20, 1), ""), (_columns(np.nan, 1), ""), (_table("", "1"), ""), (_table("nan", "1e2"), ""),
        (_columns(20, np.nan), "column 'size' holds NaN, which this model does not accept there"),
        (_columns(np.inf, 1), "input 'age': data holds Infinity"), (_columns(20, -np.inf), "holds Infinity"),
        (_table("20", ""), "column 'size' holds NaN"), (_table("20", "nan"), "column 'size' holds NaN"),
        (_table("1e999", "1"), "column 'age' holds Infinity"), (_table("20", "-inf"), "column 'size' holds Infinity"),
        (_table("1_0", "1"), "column 'age' takes numbers, and '1_0' is not a number"),
    ],
)  # fmt: skip
def test_columns_of_a_data_frame_each_by_itself(tmp_path: Path, request_: Any, fault: str) -> None:
    joblib.dump(_framed(), tmp_path / "m.joblib")
    model = load("sklearn", tmp_path / "m.joblib")
    good = _columns(20, 1)
    CALLS.clear()
    [(status, payload)] = batching.answer(model, [request_]).results
    assert (status, len(CALLS)) == ((framing.BAD_INPUT, 0) if fault else (framing.OK, 1))
    assert fault in payload.decode()
    assert [status for status, _ in batching.answer(model, [good, request_, good]).results][::2] == [framing.OK] * 2


def test_rows_without_names(tmp_path: Path) -> None:
    """Some columns filled in, and others not, in an array and in an array of objects."""
    rows = np.array([["Oslo", 1.0], ["Rome", 2.0], ["Oslo", 3.0], ["Rome", 4.0]], object)
    encoder = ColumnTransformer([("text", OneHotEncoder(), [0])], remainder="passthrough")
    joblib.dump(make_pipeline(encoder, Counted()).fit(rows, Y), tmp_path / "objects.joblib")
    joblib.dump(
        make_pipeline(ColumnTransformer([("f", SimpleImputer(), [0])], remainder="passthrough"), Counted()).fit(X, Y),
        tmp_path / "array.joblib",
    )
    for name, given, fault in (
        ("objects", ["input", "BYTES", [1, 2], framing.JSON, b'["Oslo", ""]'], "column 1 of 'input' holds NaN"),
        ("array", ["input", "FP64", [1, 2], framing.RAW, np.array([1, np.nan]).tobytes()], "column 1 of 'input' holds"),
    ):
        model = load("sklearn", tmp_path / f"{name}.joblib")
        CALLS.clear()
        [(status, payload)] = batching.answer(model, [[[given], None]]).results
        assert status == framing.BAD_INPUT
        assert fault in payload.decode()
        assert CALLS == []

"""Models that were fitted on a DataFrame, with columns of several types, and on texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from mizzen.protocol.frames import framing
from mizzen.runtime import batching
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec
from tests.support.runtime import asking

FRAME = pd.DataFrame({
    "age": [20.0, 30.0, 40.0, 50.0, 60.0, 70.0] * 5,
    "city": ["Oslo", "Bonn", "Rome", "Bonn", "Oslo", "Rome"] * 5,
    "member": [True, False, True, True, False, False] * 5,
})  # fmt: skip
LABELS = np.array(["no", "yes", "no", "yes", "yes", "no"] * 5)
NUMBERS = FRAME[["age"]].assign(size=FRAME["age"] * 2)

Serve = Callable[..., LoadedModel]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    def serve(estimator: Any, **declared: Any) -> LoadedModel:
        joblib.dump(estimator, tmp_path / "model.joblib")
        return asking.load("sklearn", tmp_path / "model.joblib", **declared)

    return serve


def encoder() -> ColumnTransformer:
    return ColumnTransformer([
        ("text", OneHotEncoder(), ["city"]),
        ("flag", OrdinalEncoder(), ["member"]),
        ("number", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
    ])  # fmt: skip


def pipeline() -> Pipeline:
    return Pipeline([("columns", encoder()), ("model", LogisticRegression())])


def columns(frame: pd.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_numpy() for name in frame}


COLUMNS = (TensorSpec("age", "FP64", (-1,)), TensorSpec("city", "BYTES", (-1,)), TensorSpec("member", "BOOL", (-1,)))


@pytest.mark.parametrize(
    "estimator",
    [
        pipeline(),
        make_pipeline(encoder(), RandomForestClassifier(3, random_state=0)),
        GridSearchCV(pipeline(), {"model__C": [1.0, 2.0]}, cv=2),
        VotingClassifier([("one", pipeline()), ("two", pipeline())]),
        make_pipeline(
            ColumnTransformer([
                ("text", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), [1]),
                ("flag", OrdinalEncoder(), [2]),
            ], remainder="passthrough"),
            LogisticRegression(),
        ),
        make_pipeline(
            ColumnTransformer([
                ("text", OneHotEncoder(), make_column_selector(dtype_exclude=["number", "bool"])),
                ("flag", OrdinalEncoder(), make_column_selector(dtype_include="bool")),
                ("number", "passthrough", make_column_selector(dtype_include="number")),
            ]),
            LogisticRegression(),
        ),
    ],
    ids=["pipeline", "forest", "search", "voting", "places", "selector"],
)  # fmt: skip
def test_one_tensor_per_column(serve: Serve, estimator: Any) -> None:
    fitted = estimator.fit(FRAME, LABELS)
    model = serve(fitted)
    assert model.inputs == COLUMNS
    assert model.outputs[0] == TensorSpec("predict", "BYTES", (-1,))
    answer = asking.ask(model, columns(FRAME))
    assert answer["predict"].tolist() == fitted.predict(FRAME).tolist()


def test_rows_in_one_tensor_are_named_in_order(serve: Serve) -> None:
    fitted = pipeline().fit(FRAME, LABELS)
    model = serve(fitted)
    assert model.table == TensorSpec("input", "BYTES", (-1, 3))
    rows = FRAME.astype(str).to_numpy(object)
    answer = asking.ask(model, {"input": rows}, ["predict_proba"])
    np.testing.assert_allclose(answer["predict_proba"], fitted.predict_proba(FRAME))
    raw = b"".join(len(text).to_bytes(4, "little") + text.encode() for text in rows[1])
    [(status, payload)] = batching.answer(model, [[[["input", "BYTES", [1, 3], framing.RAW, raw]], None]]).results
    assert status == framing.OK, payload


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        (
            {"input": np.array([["old", "Oslo", "true"]], object)},
            "column 'age' takes numbers, and 'old' is not a number",
        ),
        ({"input": np.array([["1", "Oslo", "maybe"]], object)}, "column 'member' takes true and false, not 'maybe'"),
        ({"input": np.array([["1", "Oslo"]], object)}, "input 'input' must have shape [-1, 3], not [1, 2]"),
        ({"input": np.array([[1.0, 2.0, 3.0]])}, "input 'input' must be BYTES, not FP64"),
        ({"age": np.array([1.0])}, "input 'city', 'member' is missing"),
    ],
)
def test_what_does_not_fit_is_the_callers_fault(serve: Serve, inputs: dict[str, Any], wanted: str) -> None:
    model = serve(pipeline().fit(FRAME, LABELS))
    assert wanted in asking.refused(model, inputs)


def test_one_bad_row_in_a_shared_call_fails_alone(serve: Serve) -> None:
    model = serve(pipeline().fit(FRAME, LABELS))
    good, bad = (np.array([[age, "Oslo", "true"]], object) for age in ("20", "old"))
    requests = [asking.request({"input": rows}) for rows in (good, bad, good)]
    statuses = [status for status, _ in batching.answer(model, requests).results]
    assert statuses == [framing.OK, framing.BAD_INPUT, framing.OK]


def test_an_empty_text_is_a_missing_number(serve: Serve) -> None:
    fitted = pipeline().fit(FRAME, LABELS)
    model = serve(fitted)
    missing = FRAME.iloc[:1].assign(age=np.nan)
    answer = asking.ask(model, {"input": np.array([["", "Oslo", "true"]], object)}, ["predict_proba"])
    np.testing.assert_allclose(answer["predict_proba"], fitted.predict_proba(missing))


def test_zero_rows(serve: Serve) -> None:
    model = serve(pipeline().fit(FRAME, LABELS))
    assert asking.ask(model, columns(FRAME.iloc[:0].astype({"city": object})), ["predict_proba"])[
        "predict_proba"
    ].shape == (0, 2)


def test_numbers_with_names_stay_an_array(serve: Serve) -> None:
    fitted = LogisticRegression().fit(NUMBERS, LABELS)
    model = serve(fitted)
    assert model.inputs == (TensorSpec("input", "FP64", (-1, 2)),)
    answer = asking.ask(model, {"input": NUMBERS.to_numpy()})
    assert answer["predict"].tolist() == fitted.predict(NUMBERS).tolist()


@pytest.mark.parametrize(
    "first",
    [
        ColumnTransformer([("scaled", StandardScaler(), ["size"])], remainder="passthrough"),
        FunctionTransformer(lambda frame: frame.assign(both=frame["age"] + frame["size"])),
    ],
    ids=["by name", "own code"],
)
def test_numbers_that_are_picked_by_name(tmp_path: Path, first: Any) -> None:
    from mizzen.runtime.estimators import estimator
    from mizzen.runtime.frameworks.model import LoadRequest

    fitted = make_pipeline(first, LogisticRegression()).fit(NUMBERS, LABELS)
    model = estimator.to_model(fitted, LoadRequest("sklearn", "model.joblib"))
    assert model.inputs == (TensorSpec("input", "FP64", (-1, 2)),)
    answer = asking.ask(model, {"input": NUMBERS.to_numpy()})
    assert answer["predict"].tolist() == fitted.predict(NUMBERS).tolist()


def test_texts_without_names(serve: Serve) -> None:
    rows = FRAME[["city", "member"]].astype({"city": object}).to_numpy(object)
    fitted = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(rows, LABELS)
    model = serve(fitted)
    assert model.inputs == (TensorSpec("input", "BYTES", (-1, 2)),)
    sent = np.array([[str(value) for value in row] for row in rows], object)
    assert asking.ask(model, {"input": sent})["predict"].tolist() == fitted.predict(rows).tolist()


def test_one_text_per_row(serve: Serve) -> None:
    texts = np.array(["good day", "bad night", "good night", "bad day"] * 3, object)
    fitted = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["+", "-", "+", "-"] * 3)
    model = serve(fitted)
    assert model.inputs == (TensorSpec("input", "BYTES", (-1,)),)
    assert asking.ask(model, {"input": texts[:2]})["predict"].tolist() == ["+", "-"]


def test_categories_of_histogram_boosting(serve: Serve) -> None:
    frame = FRAME[["age", "city"]].astype({"city": "category"})
    fitted = HistGradientBoostingClassifier(max_iter=2, categorical_features="from_dtype").fit(frame, LABELS)
    model = serve(fitted)
    assert [spec.name for spec in model.inputs] == ["age", "city"]
    answer = asking.ask(model, columns(FRAME[["age", "city"]]), ["predict_proba"])
    np.testing.assert_allclose(answer["predict_proba"], fitted.predict_proba(frame))


def test_columns_may_be_declared(serve: Serve) -> None:
    fitted = LogisticRegression().fit(NUMBERS, LABELS)
    declared = (TensorSpec("age", "FP64", (-1,)), TensorSpec("size", "FP64", (-1,)))
    model = serve(fitted, inputs=declared)
    assert model.inputs == declared
    assert asking.ask(model, columns(NUMBERS))["predict"].tolist() == fitted.predict(NUMBERS).tolist()
    with pytest.raises(LoadError, match=r"spec.inputs says 'city' FP64 \[-1\].*the model takes 'age' FP64"):
        serve(pipeline().fit(FRAME, LABELS), inputs=(TensorSpec("city", "FP64", (-1,)),))

"""Folders that the real MLflow wrote, as the runtime loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel, LoadError
from mizzen.runtime.signature import TensorSpec
from tests.ml import making
from tests.support.runtime import asking

FRAME = pd.DataFrame({"age": [30.0, 40.0], "city": ["Rome", "Oslo"]})


class Described(mlflow.pyfunc.PythonModel):
    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
        return pd.DataFrame({"text": model_input["city"] + "!", "double": model_input["age"] * 2})


class Sum(mlflow.pyfunc.PythonModel):
    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
        return np.asarray(model_input).sum(axis=1)


def load(folder: Path, *, trusted: bool = True) -> LoadedModel:
    return registry.load("mlflow", "MLmodel", folder, trusted=trusted, batch=False)


def save(folder: Path, model: Any, taken: Any, given: Any) -> Path:
    signature = infer_signature(taken, given) if taken is not None else None
    mlflow.pyfunc.save_model(folder, python_model=model, signature=signature, pip_requirements=["cloudpickle"])
    return folder


def sklearn_folder(folder: Path, form: str) -> Path:
    model = LogisticRegression().fit(making.ROWS, making.LABELS)
    mlflow.sklearn.save_model(model, folder, serialization_format=form, pip_requirements=["scikit-learn"])
    return folder


def test_the_rule_for_pickles_holds(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"'model.pkl' is a pickle, .* is not marked as trusted"):
        load(sklearn_folder(tmp_path / "pickled", "cloudpickle"), trusted=False)
    assert load(sklearn_folder(tmp_path / "safe", "skops"), trusted=False).framework == "sklearn"


def test_columns_of_a_python_function_are_tensors(tmp_path: Path) -> None:
    folder = save(tmp_path / "m", Described(), FRAME, Described().predict(None, FRAME))
    with pytest.raises(LoadError, match="is loaded by Python code, and is not marked as trusted"):
        load(folder, trusted=False)
    model = load(folder)
    assert model.inputs == (TensorSpec("age", "FP64", (-1,)), TensorSpec("city", "BYTES", (-1,)))
    answer = asking.ask(model, {"age": np.array([1.0, 2.0]), "city": np.array(["a", "b"], object)})
    assert (answer["text"].tolist(), answer["double"].tolist()) == (["a!", "b!"], [2, 4])
    assert not model.batch


def test_tensors_and_no_signature(tmp_path: Path) -> None:
    rows = making.ROWS[:3]
    model = load(save(tmp_path / "said", Sum(), rows, rows.sum(axis=1)))
    assert model.inputs == (TensorSpec("input", "FP32", (-1, 4)),)
    np.testing.assert_allclose(asking.ask(model, {"input": rows})["predict"], rows.sum(axis=1), rtol=1e-5)
    model = load(save(tmp_path / "silent", Sum(), None, None))
    assert (model.inputs, model.strict) == ((), False)
    np.testing.assert_allclose(asking.ask(model, {"any": rows})["predict"], rows.sum(axis=1), rtol=1e-5)

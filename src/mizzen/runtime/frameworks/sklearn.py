"""scikit-learn models from joblib or pickle files: input `input`, outputs named after the methods that give them.

`predict` is given by default (`transform` for a pure transformer); the other methods only when asked for.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.frameworks.model import LoadError, pickled, unpickling
from mizzen.runtime.signature import TensorSpec

METHODS = ("predict", "predict_proba", "decision_function", "transform")

log = logging.getLogger("mizzen.runtime")


def load(entrypoint: str, folder: Path, *, trusted: bool, batch: bool) -> SklearnModel:
    """scikit-learn works row by row, so its models batch whether asked to or not."""
    estimator = _unpickled(pickled(folder, entrypoint, trusted=trusted))
    methods = tuple(name for name in METHODS if callable(getattr(estimator, name, None)))
    if "predict" not in methods and "transform" not in methods:
        kind = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
        raise LoadError(f"'{entrypoint}' holds a {kind}, which has neither predict nor transform")
    # Requests carry no column names, which a model fitted on a DataFrame would complain of in every call.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    return SklearnModel.warmed_up(estimator, methods)


@dataclass(frozen=True, slots=True)
class SklearnModel:
    estimator: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    framework: str = "sklearn"
    strict: bool = True
    batch: bool = True

    @classmethod
    def warmed_up(cls, estimator: Any, methods: tuple[str, ...]) -> SklearnModel:
        """One call with a row of zeros per method: loads what is lazy, and shows what the outputs look like."""
        features = getattr(estimator, "n_features_in_", None)
        inputs = (TensorSpec("input", "FP64", (-1, -1 if features is None else int(features))),)
        row = np.zeros((1, features or 1))
        return cls(estimator, inputs, tuple(_output_spec(estimator, method, row) for method in methods))

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs["input"]
        methods = outputs or (self.outputs[0].name,)
        if len(rows):
            return {method: _output(getattr(self.estimator, method)(rows)) for method in methods}
        # scikit-learn refuses to work on nothing
        row = np.zeros((1, rows.shape[1]))
        return {method: _output(getattr(self.estimator, method)(row))[:0] for method in methods}

    def close(self) -> None:
        pass


def _unpickled(file: Path) -> Any:
    with warnings.catch_warnings(record=True) as caught, unpickling(file):
        warnings.simplefilter("always")
        estimator = joblib.load(file)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        log.warning("while loading %s: %s", file.name, message)
    return estimator


def _output(value: Any) -> Array:
    """An array in a type we declare: sparse made dense, all integers 64 bits wide."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    # a classifier of several targets gives a list, one array per target
    array = np.stack(value, axis=1) if isinstance(value, list) else np.asarray(value)
    return array.astype(np.int64) if array.dtype.kind in "iu" and array.dtype != np.uint64 else array


def _output_spec(estimator: Any, method: str, row: Array) -> TensorSpec:
    try:
        array = _output(getattr(estimator, method)(row))
        kind, _ = tensors.as_datatype(array)
    except Exception as error:  # noqa: BLE001 - a row of zeros may be no valid input; the model may still serve
        log.warning("%s of a row of zeros: %s: %s", method, type(error).__name__, error)
        return _guessed_spec(estimator, method)
    return TensorSpec(method, kind.name, (-1, *array.shape[1:]))


def _guessed_spec(estimator: Any, method: str) -> TensorSpec:
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray):
        return TensorSpec(method, "FP64", (-1,) if method == "predict" else (-1, -1))
    if method == "predict":
        return TensorSpec(method, tensors.as_datatype(_output(classes))[0].name, (-1,))
    return TensorSpec(method, "FP64", (-1, len(classes) if method == "predict_proba" else -1))

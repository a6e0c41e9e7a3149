"""Models with the methods of scikit-learn, from any library: outputs are named after the methods that produce them.

`predict` is the default output (`transform` for a pure transformer); other methods run only when requested.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import columns, features, linear_fast_path, nonfinite_probe
from mizzen.runtime.estimators.columns import FittedColumn
from mizzen.runtime.estimators.features import Features
from mizzen.runtime.estimators.nonfinite_probe import Refusals
from mizzen.runtime.frameworks.model import LoadError, LoadRequest
from mizzen.runtime.limits import threads
from mizzen.runtime.signature import TensorSpec

METHODS = ("predict", "predict_proba", "decision_function", "transform")

log = logging.getLogger("mizzen.runtime")


def to_model(estimator: Any, wanted: LoadRequest) -> EstimatorModel:
    """Return the estimator as a model, warmed up. Raises LoadError if it is not an estimator."""
    methods = tuple(name for name in METHODS if callable(getattr(estimator, name, None)))
    if "predict" not in methods and "transform" not in methods:
        kind = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
        raise LoadError(f"'{wanted.entrypoint}' holds a {kind}, which has neither predict nor transform")
    # Requests carry no column names; a model fitted on a DataFrame would warn about that in every call.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    _limit_jobs(estimator)
    taken = _choose_features(estimator, methods[0], wanted.inputs)
    return EstimatorModel.warm_up(estimator, methods, taken, wanted.framework)


@dataclass(frozen=True, slots=True)
class EstimatorModel:
    """Estimators work row by row, so they always batch."""

    estimator: Any
    features: Features
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    framework: str
    refusals: Refusals
    shortcuts: Mapping[str, linear_fast_path.Method]
    strict: bool = True
    batch: bool = True

    @classmethod
    def warm_up(cls, estimator: Any, methods: tuple[str, ...], taken: Features, framework: str) -> EstimatorModel:
        """Call each method with a synthetic row: this loads lazy parts and reveals the outputs' form."""
        outputs = tuple(_observe_output(estimator, method, taken) for method in methods)
        refusals = nonfinite_probe.probe(getattr(estimator, methods[0]), taken)
        width = taken.width if isinstance(taken, features.Matrix) else None
        return cls(
            estimator, taken, taken.inputs, outputs, framework, refusals, linear_fast_path.shortcuts(estimator, width)
        )

    @property
    def refuses(self) -> frozenset[str]:
        return self.refusals.everywhere

    @property
    def table(self) -> TensorSpec | None:
        return self.features.table

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = self.features.of(inputs)
        methods = outputs or (self.outputs[0].name,)
        if len(rows):
            if self.refusals.left:
                self.refusals.check(self.features, rows)
            return {method: _to_array(self._find_method(method)(rows)) for method in methods}
        # Most estimators reject empty input.
        row = self.features.dummy()
        return {method: _to_array(getattr(self.estimator, method)(row))[:0] for method in methods}

    def close(self) -> None:
        pass

    def _find_method(self, name: str) -> linear_fast_path.Method:
        method: linear_fast_path.Method = self.shortcuts.get(name) or getattr(self.estimator, name)
        return method


def _choose_features(estimator: Any, method: str, declared: tuple[TensorSpec, ...]) -> Features:
    """Choose an array where that is enough; a DataFrame for columns that are selected by name or are not numbers."""
    found = columns.columns_of(estimator)
    names, width = columns.names_of(estimator), columns.width_of(estimator)
    if width is None:
        return features.Texts() if found.text else features.Matrix(None)
    if names and [spec.name for spec in declared] == names and names != [features.INPUT]:
        fitted = tuple(_declare_column(spec, found.examples.get(at)) for at, spec in enumerate(declared))
        return _make_frame(fitted, apart=True)
    titles = names or [f"x{place}" for place in range(width)]
    fitted = tuple(_make_column(name, found.examples.get(place)) for place, name in enumerate(titles))
    if any(column.datatype != "FP64" for column in fitted):
        return _make_frame(fitted, apart=True) if names else features.Objects(fitted)
    if found.by_name:
        return _make_frame(fitted, apart=False)
    return _choose_by_trial(
        estimator, method, features.Matrix(width), features.DataFrameRows(fitted, apart=False) if names else None
    )


def _choose_by_trial(estimator: Any, method: str, matrix: Features, frame: Features | None) -> Features:
    """Choose the array unless only the DataFrame works: user code may select columns by name."""
    if frame is None or _works(estimator, method, matrix) or not _works(estimator, method, frame):
        return matrix
    return frame


def _make_frame(fitted: tuple[FittedColumn, ...], *, apart: bool) -> Features:
    features.demand_pandas()
    return features.DataFrameRows(fitted, apart)


def _make_column(name: str, example: Any) -> FittedColumn:
    if example is None:
        return FittedColumn(name)
    if isinstance(example, str):
        return FittedColumn(name, "BYTES", example)
    return FittedColumn(name, "BOOL" if isinstance(example, bool) else "FP64", example)


def _declare_column(spec: TensorSpec, example: Any) -> FittedColumn:
    """Known facts about a column win over its declaration; a later check compares the two."""
    if example is not None:
        return _make_column(spec.name, example)
    return FittedColumn(spec.name, spec.datatype, {"BYTES": "", "BOOL": False}.get(spec.datatype, 0.0))


def _works(estimator: Any, method: str, taken: Features) -> bool:
    try:
        getattr(estimator, method)(taken.dummy())
    except Exception:  # noqa: BLE001 - this only probes; the warm-up reports errors
        return False
    return True


def _limit_jobs(estimator: Any) -> None:
    """Cap the threads of a model saved with more than allowed: `n_jobs=-1` means all cores."""
    most = threads.thread_limit(os.environ)
    parameters = getattr(estimator, "get_params", None)
    if most is None or not callable(parameters):
        return
    try:
        jobs = {name: value for name, value in parameters().items() if name.rpartition("__")[2] == "n_jobs"}
        limited = {name: most for name, value in jobs.items() if isinstance(value, int) and not 0 < value <= most}
        if limited:
            estimator.set_params(**limited)
    except Exception as error:  # noqa: BLE001 - a foreign estimator may fail at this, and can still be served
        log.warning("n_jobs keeps its saved value: %s: %s", type(error).__name__, error)


def _to_array(value: Any) -> Array:
    """Return an array of a supported type: sparse becomes dense, all integers become 64-bit."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    # a classifier of several targets returns a list, one array per target
    array = np.stack(value, axis=1) if isinstance(value, list) else np.asarray(value)
    return array.astype(np.int64) if array.dtype.kind in "iu" and array.dtype != np.uint64 else array


def _observe_output(estimator: Any, method: str, taken: Features) -> TensorSpec:
    try:
        array = _to_array(getattr(estimator, method)(taken.dummy()))
        kind, _ = tensors.as_datatype(array)
    except Exception as error:  # noqa: BLE001 - a synthetic row may be invalid input; the model may still serve
        log.warning("%s of a synthetic row: %s: %s", method, type(error).__name__, error)
        return _guess_spec(estimator, method)
    return TensorSpec(method, kind.name, (-1, *array.shape[1:]))


def _guess_spec(estimator: Any, method: str) -> TensorSpec:
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray):
        return TensorSpec(method, "FP64", (-1,) if method == "predict" else (-1, -1))
    if method == "predict":
        return TensorSpec(method, tensors.as_datatype(_to_array(classes))[0].name, (-1,))
    return TensorSpec(method, "FP64", (-1, len(classes) if method == "predict_proba" else -1))

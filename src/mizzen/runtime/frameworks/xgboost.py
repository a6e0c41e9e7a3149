"""XGBoost models: JSON, UBJSON and `.model` files, and pickles.

A file that XGBClassifier or a similar estimator wrote says so, and is served as that estimator: class labels, and
`predict_proba`. A plain Booster returns what `Booster.predict` returns.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from mizzen import frameworks
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import estimator
from mizzen.runtime.estimators.features import INPUT
from mizzen.runtime.estimators.nonfinite_probe import demand_small
from mizzen.runtime.estimators.warmup import try_call
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, artifact
from mizzen.runtime.limits import install_hints, threads
from mizzen.runtime.signature import TensorSpec

_WRAPPERS = {"classifier": "XGBClassifier", "regressor": "XGBRegressor", "ranker": "XGBRanker"}


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    if wanted.entrypoint.endswith(frameworks.PICKLES):
        found = pickles.load(wanted, folder)
    else:
        found = _read(artifact(folder, wanted.entrypoint))
    if not isinstance(found, xgboost.Booster):
        return estimator.to_model(found, wanted)
    most = threads.thread_limit(os.environ)
    if most is not None:
        found.set_param({"nthread": most})
    return BoosterModel.warm_up(found)


@dataclass(frozen=True, slots=True)
class BoosterModel:
    booster: Any
    names: list[str] | None
    types: list[str] | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset()
    framework: str = "xgboost"
    strict: bool = True
    batch: bool = True

    @classmethod
    def warm_up(cls, booster: Any) -> BoosterModel:
        inputs = (TensorSpec(INPUT, "FP64", (-1, booster.num_features())),)
        model = cls(booster, booster.feature_names, booster.feature_types, inputs, ())
        guess = TensorSpec("predict", "FP32", (-1,))
        return cls(booster, model.names, model.types, inputs, try_call(model, {INPUT: model.dummy()}, (guess,)))

    def dummy(self) -> Array:
        return np.zeros((1, self.inputs[0].shape[1]))

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs[INPUT]
        demand_small(rows)
        taken = rows if len(rows) else self.dummy()
        matrix = xgboost.DMatrix(taken, feature_names=self.names, feature_types=self.types)
        return {"predict": self.booster.predict(matrix)[: len(rows)]}

    def close(self) -> None:
        pass


def _read(file: Path) -> Any:
    """Return the Booster, or the estimator that wrote the file."""
    try:
        booster = xgboost.Booster()
        booster.load_model(file)
        said = json.loads(booster.attr("scikit_learn") or "{}")
    except (xgboost.core.XGBoostError, ValueError, TypeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise LoadError(f"'{file.name}' could not be read by XGBoost: {type(error).__name__}: {first}") from error
    name = _WRAPPERS.get(str(said.get("_estimator_type")))
    if name is None:
        return booster
    try:
        wrapper = getattr(xgboost, name)()
    except ImportError as error:
        advice = install_hints.advice("sklearn", os.environ)
        raise LoadError(f"'{file.name}' is of an {name}, which needs scikit-learn: {advice}") from error
    wrapper.load_model(file)
    most = threads.thread_limit(os.environ)
    if most is not None:
        wrapper.set_params(n_jobs=most)
    return wrapper

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

import xgboost

from mizzen.protocol.tensors import Array
from mizzen.runtime.content import xgboost_models
from mizzen.runtime.estimators import estimator
from mizzen.runtime.estimators.booster import BoosterModel
from mizzen.runtime.estimators.features import INPUT
from mizzen.runtime.estimators.nonfinite_probe import demand_small
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, first_line
from mizzen.runtime.limits import install_hints, threads

_WRAPPERS = {"classifier": "XGBClassifier", "regressor": "XGBRegressor", "ranker": "XGBRanker"}


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    found = pickles.load_or_read(wanted, folder, xgboost_models.inspect, _read)
    if not isinstance(found, xgboost.Booster):
        return estimator.to_model(found, wanted)
    most = threads.thread_limit(os.environ)
    if most is not None:
        found.set_param({"nthread": most})
    names, types = found.feature_names, found.feature_types
    return XgboostModel.warm_up(found, "xgboost", found.num_features(), "FP32", names=names, types=types)


@dataclass(frozen=True, slots=True)
class XgboostModel(BoosterModel):
    names: list[str] | None = None
    types: list[str] | None = None

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs[INPUT]
        demand_small(rows)
        matrix = xgboost.DMatrix(
            rows if len(rows) else self.dummy(), feature_names=self.names, feature_types=self.types
        )
        return {"predict": self.booster.predict(matrix)[: len(rows)]}


def _read(file: Path, content: bytes | None) -> Any:
    """Return the Booster, or the estimator that wrote the file."""
    source = file if content is None else bytearray(content)
    try:
        booster = xgboost.Booster()
        booster.load_model(source)
        attributes = json.loads(booster.attr("scikit_learn") or "{}")
    except (xgboost.core.XGBoostError, ValueError, TypeError) as error:
        raise LoadError(f"'{file.name}' could not be read by XGBoost: {first_line(error)}") from error
    name = _WRAPPERS.get(str(attributes.get("_estimator_type")))
    if name is None:
        return booster
    try:
        wrapper = getattr(xgboost, name)()
    except ImportError as error:
        advice = install_hints.advice("sklearn", os.environ)
        raise LoadError(f"'{file.name}' is an {name}, which needs scikit-learn: {advice}") from error
    wrapper.load_model(source)
    most = threads.thread_limit(os.environ)
    if most is not None:
        wrapper.set_params(n_jobs=most)
    return wrapper

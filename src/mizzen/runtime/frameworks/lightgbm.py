"""LightGBM models: text files and pickles. A Booster returns what `Booster.predict` returns: for classes,
probabilities."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.content import lightgbm_models
from mizzen.runtime.estimators import estimator
from mizzen.runtime.estimators.booster import BoosterModel
from mizzen.runtime.estimators.features import INPUT
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest
from mizzen.runtime.limits import threads


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    found = pickles.load_or_read(wanted, folder, lightgbm_models.inspect, _read)
    if not isinstance(found, lightgbm.Booster):
        return estimator.to_model(found, wanted)
    most = threads.thread_limit(os.environ) or 0
    return LightgbmModel.warm_up(found, "lightgbm", found.num_feature(), "FP64", threads=most)


@dataclass(frozen=True, slots=True)
class LightgbmModel(BoosterModel):
    threads: int = 0
    """0: LightGBM's default."""

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs[INPUT]
        values = self.booster.predict(rows if len(rows) else self.dummy(), num_threads=self.threads)
        return {"predict": np.asarray(values)[: len(rows)]}


def _read(file: Path, content: bytes | None) -> Any:
    try:
        return lightgbm.Booster(model_file=file) if content is None else lightgbm.Booster(model_str=content.decode())
    except (lightgbm.basic.LightGBMError, ValueError, TypeError) as error:
        raise LoadError(f"'{file.name}' could not be read by LightGBM: {type(error).__name__}: {error}") from error

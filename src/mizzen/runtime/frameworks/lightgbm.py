"""LightGBM models: text files and pickles. A Booster returns what `Booster.predict` returns: for classes,
probabilities."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from mizzen import frameworks
from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import estimator
from mizzen.runtime.estimators.features import INPUT
from mizzen.runtime.estimators.warmup import try_call
from mizzen.runtime.frameworks import pickles
from mizzen.runtime.frameworks.model import LoadedModel, LoadError, LoadRequest, artifact
from mizzen.runtime.limits import threads
from mizzen.runtime.signature import TensorSpec


def load(wanted: LoadRequest, folder: Path) -> LoadedModel:
    if wanted.entrypoint.endswith(frameworks.PICKLES):
        found = pickles.load(wanted, folder)
    else:
        found = _read(artifact(folder, wanted.entrypoint))
    if not isinstance(found, lightgbm.Booster):
        return estimator.to_model(found, wanted)
    return BoosterModel.warm_up(found)


@dataclass(frozen=True, slots=True)
class BoosterModel:
    booster: Any
    threads: int
    """0: LightGBM's default."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset()
    framework: str = "lightgbm"
    strict: bool = True
    batch: bool = True

    @classmethod
    def warm_up(cls, booster: Any) -> BoosterModel:
        most = threads.thread_limit(os.environ) or 0
        inputs = (TensorSpec(INPUT, "FP64", (-1, booster.num_feature())),)
        model = cls(booster, most, inputs, ())
        guess = TensorSpec("predict", "FP64", (-1,))
        return cls(booster, most, inputs, try_call(model, {INPUT: model.dummy()}, (guess,)))

    def dummy(self) -> Array:
        return np.zeros((1, self.inputs[0].shape[1]))

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        rows = inputs[INPUT]
        given = self.booster.predict(rows if len(rows) else self.dummy(), num_threads=self.threads)
        return {"predict": np.asarray(given)[: len(rows)]}

    def close(self) -> None:
        pass


def _read(file: Path) -> Any:
    try:
        return lightgbm.Booster(model_file=file)
    except (lightgbm.basic.LightGBMError, ValueError, TypeError) as error:
        raise LoadError(f"'{file.name}' could not be read by LightGBM: {type(error).__name__}: {error}") from error

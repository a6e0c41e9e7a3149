"""The common part of plain Boosters of LightGBM and XGBoost: a matrix of numbers in, the output `predict` out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators.features import INPUT
from mizzen.runtime.estimators.warmup import try_call
from mizzen.runtime.frameworks.model import PlainModel
from mizzen.runtime.signature import TensorSpec

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python that a runtime supports


@dataclass(frozen=True, slots=True)
class BoosterModel(PlainModel):
    booster: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    framework: str
    strict: bool = True
    batch: bool = True

    @classmethod
    def warm_up(cls, booster: Any, framework: str, width: int, datatype: str, **own: Any) -> Self:
        """`datatype`: of its output, if a call with one row does not show it. `own`: the fields of the subclass."""
        model = cls(booster, (TensorSpec(INPUT, "FP64", (-1, width)),), (), framework, **own)
        guess = TensorSpec("predict", datatype, (-1,))
        return replace(model, outputs=try_call(model, {INPUT: model.dummy()}, (guess,)))

    def dummy(self) -> Array:
        return np.zeros((1, self.inputs[0].shape[1]))

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        raise NotImplementedError

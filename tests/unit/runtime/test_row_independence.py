"""Requests share a call only where it was seen that rows do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators import row_independence
from mizzen.runtime.signature import TensorSpec


@dataclass(frozen=True, slots=True)
class Computes:
    function: Callable[[Array], Array]
    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", "FP32", (-1, 4)),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("y", "FP32", (-1, -1)),)
    batch: bool = False
    table: TensorSpec | None = None
    refuses: frozenset[str] = frozenset()
    framework: str = "numpy"
    strict: bool = True

    def call(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> dict[str, Array]:
        return {"y": self.function(inputs["x"])}

    def close(self) -> None:
        pass


def three_steps(x: Array) -> Array:
    if len(x) < 3:
        raise ValueError("a sequence has three steps at least")
    return x


def as_wide_as_its_values(x: Array) -> Array:
    return np.zeros((len(x), int(np.abs(x).max() * 100)), np.float32)


@pytest.mark.parametrize(
    ("function", "shared"),
    [
        (lambda x: x * 2, True), (lambda x: x * np.nan, True), (lambda x: x > 0, True),
        (lambda x: np.cumsum(x, 0), False), (three_steps, False), (as_wide_as_its_values, False),
    ],
)  # fmt: skip
def test_calls_are_shared_where_that_was_tried_out(function: Callable[[Array], Array], shared: bool) -> None:
    assert row_independence.rows_are_independent(Computes(function)) is shared

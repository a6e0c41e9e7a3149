"""Whether an estimator takes NaN and Infinity: found by asking it, since pipelines do not tell it of their steps.

A model that takes none of them raises, and whoever sent them would read that the model failed. Known beforehand, it is
their fault, and they are told before the model is called.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MOST_COLUMNS = 256
"""Each is tried by itself, because a step may fill in one and hand on another. A wider model is taken at its word."""


def refused(predict: Callable[[Any], Any], width: int | None) -> frozenset[str]:
    """Which of "NaN" and "Infinity" it refuses in every column."""
    if width is None or not 0 < width <= MOST_COLUMNS:
        return frozenset()
    return frozenset(
        word
        for word, value in (("NaN", math.nan), ("Infinity", math.inf))
        if not any(_takes(predict, width, column, value) for column in range(width))
    )


def _takes(predict: Callable[[Any], Any], width: int, column: int, value: float) -> bool:
    row = np.zeros((1, width))
    row[0, column] = value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict(row)
    except Exception:  # noqa: BLE001 - this only asks
        return False
    return True

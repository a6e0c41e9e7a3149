"""Whether an estimator takes NaN, Infinity and numbers beyond FP32: found by asking it, since pipelines do not tell it
of their steps.

A model that takes none of them raises, and whoever sent them would read that the model failed. Known beforehand, it is
their fault, and they are told before the model is called.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators.features import Features, Matrix
from mizzen.runtime.frameworks.model import BadInput
from mizzen.runtime.inputs import INSTEAD

MOST_COLUMNS = 256
"""Each is tried by itself, because a step may fill in one and hand on another. A wider model is taken at its word."""
LARGEST = float(np.finfo(np.float32).max)
"""Trees of scikit-learn, and XGBoost, compute with FP32."""

_LARGE = f"a number beyond {LARGEST:.1e}"
_WORDS = {"NaN": math.nan, "Infinity": math.inf, _LARGE: 1e300}
_INSTEAD = {_LARGE: "send a smaller one"}


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a model does not take, by word, and in which of its columns."""

    places: Mapping[str, tuple[int, ...]]
    everywhere: frozenset[str]
    """"NaN" and "Infinity", where it refuses them in every column that holds numbers: seen as bytes are read."""
    left: bool
    """There is more to find than what is found as bytes are read."""

    def check(self, taken: Features, rows: Any) -> None:
        """BadInput names the first column that holds what it must not."""
        if isinstance(taken, Matrix) and bool((np.abs(rows) <= LARGEST).all()):
            return
        for word, places in self.places.items():
            for place in places:
                if _holds(word, taken.numbers_of(rows, place)):
                    instead = _INSTEAD.get(word, INSTEAD)
                    raise BadInput(
                        f"column {taken.title(place)} holds {word}, which this model does not take there; {instead}"
                    )


def found(predict: Callable[[Any], Any], taken: Features) -> Refusals:
    """By asking for a made-up row with each of them in each column."""
    numbers = taken.numbers
    if not 0 < len(numbers) <= MOST_COLUMNS or not _takes(predict, taken.dummy()):
        return Refusals({}, frozenset(), left=False)
    places = {word: _refusing(predict, taken, value) for word, value in _WORDS.items()}
    everywhere = frozenset(word for word in ("NaN", "Infinity") if len(places[word]) == len(numbers))
    # Of texts it is known only when they are read as numbers.
    left = any(
        refused and (word not in everywhere or not isinstance(taken, Matrix)) for word, refused in places.items()
    )
    return Refusals(places, everywhere, left)


def demand_small(rows: Array) -> None:
    """BadInput for what FP32 cannot hold. NaN may pass."""
    if bool((np.abs(rows) > LARGEST).any()):
        raise BadInput(f"input holds Infinity or {_LARGE}, which this model does not take; {_INSTEAD[_LARGE]}")


def _refusing(predict: Callable[[Any], Any], taken: Features, value: float) -> tuple[int, ...]:
    """The places of columns in which it does. One that takes it in all of them at once is asked no more."""
    if _takes(predict, taken.dummy_with(taken.numbers, value)):
        return ()
    return tuple(place for place in taken.numbers if not _takes(predict, taken.dummy_with((place,), value)))


def _takes(predict: Callable[[Any], Any], row: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict(row)
    except Exception:  # noqa: BLE001 - this only asks
        return False
    return True


def _holds(word: str, values: Array) -> bool:
    if word == "NaN":
        return bool(np.isnan(values).any())
    return bool((np.isinf(values) if word == "Infinity" else np.abs(values) > LARGEST).any())

"""Probing whether an estimator accepts NaN, Infinity and numbers beyond FP32: pipelines do not declare it.

A model that rejects such values raises, and the caller would read that the model failed. With this known in advance,
the runtime rejects the request as invalid before it calls the model.
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
"""Up to this many columns are probed one by one, because a step may fill in one and pass on another. A wider model is
not probed."""
LARGEST = float(np.finfo(np.float32).max)
"""Trees of scikit-learn, and XGBoost, compute with FP32."""

_LARGE = f"a number beyond {LARGEST:.1e}"
_WORDS = {"NaN": math.nan, "Infinity": math.inf, _LARGE: 1e300}
_INSTEAD = {_LARGE: "send a smaller one"}


@dataclass(frozen=True, slots=True)
class Refusals:
    """The values a model rejects, by name, and in which of its columns."""

    places: Mapping[str, tuple[int, ...]]
    everywhere: frozenset[str]
    """"NaN" and "Infinity", if the model rejects them in every numeric column: checked while bytes are decoded."""
    left: bool
    """Some checks remain after decoding."""

    def check(self, taken: Features, rows: Any) -> None:
        """Raise BadInput, which names the first column that holds a rejected value."""
        if isinstance(taken, Matrix) and bool((np.abs(rows) <= LARGEST).all()):
            return
        for word, places in self.places.items():
            for place in places:
                if _holds(word, taken.numbers_of(rows, place)):
                    instead = _INSTEAD.get(word, INSTEAD)
                    raise BadInput(
                        f"column {taken.title(place)} holds {word}, which this model does not accept there; {instead}"
                    )


def probe(predict: Callable[[Any], Any], taken: Features) -> Refusals:
    """Probe with a synthetic row, with each value in each column."""
    numbers = taken.numbers
    if not 0 < len(numbers) <= MOST_COLUMNS or not _accepts(predict, taken.dummy()):
        return Refusals({}, frozenset(), left=False)
    places = {word: _find_refusing(predict, taken, value) for word, value in _WORDS.items()}
    everywhere = frozenset(word for word in ("NaN", "Infinity") if len(places[word]) == len(numbers))
    # Texts can be checked only after they are parsed as numbers.
    left = any(
        refused and (word not in everywhere or not isinstance(taken, Matrix)) for word, refused in places.items()
    )
    return Refusals(places, everywhere, left)


def demand_small(rows: Array) -> None:
    """Raise BadInput for numbers that FP32 cannot hold. NaN passes."""
    if bool((np.abs(rows) > LARGEST).any()):
        raise BadInput(f"input holds Infinity or {_LARGE}, which this model does not accept; {_INSTEAD[_LARGE]}")


def _find_refusing(predict: Callable[[Any], Any], taken: Features, value: float) -> tuple[int, ...]:
    """Return the indexes of the columns that reject the value. If all columns at once accept it, no further probe is
    made."""
    if _accepts(predict, taken.dummy_with(taken.numbers, value)):
        return ()
    return tuple(place for place in taken.numbers if not _accepts(predict, taken.dummy_with((place,), value)))


def _accepts(predict: Callable[[Any], Any], row: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict(row)
    except Exception:  # noqa: BLE001 - this only probes
        return False
    return True


def _holds(word: str, values: Array) -> bool:
    if word == "NaN":
        return bool(np.isnan(values).any())
    return bool((np.isinf(values) if word == "Infinity" else np.abs(values) > LARGEST).any())

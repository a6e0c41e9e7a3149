"""Checking whether requests may share a call: an open first size may count rows, or be the length of one sequence."""

from __future__ import annotations

import logging

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators.warmup import example_row
from mizzen.runtime.frameworks.model import LoadedModel

log = logging.getLogger("mizzen.runtime")


def sizes_are_open(model: LoadedModel) -> bool:
    """Return whether the first size of every input and output is open."""
    specs = (*model.inputs, *model.outputs)
    return bool(model.inputs and model.outputs) and all(spec.shape[:1] == (-1,) for spec in specs)


def rows_are_independent(model: LoadedModel) -> bool:
    """Return whether two rows together give the same as each alone. If that cannot be tried, the answer is no."""
    random = np.random.default_rng(0)
    first, second = (
        {name: _random_like(random, array) for name, array in example_row(model.inputs).items()} for _ in range(2)
    )
    try:
        alone = [model.call(row, ()) for row in (first, second)]
        both = model.call({name: np.concatenate([first[name], second[name]]) for name in first}, ())
        apart = {name: np.concatenate([given[name] for given in alone]) for name in both}
    except Exception as error:  # noqa: BLE001 - synthetic rows may be invalid, and sizes may depend on values
        log.warning("two synthetic rows together: %s: %s: requests do not share calls", type(error).__name__, error)
        return False
    for name, array in both.items():
        if not _are_same(array, apart[name]):
            log.warning("output '%s' of a row depends on the other rows of a call: requests do not share calls", name)
            return False
    return True


def _are_same(one: Array, other: Array) -> bool:
    if one.shape != other.shape or one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.allclose(one, other, 1e-3, 1e-4, equal_nan=True)


def _random_like(random: np.random.Generator, array: Array) -> Array:
    if array.dtype == object:
        return array
    values = random.normal(size=array.shape) if array.dtype.kind == "f" else random.integers(0, 2, array.shape)
    return np.asarray(values).astype(array.dtype)

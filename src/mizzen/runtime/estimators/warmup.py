"""Warm-up: one call before the model is ready, which reveals its outputs and loads lazy parts."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.signature import TensorSpec

_EXAMPLES: dict[str, Any] = {"BYTES": "", "BOOL": False}

log = logging.getLogger("mizzen.runtime")


def try_call(model: LoadedModel, row: dict[str, Array], guesses: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Return the outputs that a call with one row shows; the guesses if it fails: a synthetic row may be invalid
    input."""
    try:
        given = model.call(row, tuple(guess.name for guess in guesses))
        kinds = {name: tensors.as_datatype(array)[0].name for name, array in given.items()}
    except Exception as error:  # noqa: BLE001 - the model's code may raise anything
        log.warning("warm-up with a synthetic row: %s: %s", type(error).__name__, error)
        return guesses
    return tuple(TensorSpec(name, kinds[name], (-1, *given[name].shape[1:])) for name in kinds)


def warm_up(model: LoadedModel) -> None:
    """Call the model once with a synthetic row, if its inputs are declared. A failure proves nothing."""
    if not model.inputs:
        return
    try:
        model.call(example_row(model.inputs), ())
    except BaseException as error:  # noqa: BLE001 - as in any other call of it
        log.warning("warm-up with a synthetic row: %s: %s", type(error).__name__, error)


def example_row(inputs: tuple[TensorSpec, ...]) -> dict[str, Array]:
    """Return zeros and empty texts; open sizes become 1."""
    row = {}
    for spec in inputs:
        shape = tuple(1 if size == -1 else size for size in spec.shape)
        dtype = tensors.DATATYPES[spec.datatype].dtype
        row[spec.name] = np.full(shape, _EXAMPLES.get(spec.datatype, 0), dtype)
    return row

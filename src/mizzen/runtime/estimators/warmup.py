"""What a model's outputs look like, found out by calling it once before it is ready: that also loads what is lazy."""

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
    """The outputs as a call with one row shows them; as guessed, when it fails: a made-up row may be no valid input."""
    try:
        given = model.call(row, tuple(guess.name for guess in guesses))
        kinds = {name: tensors.as_datatype(array)[0].name for name, array in given.items()}
    except Exception as error:  # noqa: BLE001 - the model's code may raise anything
        log.warning("warm-up with a made-up row: %s: %s", type(error).__name__, error)
        return guesses
    return tuple(TensorSpec(name, kinds[name], (-1, *given[name].shape[1:])) for name in kinds)


def warm_up(model: LoadedModel) -> None:
    """One call with a made-up row, where the inputs are declared. That it fails says nothing for certain."""
    if not model.inputs:
        return
    try:
        model.call(example_row(model.inputs), ())
    except BaseException as error:  # noqa: BLE001 - as in any other call of it
        log.warning("warm-up with a made-up row: %s: %s", type(error).__name__, error)


def example_row(inputs: tuple[TensorSpec, ...]) -> dict[str, Array]:
    """Zeros and empty texts; where any size goes, 1."""
    row = {}
    for spec in inputs:
        shape = tuple(1 if size == -1 else size for size in spec.shape)
        dtype = tensors.DATATYPES[spec.datatype].dtype
        row[spec.name] = np.full(shape, _EXAMPLES.get(spec.datatype, 0), dtype)
    return row

"""Converting Python data to V2 requests, and V2 responses to arrays.

It accepts nested lists, numbers, strings, numpy arrays, DataFrames (anything with `to_numpy` and `columns`), lists of
dicts from column to value, and dicts from input name to any of these. The model's signature supplies names and
datatypes that the caller did not give.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mizzen import errors
from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array

UNNAMED: Final = "input"
"""Name of the only input if neither caller nor model gives one."""


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An input or output as a model declares it. -1 in a shape means any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The response of a model: one array per output. BYTES become arrays of str."""

    model: str
    model_version: str
    id: str
    outputs: Mapping[str, Array] = field(default_factory=dict)

    @property
    def array(self) -> Array:
        """The only output. Raises BadRequest if there are several."""
        if len(self.outputs) != 1:
            names = ", ".join(self.outputs) or "none"
            raise errors.BadRequest(
                f"'{self.model}' returned {len(self.outputs)} outputs: {names}",
                hint="take one: prediction.outputs[name]",
            )
        return next(iter(self.outputs.values()))


def inputs_of(metadata: Mapping[str, Any]) -> tuple[ModelTensor, ...]:
    """Return the inputs named in V2 model metadata."""
    return tuple(
        ModelTensor(str(item["name"]), str(item["datatype"]), tuple(item["shape"]))
        for item in metadata.get("inputs") or ()
    )


def is_v2(inputs: Any) -> bool:
    """Return whether this is already the body of a V2 request."""
    if not isinstance(inputs, Mapping) or not isinstance(inputs.get("inputs"), list):
        return False
    return all(
        isinstance(item, Mapping) and {"name", "datatype", "shape", "data"} <= set(item) for item in inputs["inputs"]
    )


def encode(inputs: Any, signature: Sequence[ModelTensor] = ()) -> list[dict[str, Any]]:
    """Return the `inputs` of a V2 request. Raises BadRequest if they cannot be sent, or their names are not the
    model's."""
    named = _name_inputs(inputs, signature)
    known = {tensor.name: tensor for tensor in signature}
    unknown = [name for name in named if known and name not in known]
    if unknown:
        raise errors.BadRequest(
            f"the model has no input '{unknown[0]}'", hint="inputs are " + ", ".join(f"'{name}'" for name in known)
        )
    return [_encode_tensor(name, value, known.get(name)) for name, value in named.items()]


def decode(answer: Mapping[str, Any]) -> Prediction:
    return Prediction(
        model=str(answer.get("model_name", "")),
        model_version=str(answer.get("model_version", "")),
        id=str(answer.get("id", "")),
        outputs={str(output["name"]): array_of(output) for output in answer.get("outputs") or ()},
    )


def array_of(tensor: Mapping[str, Any]) -> Array:
    """Convert one V2 tensor with JSON data, flat or nested, to an array."""
    dtype = tensors.datatype_named(tensor["datatype"]).dtype
    return np.array(tensor["data"], dtype).reshape(tuple(tensor["shape"]))


def _name_inputs(inputs: Any, signature: Sequence[ModelTensor]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return {str(name): value for name, value in inputs.items()}
    if hasattr(inputs, "to_numpy") and hasattr(inputs, "columns"):
        return _split_columns(inputs, signature)
    if isinstance(inputs, list | tuple) and inputs and all(isinstance(row, Mapping) for row in inputs):
        return _join_records(inputs)
    if not signature:
        return {UNNAMED: inputs}
    if len(signature) == 1:
        return {signature[0].name: inputs}
    table = _to_array(inputs, signature[0].name)
    if table.ndim == 2 and table.shape[1] == len(signature):
        return {tensor.name: table[:, i] for i, tensor in enumerate(signature)}
    names = ", ".join(f"'{tensor.name}'" for tensor in signature)
    raise errors.BadRequest(f"the model takes {len(signature)} inputs: {names}", hint="send a dict of name to values")


def _split_columns(frame: Any, signature: Sequence[ModelTensor]) -> dict[str, Any]:
    """Convert a DataFrame: one tensor if the model takes one, else one per column."""
    names = [str(column) for column in frame.columns]
    if len(signature) == 1 and signature[0].name not in names:
        return {signature[0].name: frame.to_numpy()}
    return {name: frame[column].to_numpy() for name, column in zip(names, frame.columns, strict=True)}


def _join_records(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Convert rows that are dicts from column to value."""
    for row in rows:
        if row.keys() != rows[0].keys():
            raise errors.BadRequest(
                f"all rows must have the same columns; one has {', '.join(map(str, row)) or 'none'}",
                hint="the first has " + (", ".join(map(str, rows[0])) or "none"),
            )
    return {str(name): [row[name] for row in rows] for name in rows[0]}


def _encode_tensor(name: str, value: Any, wanted: ModelTensor | None) -> dict[str, Any]:
    given = _to_rows(_to_array(value, name), wanted)
    if wanted is not None:
        _refuse_words(given, wanted)
    try:
        datatype, array = tensors.as_datatype(given)
    except ValueError as error:
        raise errors.BadRequest(f"input '{name}' is {error}") from error
    if wanted is not None and wanted.datatype != datatype.name:
        datatype, array = _cast(array, datatype, wanted)
    if not tensors.is_finite(array):
        raise errors.BadRequest(f"input '{name}' contains NaN or infinity, which JSON cannot represent")
    return {
        "name": name, "datatype": datatype.name, "shape": list(array.shape), "data": array.ravel().tolist(),
    }  # fmt: skip


def _refuse_words(array: Array, wanted: ModelTensor) -> None:
    """If the model takes numbers, name the first value that is not one: for a long table the type alone says little."""
    if array.dtype.kind not in "USO" or not tensors.datatype_named(wanted.datatype).number:
        return
    for element in array.reshape(-1).tolist():
        if not isinstance(element, int | float | np.number):
            shown = json.dumps(element) if element is None else repr(element)
            raise errors.BadRequest(f"input '{wanted.name}' must be {wanted.datatype}: {shown[:100]} is not a number")


def _to_array(value: Any, name: str) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise errors.BadRequest(
            f"input '{name}' is not an array: rows must have the same length and hold numbers, strings or booleans"
        ) from error
    if isinstance(value, list | tuple) and array.dtype.kind in "US":
        # numpy turns a mix of numbers and strings into strings; as objects they keep their types, and are rejected.
        array = np.asarray(value, dtype=object)
    return array


def _to_rows(array: Array, wanted: ModelTensor | None) -> Array:
    """A single value is one row; so is a flat row for a model of that width. A column is a column of width 1."""
    if array.ndim == 0:
        array = array.reshape(1)
    if wanted is None or array.ndim != 1 or len(wanted.shape) != 2:
        return array
    width = wanted.shape[1]
    if width == 1:
        return array.reshape(-1, 1)
    return array.reshape(1, -1) if width == array.shape[0] else array


def _cast(array: Array, datatype: tensors.Datatype, wanted: ModelTensor) -> tuple[tensors.Datatype, Array]:
    """Cast to the datatype the model declares, if only precision is lost: digits that its datatype cannot hold."""
    target = tensors.datatype_named(wanted.datatype)
    with np.errstate(all="ignore"):
        fits = "BYTES" not in (datatype.name, target.name)
        cast = array.astype(target.dtype) if fits or not array.size else array
    if array.size and (not fits or not (target.leaf is float or np.array_equal(cast, array))):
        raise errors.BadRequest(f"input '{wanted.name}' must be {target.name}, not {datatype.name}")
    return target, cast

"""Converting the rows of a request to an estimator's input: an array, a DataFrame, or texts.

An array is used wherever that is enough: a DataFrame costs three times as much per call. pandas is imported only for a
model that needs one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mizzen.protocol.tensors import Array
from mizzen.runtime.estimators.columns import FittedColumn
from mizzen.runtime.frameworks.model import BadInput, LoadError
from mizzen.runtime.limits import install_hints
from mizzen.runtime.signature import TensorSpec

INPUT = "input"
"""The name of the one tensor that holds whole rows."""


class Features(Protocol):
    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def table(self) -> TensorSpec | None:
        """A single tensor of whole rows that may replace all of `inputs`."""
        ...

    def of(self, inputs: Mapping[str, Array]) -> Any:
        """Convert to the estimator's input. Raises BadInput if the values cannot be converted."""
        ...

    def dummy(self) -> Any:
        """Return one synthetic row that the estimator should accept."""
        ...

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indexes of columns that may hold NaN and Infinity."""
        ...

    def dummy_with(self, places: Sequence[int], value: float) -> Any:
        """Return the synthetic row with this number in the columns at `places`."""
        ...

    def numbers_of(self, rows: Any, place: int) -> Array:
        """Return the column at `place` of a result of `of`."""
        ...

    def title(self, place: int) -> str:
        """Return the column's name, for messages to callers."""
        ...


@dataclass(frozen=True, slots=True)
class Matrix:
    """Numbers without names."""

    width: int | None
    table: TensorSpec | None = None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(INPUT, "FP64", (-1, -1 if self.width is None else self.width)),)

    def of(self, inputs: Mapping[str, Array]) -> Any:
        return inputs[INPUT]

    def dummy(self) -> Any:
        return np.zeros((1, self.width or 1))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(range(self.width or 0))

    def dummy_with(self, places: Sequence[int], value: float) -> Any:
        row = self.dummy()
        row[0, list(places)] = value
        return row

    def numbers_of(self, rows: Any, place: int) -> Array:
        return np.asarray(rows[:, place])

    def title(self, place: int) -> str:
        return f"{place} of '{INPUT}'"


@dataclass(frozen=True, slots=True)
class Texts:
    """One text per row, for vectorizers."""

    table: TensorSpec | None = None
    inputs: tuple[TensorSpec, ...] = (TensorSpec(INPUT, "BYTES", (-1,)),)

    def of(self, inputs: Mapping[str, Array]) -> Any:
        return decode_text(INPUT, inputs[INPUT])

    numbers: tuple[int, ...] = ()

    def dummy(self) -> Any:
        return np.array(["text"], object)

    def dummy_with(self, places: Sequence[int], value: float) -> Any:
        raise AssertionError("it has no numbers")

    def numbers_of(self, rows: Any, place: int) -> Array:
        raise AssertionError("it has no numbers")

    def title(self, place: int) -> str:
        raise AssertionError("it has no numbers")


@dataclass(frozen=True, slots=True)
class Objects:
    """Rows of texts, some of which may represent numbers, for a model that was fitted without names."""

    columns: tuple[FittedColumn, ...]
    table: TensorSpec | None = None

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(INPUT, "BYTES", (-1, len(self.columns))),)

    def of(self, inputs: Mapping[str, Array]) -> Any:
        taken = np.empty(inputs[INPUT].shape, object)
        for index, (column, values) in enumerate(_split(self.columns, inputs[INPUT])):
            taken[:, index] = to_type(column, values)
        return taken

    def dummy(self) -> Any:
        row = np.empty((1, len(self.columns)), object)
        row[0, :] = [column.example for column in self.columns]
        return row

    @property
    def numbers(self) -> tuple[int, ...]:
        return _number_places(self.columns)

    def dummy_with(self, places: Sequence[int], value: float) -> Any:
        row = self.dummy()
        row[0, list(places)] = value
        return row

    def numbers_of(self, rows: Any, place: int) -> Array:
        return np.asarray(rows[:, place], np.float64)

    def title(self, place: int) -> str:
        return f"{place} of '{INPUT}'"


@dataclass(frozen=True, slots=True)
class DataFrameRows:
    """A DataFrame: one tensor per column if their types differ, else one for all."""

    columns: tuple[FittedColumn, ...]
    apart: bool
    """One tensor per column."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        if not self.apart:
            return (self._rows(),)
        return tuple(TensorSpec(column.name, column.datatype, (-1,)) for column in self.columns)

    @property
    def table(self) -> TensorSpec | None:
        return self._rows() if self.apart and all(column.name != INPUT for column in self.columns) else None

    def of(self, inputs: Mapping[str, Array]) -> Any:
        if INPUT in inputs and (not self.apart or self.table is not None):
            pairs = _split(self.columns, inputs[INPUT])
        else:
            pairs = [(column, inputs[column.name]) for column in self.columns]
        return _make_data_frame({column.name: to_type(column, values) for column, values in pairs})

    def dummy(self) -> Any:
        return _make_data_frame({column.name: np.array([column.example]) for column in self.columns})

    @property
    def numbers(self) -> tuple[int, ...]:
        return _number_places(self.columns)

    def dummy_with(self, places: Sequence[int], value: float) -> Any:
        row = {column.name: np.array([column.example]) for column in self.columns}
        return _make_data_frame(row | {self.columns[place].name: np.array([value]) for place in places})

    def numbers_of(self, rows: Any, place: int) -> Array:
        return np.asarray(rows[self.columns[place].name])

    def title(self, place: int) -> str:
        return f"'{self.columns[place].name}'"

    def _rows(self) -> TensorSpec:
        kinds = {column.datatype for column in self.columns}
        return TensorSpec(INPUT, kinds.pop() if len(kinds) == 1 else "BYTES", (-1, len(self.columns)))


def to_type(column: FittedColumn, values: Array) -> Array:
    """Convert values to the column's type. Numbers and booleans are also parsed from text: a tensor of rows has one
    type."""
    if column.datatype == "BYTES":
        return decode_text(column.name, values)
    if values.dtype != object:
        return values
    if column.datatype == "BOOL":
        return np.array([_parse_bool(column.name, text) for text in decode_text(column.name, values)], bool)
    return np.array([_parse_number(column.name, text) for text in decode_text(column.name, values)], np.float64)


def decode_text(name: str, values: Array) -> Array:
    """Return texts as `str`; raw ones are bytes."""
    if not any(type(value) is bytes for value in values.flat):
        return values
    texts = np.empty(values.size, object)
    try:
        texts[:] = [value.decode() if type(value) is bytes else value for value in values.flat]
    except UnicodeDecodeError:
        raise BadInput(f"input '{name}' holds bytes that are not valid UTF-8") from None
    return texts.reshape(values.shape)


def demand_pandas() -> None:
    """Raise LoadError if a model needs a DataFrame and pandas is not installed."""
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        advice = install_hints.advice("pandas", os.environ)
        raise LoadError(f"this model was fitted on a DataFrame, which needs pandas: {advice} ({error})") from error


def _make_data_frame(columns: dict[str, Array]) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def _number_places(columns: Sequence[FittedColumn]) -> tuple[int, ...]:
    return tuple(place for place, column in enumerate(columns) if column.datatype in ("FP16", "FP32", "FP64"))


def _split(columns: Sequence[FittedColumn], rows: Array) -> list[tuple[FittedColumn, Array]]:
    return [(column, rows[:, index]) for index, column in enumerate(columns)]


def _parse_number(name: str, text: str) -> float:
    if not text:
        return float("nan")  # a missing value, as in a CSV file
    try:
        return float(text.replace("_", "?"))  # 1_000 is a number only to Python
    except ValueError:
        raise BadInput(f"column '{name}' takes numbers, and {text[:50]!r} is not a number") from None


def _parse_bool(name: str, text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise BadInput(f"column '{name}' takes true and false, not {text[:50]!r}") from None

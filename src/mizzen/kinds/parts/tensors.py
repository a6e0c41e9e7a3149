"""Tensors as the inference protocol describes them: the inputs and outputs of models, and values."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field

from mizzen.errors import Fault
from mizzen.kinds.schema.findings import Context, Finding
from mizzen.kinds.schema.resource import Part
from mizzen.kinds.schema.size_limits import MaxItems

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]


class TensorMetadata(Part):
    """One input or output: its name, type and shape."""

    name: str = Field(min_length=1, description="The name of the tensor.")
    datatype: Datatype = Field(description="The type of the elements, as named in the V2 protocol.")
    shape: Annotated[tuple[int, ...], MaxItems(64)] = Field(description="The dimensions; -1 for any size.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for index, size in enumerate(self.shape):
            if size < -1:
                yield Fault(f"{at}.shape[{index}]", f"must be at least -1, not {size}")


class TensorValue(Part):
    """A tensor with its data."""

    name: str = Field(min_length=1, description="The name of the tensor.")
    datatype: Datatype = Field(description="The type of the elements, as named in the V2 protocol.")
    shape: Annotated[tuple[int, ...], MaxItems(64)] = Field(description="The dimensions.")
    data: Annotated[list[Any], MaxItems(2**18)] = Field(description="The elements, flat or nested.")

    def check(self, at: str, context: Context) -> Iterator[Finding]:
        for index, size in enumerate(self.shape):
            if size < 0:
                yield Fault(f"{at}.shape[{index}]", f"must be at least 0, not {size}")
        shaped = context.is_complete(f"{at}.shape") and min(self.shape, default=0) >= 0
        if shaped and (there := _count(self.data)) != prod(self.shape):
            yield Fault(f"{at}.data", f"has {there} elements; shape needs {prod(self.shape)}")
        if context.was_read(at, "datatype") and (strange := next(_not_of(self.datatype, self.data), None)) is not None:
            yield Fault(f"{at}.data", f"{strange} is not of type {self.datatype}")


def flat(data: list[Any]) -> list[Any]:
    """The elements in order."""
    return [value for item in data for value in (flat(item) if isinstance(item, list) else (item,))]


def _count(data: list[Any]) -> int:
    return sum(_count(item) if isinstance(item, list) else 1 for item in data)


def _not_of(datatype: str, data: list[Any]) -> Iterator[str]:
    """Elements of the wrong type, as text."""
    for item in data:
        if isinstance(item, list):
            yield from _not_of(datatype, item)
        elif not _fits(datatype, item):
            yield "null" if item is None else repr(item)[:50]


_MOST = {"FP16": 65504.0, "FP32": 3.4028234663852886e38, "FP64": 1.7976931348623157e308}


def _fits(datatype: str, item: Any) -> bool:
    if datatype == "BOOL":
        return isinstance(item, bool)
    if datatype == "BYTES":
        return isinstance(item, str)
    if isinstance(item, bool):
        return False
    if datatype in _MOST:
        return (
            isinstance(item, int | float) and abs(item) <= _MOST[datatype]
        )  # this also excludes NaN, which JSON cannot represent
    bits = int(datatype.removeprefix("U").removeprefix("INT"))
    least, most = (0, 2**bits) if datatype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return isinstance(item, int) and least <= item < most

"""Tensor elements as plain Python values, without numpy: flat lists, nested lists, and little-endian bytes.

A gateway imports numpy only for large tensors; small ones are also faster without it. Invalid data raises ValueError
with the same messages as `tensors`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from math import prod
from typing import Any

Leaf = type[bool] | type[int] | type[float] | type[str]
"""The type of an element in JSON."""

MAX_RANK = 32

CODES = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i",
    "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
"""Format codes of `struct`. BYTES has none: each element follows its u32 length."""
LEAVES: dict[str, Leaf] = {
    "BYTES": str,
    **{name: bool if name == "BOOL" else float if name.startswith("FP") else int for name in CODES},
}
LEAF_NAMES: dict[Leaf, str] = {bool: "booleans", int: "integers", float: "numbers", str: "strings"}

_PLAIN: tuple[tuple[str, set[type]], ...] = (
    ("INT64", {int}), ("FP64", {int, float}), ("BOOL", {bool}), ("BYTES", {str, bytes}),
)  # fmt: skip
_LENGTH = struct.Struct("<I")
_FEW = 64
"""Up to this many elements, the Struct is cached."""


def flatten(datatype: str | None, value: Any) -> tuple[str, list[int], list[Any]]:
    """Return datatype, shape and elements of evenly nested lists. Without a datatype, it is derived from the elements.

    Does not check that numbers are in the range of the datatype. Raises ValueError.
    """
    shape: list[int] = []
    level = value
    while type(level) is list and len(shape) <= MAX_RANK:
        shape.append(len(level))
        level = level[0] if level else None
    if len(shape) > MAX_RANK:
        raise ValueError(f"a tensor has at most {MAX_RANK} dimensions, not {len(shape)}")
    elements = [value]
    for size in shape:
        if not all(type(one) is list and len(one) == size for one in elements):
            raise ValueError(f"lists must have the same length and depth everywhere; the first ones give shape {shape}")
        elements = list(chain.from_iterable(elements))
    found = set(map(type, elements))
    if list in found:
        raise ValueError(f"lists must have the same length and depth everywhere; the first ones give shape {shape}")
    if datatype is None:
        datatype = next((name for name, types in _PLAIN if found <= types), None)
        if datatype is None:
            raise ValueError("expected only numbers, only booleans or only strings")
        return datatype, shape, elements
    leaf = LEAVES[datatype]
    if not found <= ({float, int} if leaf is float else {leaf, bytes} if leaf is str else {leaf}):
        raise ValueError(f"expected only {LEAF_NAMES[leaf]}")
    return datatype, shape, elements


def nest(elements: Sequence[Any], shape: Sequence[int]) -> Any:
    """Nest elements by the shape; for an empty shape return the element itself."""
    return _nest(iter(elements), shape)


def _nest(elements: Iterator[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return next(elements)
    if len(shape) == 1:
        return list(islice(elements, shape[0]))
    return [_nest(elements, shape[1:]) for _ in range(shape[0])]


def pack(datatype: str, elements: Sequence[Any]) -> bytes:
    """Pack elements as bytes; text becomes UTF-8. Raises ValueError."""
    if datatype == "BYTES":
        return b"".join(pack_each(elements))
    pack = _packers.get((datatype, len(elements))) or _cached_struct(datatype, len(elements)).pack
    try:
        return pack(*elements)
    except (OverflowError, struct.error):
        raise ValueError(f"data holds a number outside the range of {datatype}") from None


def pack_each(elements: Sequence[str | bytes]) -> list[bytes]:
    """Pack each BYTES element behind its length."""
    known = {element: _pack_bytes(element) for element in set(elements)}  # labels repeat
    return [known[element] for element in elements]


def _pack_bytes(element: str | bytes) -> bytes:
    data = element.encode() if isinstance(element, str) else element
    return _LENGTH.pack(len(data)) + data


def unpack(datatype: str, shape: Sequence[int], data: bytes | memoryview) -> Sequence[Any]:
    """Unpack elements from bytes; BYTES elements are `bytes`. Raises ValueError."""
    count = shape[0] if len(shape) == 1 else prod(shape)
    unpack = _unpackers.get((datatype, count))
    try:
        if unpack is not None:  # the most common case
            return unpack(data)
        if datatype == "BYTES":
            return split_lengths(data, count)
        found = _cached_struct(datatype, count).unpack(data)
    except struct.error:
        wanted = struct.calcsize(f"<{count}{CODES[datatype]}")
        raise ValueError(
            f"data must be {wanted} bytes for {datatype} of shape {list(shape)}, not {len(data)}"
        ) from None
    if datatype == "BOOL" and bytes(data).strip(b"\0\1"):
        raise ValueError("data must hold bytes 0 and 1 for BOOL")
    return found


def split_lengths(given: bytes | memoryview, count: int) -> list[bytes]:
    """Split BYTES data into elements, each behind its length. Raises ValueError."""
    if count * _LENGTH.size > len(given):  # before anything is built
        raise ValueError(f"data must be {count} elements, each a 4-byte length and that many bytes")
    data = bytes(given)
    elements: list[bytes] = []
    at = 0
    while at < len(data) and len(elements) < count:
        start = at + _LENGTH.size
        if start > len(data):
            break
        at = start + _LENGTH.unpack_from(data, at)[0]
        elements.append(data[start:at])
    if len(elements) != count or at != len(data):
        raise ValueError(f"data must be {count} elements, each a 4-byte length and that many bytes")
    return elements


_packers: dict[tuple[str, int], Callable[..., bytes]] = {}
_unpackers: dict[tuple[str, int], Callable[[bytes | memoryview], tuple[Any, ...]]] = {}


def _cached_struct(datatype: str, count: int) -> struct.Struct:
    if datatype not in CODES:
        raise ValueError(f"{datatype!r} is not a valid datatype; expected one of {', '.join(LEAVES)}")
    try:
        form = struct.Struct(f"<{count}{CODES[datatype]}")
    except struct.error:
        raise ValueError(f"a tensor cannot have {count} elements") from None
    if count <= _FEW:
        _packers[datatype, count] = form.pack
        if datatype != "BOOL":  # its bytes are checked
            _unpackers[datatype, count] = form.unpack
    return form

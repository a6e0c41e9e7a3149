"""Decoding the requests of a frame to arrays.

A request is `[inputs, outputs]` or `[inputs, outputs, raw]`, an input `[name, datatype, shape, encoding, data]`
(`protocol/frames/framing.py`). Requests of equal form can share one call of the model. A V1 request is decoded before
that: its arrays take the place of data, and its response format that of `raw`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mizzen.protocol import tensors, v1
from mizzen.protocol.frames import framing
from mizzen.protocol.tensors import Array
from mizzen.runtime.outputs import Style

INSTEAD = "send numbers, or serve a pipeline that fills them in, such as with a SimpleImputer for NaN"
"""Advice about NaN and Infinity."""
ARRAY = -1
"""The encoding of data that is already decoded. It never occurs in a frame."""

_DATA = (bytes, memoryview)
"""The type of incoming data: large raw data is a view of its frame."""

Form = tuple[Any, ...]
"""The requested outputs, the style of the response (`outputs`), then the form of each input."""
Targets = Mapping[str, tensors.Datatype]
"""The datatype each declared input is converted to; inputs with other names are not converted."""


def of_v1(body: Any, declared: Sequence[v1.DeclaredInput]) -> list[Any]:
    """Convert a whole V1 body to a request: its arrays in place of data, its format in place of `raw`.

    Raises ValueError, worded for the caller.
    """
    parsed, style = v1.parse_request(body, declared)
    read = []
    for name, datatype, shape, elements in parsed:
        try:
            array = (
                elements.reshape(tuple(shape))
                if isinstance(elements, np.ndarray)
                else tensors.from_elements(datatype, shape, elements)
            )
        except ValueError as error:
            raise ValueError(f"input '{name}': {error}") from None
        read.append([name, datatype, shape, ARRAY, array])
    return [read, None, style]


def form_of(request: Any, *, merge: bool) -> tuple[Form, int]:
    """Return what requests must have in common to be answered together, and the number of rows of this one.

    With `merge` the first dimension of every input counts rows, which may differ between requests. Raises ValueError or
    TypeError if this is not a request, or has no rows to merge by.
    """
    inputs, outputs = request if len(request) == 2 else request[:2]
    style = None if len(request) == 2 else _style(*request[2:])
    forms = []
    rows = -1
    for name, datatype, shape, encoding, data in inputs:
        if (type(data) not in _DATA and encoding != ARRAY) or type(name) is not str:
            raise ValueError("a tensor's name must be a string and its data bytes")
        if not merge:
            forms.append((name, datatype, encoding, *shape))
            continue
        count = shape[0] if shape else None
        if type(count) is not int or count < 0:
            raise ValueError(f"input '{name}' must have a first dimension that counts its rows, not shape {shape}")
        if count != rows and rows >= 0:
            raise ValueError(f"all inputs must have the same number of rows; '{name}' has {count}, not {rows}")
        rows = count
        forms.append((name, datatype, encoding, -1, *shape[1:]))
    if merge and rows < 0:
        raise ValueError("a request must have at least one input")
    if len(forms) > 1 and len({form[0] for form in forms}) < len(forms):
        raise ValueError("an input is given twice")
    wanted = tuple(outputs) if outputs else ()
    if len(set(wanted)) < len(wanted):  # a model may work once per name
        raise ValueError("an output is requested twice")
    return (wanted, style, *forms), rows


def _style(raw: Any, *more: Any) -> Style:
    if more or not (raw is None or raw is True or type(raw) in (list, str)):
        raise ValueError("a request is [inputs, outputs] or [inputs, outputs, raw]")
    return tuple(raw) if type(raw) is list else raw


def decode(request: Any, targets: Targets, refuses: frozenset[str] = frozenset()) -> dict[str, Array]:
    """Return the arrays of one request by name. Raises ValueError, which names the invalid input and the fault.

    Values in `refuses`, "NaN" and "Infinity", are invalid, too. Only bytes can hold them: JSON has no such numbers.
    """
    arrays = {}
    for name, datatype, shape, encoding, data in request[0]:
        if encoding == ARRAY:
            arrays[name] = _convert(name, data, targets)
            continue
        if encoding not in (framing.JSON, framing.RAW):
            raise ValueError(f"input '{name}': unknown encoding {encoding!r}")
        decoder = tensors.decode_raw if encoding == framing.RAW else tensors.decode_json
        try:
            array = decoder(datatype, shape, data)
            if refuses and encoding == framing.RAW:
                _refuse(array, refuses)
        except ValueError as error:
            raise ValueError(f"input '{name}': {error}") from None
        arrays[name] = _convert(name, array, targets)
    return arrays


def decode_joined(
    requests: Sequence[Any], targets: Targets, refuses: frozenset[str] = frozenset()
) -> dict[str, Array] | None:
    """Return the arrays of many requests of one form, rows in the order given, from a single parse of all their
    numbers.

    None if that cannot be done with certainty; the caller must then decode each request by itself.
    """
    arrays = {}
    for position, (name, datatype, shape, encoding, _) in enumerate(requests[0][0]):
        kind = tensors.DATATYPES.get(datatype)
        tail = shape[1:]
        if encoding not in (framing.JSON, framing.RAW) or kind is None or not kind.number:
            return None
        if not all(type(size) is int and size > 0 for size in tail):
            return None
        join = _join_text if encoding == framing.JSON else _join_bytes
        joined = join(requests, position, math.prod(tail) * (1 if encoding == framing.JSON else kind.dtype.itemsize))
        if joined is None:
            return None
        rows = sum([request[0][position][2][0] for request in requests])
        decoder = tensors.decode_json if encoding == framing.JSON else tensors.decode_raw
        try:
            array = decoder(datatype, (rows * math.prod(tail),), joined)
            if refuses and encoding == framing.RAW:
                _refuse(array, refuses)
        except ValueError:
            return None
        arrays[name] = _convert(name, array.reshape(rows, *tail), targets)
    return arrays


def _refuse(array: Array, refuses: frozenset[str]) -> None:
    if tensors.is_finite(array):
        return
    present = {"NaN": np.isnan(array).any(), "Infinity": np.isinf(array).any()}
    if words := [word for word, there in present.items() if there and word in refuses]:
        raise ValueError(f"data holds {' and '.join(words)}, which this model does not accept; {INSTEAD}")


def _join_bytes(requests: Sequence[Any], position: int, width: int) -> bytes | None:
    """Join the raw data of all requests; each must have its right length by itself, for the same reason as in
    `_join_text`."""
    parts = []
    for request in requests:
        tensor = request[0][position]
        if len(tensor[4]) != tensor[2][0] * width:
            return None
        parts.append(tensor[4])
    return b"".join(parts)


def _join_text(requests: Sequence[Any], position: int, width: int) -> bytes | None:
    """Join the flat lists of all requests to one list.

    Hazard: a request with one element too many next to one with one too few would have the right total, and each would
    get rows of the other. So the elements of each text are counted by themselves. In a list of numbers without inner
    lists every comma separates two elements. A text that is not such a list makes the whole unreadable, never shifted.
    """
    parts = []
    for request in requests:
        tensor = request[0][position]
        text = tensor[4]
        if text.count(b",") + 1 != tensor[2][0] * width or text[:1] != b"[" or text[-1:] != b"]":
            return None
        parts.append(text[1:-1])
    joined = b",".join(parts)
    return None if b"[" in joined else b"[" + joined + b"]"


def not_finite(request: Any) -> str | None:
    """Return the name of an input that held NaN or Infinity when it was sent: the model may have changed arrays in
    place."""
    for name, datatype, shape, encoding, data in request[0]:
        if encoding == framing.RAW and not tensors.is_finite(tensors.decode_raw(datatype, shape, data)):
            return str(name)
    return None


def concatenate(decoded: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Concatenate the rows of several decoded requests of one form, in order."""
    return {name: np.concatenate([arrays[name] for arrays in decoded]) for name in decoded[0]}


def _convert(name: str, array: Array, targets: Targets) -> Array:
    target = targets.get(name)
    return array if target is None or array.dtype == target.dtype else array.astype(target.dtype)

"""Requests as they came in a frame, and the arrays they hold.

A request is `[inputs, outputs]`, an input `[name, datatype, shape, encoding, data]` (`protocol/frames.py`). Requests of
equal form can share one call of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mizzen.protocol import frames, tensors
from mizzen.protocol.tensors import Array

Form = tuple[Any, ...]
Targets = Mapping[str, tensors.Datatype]
"""The datatype each declared input is converted to; names that are absent stay as they came."""


def form_of(request: Any, *, merge: bool) -> tuple[Form, int]:
    """What requests must have in common to be answered together, and the number of rows of this one.

    With `merge` the first dimension of every input counts rows, which may differ between requests. ValueError or
    TypeError when this is no request, or has no rows to merge by.
    """
    inputs, outputs = request
    forms = []
    rows = -1
    for name, datatype, shape, encoding, data in inputs:
        if type(data) is not bytes or type(name) is not str:
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
        raise ValueError("an output is asked for twice")
    return (wanted, *forms), rows


def decode(request: Any, targets: Targets) -> dict[str, Array]:
    """The arrays of one request by name. ValueError says which input is wrong, and how."""
    arrays = {}
    for name, datatype, shape, encoding, data in request[0]:
        if encoding not in (frames.JSON, frames.RAW):
            raise ValueError(f"input '{name}': no encoding {encoding!r}")
        decoder = tensors.decode_raw if encoding == frames.RAW else tensors.decode_json
        try:
            array = decoder(datatype, shape, data)
        except ValueError as error:
            raise ValueError(f"input '{name}': {error}") from None
        arrays[name] = _converted(name, array, targets)
    return arrays


def decode_joined(requests: Sequence[Any], targets: Targets) -> dict[str, Array] | None:
    """The arrays of many requests of one form, rows in the order given, from one reading of all their numbers.

    None when that cannot be done with certainty; then each request is to be decoded by itself.
    """
    arrays = {}
    for position, (name, datatype, shape, encoding, _) in enumerate(requests[0][0]):
        kind = tensors.DATATYPES.get(datatype)
        tail = shape[1:]
        if encoding != frames.JSON or kind is None or not kind.number:
            return None
        if not all(type(size) is int and size > 0 for size in tail):
            return None
        text = _joined_text(requests, position, math.prod(tail))
        if text is None:
            return None
        rows = sum([request[0][position][2][0] for request in requests])
        try:
            array = tensors.decode_json(datatype, (rows * math.prod(tail),), text)
        except ValueError:
            return None
        arrays[name] = _converted(name, array.reshape(rows, *tail), targets)
    return arrays


def _joined_text(requests: Sequence[Any], position: int, width: int) -> bytes | None:
    """The flat lists of all requests as one list.

    Hazard: a request with one element too many beside one with one too few would have the right total, and each would
    get rows of the other. So each text is counted by itself. In a list of numbers without inner lists every comma
    parts two elements, and a text that is not such a list makes the whole unreadable, never shifted.
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


def concatenated(decoded: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The rows of several decoded requests of one form, in order."""
    return {name: np.concatenate([arrays[name] for arrays in decoded]) for name in decoded[0]}


def _converted(name: str, array: Array, targets: Targets) -> Array:
    target = targets.get(name)
    return array if target is None or array.dtype == target.dtype else array.astype(target.dtype)

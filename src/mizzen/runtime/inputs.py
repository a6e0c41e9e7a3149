"""Requests as they came in a frame, and the arrays they hold.

A request is `[inputs, outputs]` or `[inputs, outputs, raw]`, an input `[name, datatype, shape, encoding, data]`
(`protocol/frames/framing.py`). Requests of equal form can share one call of the model. One in V1 is read before that:
its arrays stand where data does, and how its answer reads where `raw` does.
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
"""What to do about NaN and Infinity."""
ARRAY = -1
"""The encoding of what has been read already. None that comes in a frame is."""

_DATA = (bytes, memoryview)
"""As what it comes: large raw data as a view of its frame."""

Form = tuple[Any, ...]
"""The outputs that are wanted, the style of the answer (`outputs`), then what each input is."""
Targets = Mapping[str, tensors.Datatype]
"""The datatype each declared input is converted to; names that are absent stay as they came."""


def of_v1(body: Any, declared: Sequence[v1.DeclaredInput]) -> list[Any]:
    """The request that a whole body in V1 is: its arrays in place of data, its format in place of `raw`.

    ValueError says what is wrong with it, for the caller.
    """
    given, style = v1.parse_request(body, declared)
    read = []
    for name, datatype, shape, elements in given:
        try:
            array = tensors.from_elements(datatype, shape, elements)
        except ValueError as error:
            raise ValueError(f"input '{name}': {error}") from None
        read.append([name, datatype, shape, ARRAY, array])
    return [read, None, style]


def form_of(request: Any, *, merge: bool) -> tuple[Form, int]:
    """What requests must have in common to be answered together, and the number of rows of this one.

    With `merge` the first dimension of every input counts rows, which may differ between requests. ValueError or
    TypeError when this is no request, or has no rows to merge by.
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
        raise ValueError("an output is asked for twice")
    return (wanted, style, *forms), rows


def _style(raw: Any, *more: Any) -> Style:
    if more or not (raw is None or raw is True or type(raw) in (list, str)):
        raise ValueError("a request is [inputs, outputs] or [inputs, outputs, raw]")
    return tuple(raw) if type(raw) is list else raw


def decode(request: Any, targets: Targets, refuses: frozenset[str] = frozenset()) -> dict[str, Array]:
    """The arrays of one request by name. ValueError says which input is wrong, and how.

    Those of `refuses`, "NaN" and "Infinity", are wrong, too. Only bytes can hold them: JSON has no such numbers.
    """
    arrays = {}
    for name, datatype, shape, encoding, data in request[0]:
        if encoding == ARRAY:
            arrays[name] = _convert(name, data, targets)
            continue
        if encoding not in (framing.JSON, framing.RAW):
            raise ValueError(f"input '{name}': no encoding {encoding!r}")
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
    """The arrays of many requests of one form, rows in the order given, from one reading of all their numbers.

    None when that cannot be done with certainty; then each request is to be decoded by itself.
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
    found = {"NaN": np.isnan(array).any(), "Infinity": np.isinf(array).any()}
    if words := [word for word, there in found.items() if there and word in refuses]:
        raise ValueError(f"data holds {' and '.join(words)}, which this model does not take; {INSTEAD}")


def _join_bytes(requests: Sequence[Any], position: int, width: int) -> bytes | None:
    """The raw data of all requests; each has to be of its right length by itself, for the same reason."""
    parts = []
    for request in requests:
        tensor = request[0][position]
        if len(tensor[4]) != tensor[2][0] * width:
            return None
        parts.append(tensor[4])
    return b"".join(parts)


def _join_text(requests: Sequence[Any], position: int, width: int) -> bytes | None:
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


def not_finite(request: Any) -> str | None:
    """The name of an input that holds NaN or Infinity as it was sent: a model may have worked in place since."""
    for name, datatype, shape, encoding, data in request[0]:
        if encoding == framing.RAW and not tensors.is_finite(tensors.decode_raw(datatype, shape, data)):
            return str(name)
    return None


def concatenate(decoded: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The rows of several decoded requests of one form, in order."""
    return {name: np.concatenate([arrays[name] for arrays in decoded]) for name in decoded[0]}


def _convert(name: str, array: Array, targets: Targets) -> Array:
    target = targets.get(name)
    return array if target is None or array.dtype == target.dtype else array.astype(target.dtype)

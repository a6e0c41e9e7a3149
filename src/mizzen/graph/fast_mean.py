"""Fast path for the mean of replies that differ only in their values: from reply bytes straight to JSON text.

The members of an ensemble nearly always return outputs of one form, with few values. For each form, everything except
the arithmetic is prepared once. `merging` handles all other replies, with the same results.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite, prod

from mizzen.graph import messages
from mizzen.protocol import v2
from mizzen.protocol.plain_elements import CODES

MAX_VALUES = 32
"""Per answer."""
_MAX_FORMS = 256
_LENGTH = struct.Struct("<I")
_DATATYPES = frozenset(CODES) - {"BOOL", "FP16", "FP32"}
"""Datatypes whose mean is FP64."""

_Form = tuple[struct.Struct, int, list[tuple[bytes, int, int]]]
"""Struct that unpacks the values, size of a reply, and for each tensor its JSON up to the data, and its value range."""


class FastMean:
    __slots__ = ("_forms", "_plain", "_total", "_weights", "threshold")

    def __init__(self, weights: Sequence[float], threshold: float | None) -> None:
        """`weights`: one per reply, in order."""
        self.threshold = threshold
        total = 0.0
        for weight in weights:
            total += weight
        self._weights = list(weights) if total else [1.0] * len(weights)
        self._total = total or float(len(weights))
        self._plain = all(weight == 1.0 for weight in self._weights)
        self._forms: dict[bytes, _Form | None] = {}

    def render_outputs(self, payloads: Sequence[bytes]) -> bytes | None:
        """Return the JSON text of the V2 `outputs` list, or None if these replies need `merging`."""
        first = payloads[0]
        at = _LENGTH.unpack_from(first)[0] + 4
        head = first[:at]
        form = self._forms.get(head)
        if form is None:
            if head in self._forms or self.threshold is not None:
                return None
            form = self._remember_form(head)
            if form is None:
                return None
        reads, size, tensors = form
        rows = []
        for payload in payloads:
            if len(payload) != size or not payload.startswith(head):
                return None
            rows.append(reads.unpack_from(payload, at))
        total = self._total
        if len(rows) == 1:
            means = list(map(float, rows[0]))
        elif self._plain:
            means = [sum(map(float, values)) / total for values in zip(*rows, strict=True)]
        else:
            weights = self._weights
            means = [
                sum([weight * value for weight, value in zip(weights, values, strict=True)]) / total
                for values in zip(*rows, strict=True)
            ]
        if not all(map(isfinite, means)):
            return None
        if len(tensors) == 1:
            return b"[%b%b}]" % (tensors[0][0], v2.to_json(means))
        return b"[%b]" % b",".join([b"%b%b}" % (text, v2.to_json(means[start:end])) for text, start, end in tensors])

    def _remember_form(self, head: bytes) -> _Form | None:
        if len(self._forms) >= _MAX_FORMS:
            self._forms.clear()
        self._forms[head] = form = _parse_form(head)
        return form


def _parse_form(head: bytes) -> _Form | None:
    try:
        described = messages.describe_outputs(head[4:])
    except ValueError:
        return None
    codes, tensors, count = "<", [], 0
    for name, datatype, shape, _ in described:
        values = prod(shape)
        if datatype not in _DATATYPES or not values or count + values > MAX_VALUES:
            return None
        sizes = ",".join(map(str, shape)).encode()
        text = b'{"name":%b,"datatype":"FP64","shape":[%b],"data":' % (v2.to_json(name), sizes)
        tensors.append((text, count, count + values))
        codes += f"{values}{CODES[datatype]}"
        count += values
    if not tensors:
        return None
    reads = struct.Struct(codes)
    return reads, len(head) + reads.size, tensors

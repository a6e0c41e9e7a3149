"""The mean of some answers that are alike in all but their values, straight from replies to the text of an answer.

Of models that are asked the same, nearly always all outputs have one form, and few values. For such a form everything
but the arithmetic is made once. Whatever is not so is left to `merging`, with the same results.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite, prod

from mizzen.graph import messages
from mizzen.protocol import v2
from mizzen.protocol.plain_elements import CODES

MOST = 32
"""Values of one answer."""
_REMEMBERED = 256
_LENGTH = struct.Struct("<I")
_KINDS = frozenset(CODES) - {"BOOL", "FP16", "FP32"}
"""Whose mean is FP64."""

_Form = tuple[struct.Struct, int, list[tuple[bytes, int, int]]]
"""What reads the values, how many bytes a reply has, and of each tensor its text up to the data and its values."""


class Means:
    __slots__ = ("_forms", "_plain", "_total", "_weights", "threshold")

    def __init__(self, weights: Sequence[float], threshold: float | None) -> None:
        """`weights`: of the replies, in their order."""
        self.threshold = threshold
        total = 0.0
        for weight in weights:
            total += weight
        self._weights = list(weights) if total else [1.0] * len(weights)
        self._total = total or float(len(weights))
        self._plain = all(weight == 1.0 for weight in self._weights)
        self._forms: dict[bytes, _Form | None] = {}

    def text(self, payloads: Sequence[bytes]) -> bytes | None:
        """The JSON text of the V2 `outputs` list; None: these are none that can be merged here."""
        first = payloads[0]
        at = _LENGTH.unpack_from(first)[0] + 4
        head = first[:at]
        form = self._forms.get(head)
        if form is None:
            if head in self._forms or self.threshold is not None:
                return None
            form = self._form(head)
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

    def _form(self, head: bytes) -> _Form | None:
        if len(self._forms) >= _REMEMBERED:
            self._forms.clear()
        self._forms[head] = form = _made(head)
        return form


def _made(head: bytes) -> _Form | None:
    try:
        described = messages.described(head[4:])
    except ValueError:
        return None
    codes, tensors, count = "<", [], 0
    for name, datatype, shape, _ in described:
        values = prod(shape)
        if datatype not in _KINDS or not values or count + values > MOST:
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

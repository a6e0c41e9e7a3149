"""Cuts the data out of large V2 requests in JSON before the rest is parsed, since the gateway does not use it.

Parsing a list touches every byte; finding its end costs almost nothing. Everything behind `"data":` that contains
neither strings nor objects is cut out; such bytes cannot be part of a string, whose quotes would be escaped. If these
are not exactly the data of the inputs, `json_precheck` splits the request instead. The runtime decides whether the data
is a list of numbers, as always.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mizzen.protocol import json_precheck, v2
from mizzen.protocol.frames import framing

LARGE = json_precheck.LARGE
"""Bodies from this size on are worth it."""

_DATA = b'"data"'
_LIST = re.compile(rb"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}\[")


def decode(body: bytes) -> tuple[v2.InferRequest, list[v2.Entry]]:
    """Like `v2.decode`, but also returns the input entries, and limits the size of everything except the data."""
    found = split_data(body)
    if found is not None:
        return found
    kept, datas = json_precheck.split_large(body)
    request = v2.decode(kept)
    return request, _entries_of(request, datas)


def split_data(body: bytes) -> tuple[v2.InferRequest, list[v2.Entry]] | None:
    """None: the data cannot be located, or the request is invalid; then the caller reports errors on the original."""
    view = memoryview(body)
    kept: list[bytes] = []
    datas: list[memoryview] = []
    at = found = metadata_bytes = 0
    for _ in range(2 * v2.MAX_TENSORS):  # a tensor may also be named data
        found = body.find(_DATA, found)
        if found < 0:
            break
        found += len(_DATA)
        opened = _LIST.match(body, found)
        if opened is None:
            continue
        start = opened.end() - 1
        end = _list_end(body, start)
        metadata_bytes += start - at
        if end < 0 or metadata_bytes > json_precheck.MAX_METADATA_BYTES:
            return None
        kept += (body[at:start], json_precheck.placeholder_of(len(datas)))
        datas.append(view[start:end])
        at = found = end
    if not datas or found >= 0 or metadata_bytes + len(body) - at > json_precheck.MAX_METADATA_BYTES:
        return None
    kept.append(body[at:])
    try:
        request = v2.decode(b"".join(kept))
    except ValueError:
        return None
    if [bytes(tensor.data) for tensor in request.inputs] != [
        json_precheck.placeholder_of(place) for place in range(len(datas))
    ]:
        return None
    return request, _entries_of(request, datas)


def _entries_of(request: v2.InferRequest, datas: Sequence[memoryview]) -> list[v2.Entry]:
    return [
        (tensor.name, tensor.datatype, tensor.shape, framing.JSON, data)
        for tensor, data in zip(request.inputs, datas, strict=True)
    ]


def _list_end(body: bytes, start: int) -> int:
    """Return the end of the list at `start`, which may contain one level of lists; -1 if it is not certain."""
    nested = body[start + 1 : start + 2] == b"["
    end = body.find(b"]]" if nested else b"]", start) + (2 if nested else 1)
    if end <= start or (not nested and body.find(b"[", start + 1, end) >= 0):
        return -1
    return -1 if body.find(b'"', start, end) >= 0 or body.find(b"{", start, end) >= 0 else end

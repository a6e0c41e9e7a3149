"""V2 requests with much data in JSON: the data is cut out before the rest is read, since nobody here looks at it.

To pass over a list costs a look at every byte of it, to find its end next to nothing. What is cut out is whatever
stands behind `"data":` and holds neither strings nor objects; bytes that read so cannot be part of a string, whose
quotes would be escaped. Where that is not the data of the inputs, one for each, the request is skimmed. Whether it is a
list of numbers is for the runtime to say, as always.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mizzen.protocol import json_precheck, v2
from mizzen.protocol.frames import framing

LARGE = json_precheck.LARGE
"""Bytes of a body from which on it is worth it."""

_DATA = b'"data"'
_LIST = re.compile(rb"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}\[")


def decode(body: bytes) -> tuple[v2.InferRequest, list[v2.Entry]]:
    """As `v2.decode`, with the entries of the inputs, and never of more than a request may say beside its data."""
    found = cut(body)
    if found is not None:
        return found
    kept, datas = json_precheck.skim(body)
    request = v2.decode(kept)
    return request, _entries(request, datas)


def cut(body: bytes) -> tuple[v2.InferRequest, list[v2.Entry]] | None:
    """None: it cannot be seen where its data is, or the request is wrong, which is told of it as it came."""
    view = memoryview(body)
    kept: list[bytes] = []
    datas: list[memoryview] = []
    at = found = said = 0
    for _ in range(2 * v2.MAX_TENSORS):  # a tensor may be called data, too
        found = body.find(_DATA, found)
        if found < 0:
            break
        found += len(_DATA)
        opened = _LIST.match(body, found)
        if opened is None:
            continue
        start = opened.end() - 1
        end = _end(body, start)
        said += start - at
        if end < 0 or said > json_precheck.MOST_SAID:
            return None
        kept += (body[at:start], json_precheck.mark(len(datas)))
        datas.append(view[start:end])
        at = found = end
    if not datas or found >= 0 or said + len(body) - at > json_precheck.MOST_SAID:
        return None
    kept.append(body[at:])
    try:
        request = v2.decode(b"".join(kept))
    except ValueError:
        return None
    if [bytes(tensor.data) for tensor in request.inputs] != [json_precheck.mark(place) for place in range(len(datas))]:
        return None
    return request, _entries(request, datas)


def _entries(request: v2.InferRequest, datas: Sequence[memoryview]) -> list[v2.Entry]:
    return [
        (tensor.name, tensor.datatype, tensor.shape, framing.JSON, data)
        for tensor, data in zip(request.inputs, datas, strict=True)
    ]


def _end(body: bytes, start: int) -> int:
    """Where the list ends that begins here, one with lists in it that hold none; -1 when that cannot be seen."""
    nested = body[start + 1 : start + 2] == b"["
    end = body.find(b"]]" if nested else b"]", start) + (2 if nested else 1)
    if end <= start or (not nested and body.find(b"[", start + 1, end) >= 0):
        return -1
    return -1 if body.find(b'"', start, end) >= 0 or body.find(b"{", start, end) >= 0 else end

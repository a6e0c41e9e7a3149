"""V2 requests with much data in JSON: the data is cut out before the rest is read, since nobody here looks at it.

To pass over a list costs a look at every byte of it, to find its end next to nothing. What is cut out is whatever
stands behind `"data":` and holds neither strings nor objects; bytes that read so cannot be part of a string, whose
quotes would be escaped. Where that is not the data of the inputs, one for each, None is returned, and the request is
read whole. Whether it is a list of numbers is for the runtime to say, as always.
"""

from __future__ import annotations

from mizzen.protocol import frames, v2

LARGE = 16 << 10
"""Bytes of a body from which on it is worth it."""

_DATA = b'"data":['
_MARK = b"[%d]"


def decode(body: bytes) -> tuple[v2.InferRequest, list[v2.Entry]] | None:
    """As `v2.decode`, with the entries of the inputs. None: to be read whole."""
    view = memoryview(body)
    kept: list[bytes] = []
    cut: list[memoryview] = []
    at = 0
    while (found := body.find(_DATA, at)) >= 0:
        start = found + len(_DATA) - 1
        end = _end(body, start)
        if end < 0:
            return None
        kept += (body[at:start], _MARK % len(cut))
        cut.append(view[start:end])
        at = end
    if not cut:
        return None
    kept.append(body[at:])
    try:
        request = v2.decode(b"".join(kept))
    except ValueError:
        return None  # told in words about the request as it came
    if [bytes(tensor.data) for tensor in request.inputs] != [_MARK % place for place in range(len(cut))]:
        return None
    entries: list[v2.Entry] = [
        (tensor.name, tensor.datatype, tensor.shape, frames.JSON, data)
        for tensor, data in zip(request.inputs, cut, strict=True)
    ]
    return request, entries


def _end(body: bytes, start: int) -> int:
    """Where the list ends that begins here, one with lists in it that hold none; -1 when that cannot be seen."""
    nested = body[start + 1 : start + 2] == b"["
    end = body.find(b"]]" if nested else b"]", start) + (2 if nested else 1)
    if end <= start or (not nested and body.find(b"[", start + 1, end) >= 0):
        return -1
    return -1 if body.find(b'"', start, end) >= 0 or body.find(b"{", start, end) >= 0 else end

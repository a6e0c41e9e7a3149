"""The JSON of large V2 requests, looked over before objects are made of it: a body of a few bytes per object would
become many times its size in memory, and meanwhile nobody else would be answered.

What is heavy stays bytes: a look costs one pass over the body and a bounded number of objects, whatever is in it. What
a request says beside the data of its inputs is put together again as a text of its own, which is short, and is read by
those who read small requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from mizzen.protocol import v2

LARGE = 16 << 10
"""Bytes of a text from which on it is looked over: less cannot become much."""
MOST_SAID = 256 << 10
"""Bytes that a request may have beside the data of its inputs."""

_Some = msgspec.Raw | msgspec.UnsetType


class _Tensor(msgspec.Struct, gc=False):
    """In the order it is written in again."""

    name: _Some = msgspec.UNSET
    shape: _Some = msgspec.UNSET
    datatype: _Some = msgspec.UNSET
    parameters: _Some = msgspec.UNSET
    data: _Some = msgspec.UNSET


def mark(place: int) -> bytes:
    """Stands where the data of an input was."""
    return b"[%d]" % place


def skim(text: bytes) -> tuple[bytes, list[memoryview]]:
    """What it says beside its data, as JSON with a mark for each list of data; and the data of each input, empty where
    there is none. ValueError, worded for the caller, when it says too much or cannot be read.
    """
    seen = v2.read(_decoder(), text)
    said = _Said()
    datas: list[memoryview] = []
    tensors: list[bytes] = []
    if seen.inputs is not msgspec.UNSET:
        for place in range(v2.MAX_TENSORS):
            tensor = getattr(seen.inputs, f"at{place}")
            if tensor is msgspec.UNSET:
                break
            fields = said.fields(f"inputs[{place}].", tensor, ("name", "shape", "datatype", "parameters"))
            data = memoryview(b"") if tensor.data is msgspec.UNSET else memoryview(tensor.data)
            if data:
                fields.append(b'"data":%b' % (mark(place) if data[0] == _BRACKET else b"0"))
            datas.append(data)
            tensors.append(b"{%b}" % b",".join(fields))
    fields = said.fields("", seen, ("id", "parameters", "outputs"))
    if seen.inputs is not msgspec.UNSET:
        fields.append(b'"inputs":[%b]' % b",".join(tensors))
    return b"{%b}" % b",".join(fields), datas


class _Said:
    """Counts."""

    def __init__(self) -> None:
        self._bytes = 0

    def fields(self, where: str, given: msgspec.Struct, names: tuple[str, ...]) -> list[bytes]:
        """Those that are there, as JSON."""
        fields = []
        for name in names:
            value = getattr(given, name)
            if value is msgspec.UNSET:
                continue
            view = memoryview(value)
            self._bytes += len(view)
            if self._bytes > MOST_SAID:
                raise ValueError(
                    f"{where}{name}: {len(view)} bytes are too many; beside the data of its inputs,"
                    f" a request may have {MOST_SAID} in all"
                )
            fields.append(b'"%b":%b' % (name.encode(), bytes(view)))
        return fields


@cache
def _decoder() -> Callable[[bytes], Any]:
    """An array of fields and not a list: it is given up at the first tensor too many, where a list would be made whole
    before it is found too long.
    """
    places = [(f"at{place}", _Tensor | msgspec.UnsetType, msgspec.UNSET) for place in range(v2.MAX_TENSORS)]
    tensors = msgspec.defstruct("_Tensors", places, array_like=True, forbid_unknown_fields=True, gc=False)
    request = msgspec.defstruct(
        "_Request",
        [
            ("inputs", tensors | msgspec.UnsetType, msgspec.UNSET),
            *((name, _Some, msgspec.UNSET) for name in ("id", "parameters", "outputs")),
        ],
        gc=False,
    )
    return msgspec.json.Decoder(request).decode


_BRACKET = ord("[")

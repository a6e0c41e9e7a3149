"""Splits large V2 requests in JSON before decoding them. A body with a few bytes per object would grow many times in
memory, and block all other requests meanwhile.

Tensor data stays bytes: the split costs one pass over the body and a bounded number of objects. The rest of the
request is reassembled as a short JSON text, which the decoder of small requests reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from mizzen.protocol import v2

LARGE = 16 << 10
"""Texts from this size on are split; smaller ones cannot grow large."""
MAX_METADATA_BYTES = 256 << 10
"""Maximum bytes of a request without the data of its inputs."""

_OptionalRaw = msgspec.Raw | msgspec.UnsetType


class _Tensor(msgspec.Struct, gc=False):
    """Fields in the order in which they are written again."""

    name: _OptionalRaw = msgspec.UNSET
    shape: _OptionalRaw = msgspec.UNSET
    datatype: _OptionalRaw = msgspec.UNSET
    parameters: _OptionalRaw = msgspec.UNSET
    data: _OptionalRaw = msgspec.UNSET


def placeholder_of(place: int) -> bytes:
    """Return the text that replaces the data of an input."""
    return b"[%d]" % place


def split_large(text: bytes) -> tuple[bytes, list[memoryview]]:
    """Return the request as JSON with a placeholder for each list of data, and the data of each input, empty if there
    is none. Raises ValueError for the caller if the rest is too large or invalid.
    """
    seen = v2.decode_with(_decoder(), text)
    budget = _FieldBudget()
    datas: list[memoryview] = []
    tensors: list[bytes] = []
    if seen.inputs is not msgspec.UNSET:
        for place in range(v2.MAX_TENSORS):
            tensor = getattr(seen.inputs, f"at{place}")
            if tensor is msgspec.UNSET:
                break
            fields = budget.encode_fields(f"inputs[{place}].", tensor, ("name", "shape", "datatype", "parameters"))
            data = memoryview(b"") if tensor.data is msgspec.UNSET else memoryview(tensor.data)
            if data:
                fields.append(b'"data":%b' % (placeholder_of(place) if data[0] == _BRACKET else b"0"))
            datas.append(data)
            tensors.append(b"{%b}" % b",".join(fields))
    fields = budget.encode_fields("", seen, ("id", "parameters", "outputs"))
    if seen.inputs is not msgspec.UNSET:
        fields.append(b'"inputs":[%b]' % b",".join(tensors))
    return b"{%b}" % b",".join(fields), datas


class _FieldBudget:
    """Limits the bytes of all fields together."""

    def __init__(self) -> None:
        self._bytes = 0

    def encode_fields(self, where: str, given: msgspec.Struct, names: tuple[str, ...]) -> list[bytes]:
        """Return the fields that are present, as JSON. Raises ValueError beyond the limit."""
        fields = []
        for name in names:
            value = getattr(given, name)
            if value is msgspec.UNSET:
                continue
            view = memoryview(value)
            self._bytes += len(view)
            if self._bytes > MAX_METADATA_BYTES:
                raise ValueError(
                    f"{where}{name}: {len(view)} bytes are too many; apart from the data of its inputs,"
                    f" a request may have at most {MAX_METADATA_BYTES} bytes"
                )
            fields.append(b'"%b":%b' % (name.encode(), bytes(view)))
        return fields


@cache
def _decoder() -> Callable[[bytes], Any]:
    """Decodes inputs as an array of fields rather than a list. It fails at the first excess tensor; a list would be
    built completely before its length is checked.
    """
    places = [(f"at{place}", _Tensor | msgspec.UnsetType, msgspec.UNSET) for place in range(v2.MAX_TENSORS)]
    tensors = msgspec.defstruct("_Tensors", places, array_like=True, forbid_unknown_fields=True, gc=False)
    request = msgspec.defstruct(
        "_Request",
        [
            ("inputs", tensors | msgspec.UnsetType, msgspec.UNSET),
            *((name, _OptionalRaw, msgspec.UNSET) for name in ("id", "parameters", "outputs")),
        ],
        gc=False,
    )
    return msgspec.json.Decoder(request).decode


_BRACKET = ord("[")

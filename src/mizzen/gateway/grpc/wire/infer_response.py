"""A ModelInferResponse into its bytes, written by hand: of two answers of one model mostly the id and the bytes of the
outputs differ.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from mizzen.gateway.grpc.wire.protobuf import field, written

_LENGTH = struct.Struct("<I")
_REMEMBERED = 1024


class Responses:
    """Remembers how answers begin, and what stands in them of outputs before their data."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], bytes] = {}
        """By name and version."""
        self._outputs: dict[bytes, tuple[bytes, tuple[int, ...]]] = {}
        """With how many bytes each of them has, by what the runtime says of them."""

    def write(self, name: str, version: str, id_: bytes, payload: bytes) -> bytes:
        """`payload` is as in a REPLY frame to who asked for all outputs as bytes."""
        (length,) = _LENGTH.unpack_from(payload)
        at = _LENGTH.size + length
        text = payload[_LENGTH.size : at]
        known = self._outputs.get(text)
        if known is None:
            if len(self._outputs) >= _REMEMBERED:
                self._outputs.clear()
            known = self._outputs[text] = _described(msgspec.json.decode(text))
        described, sizes = known
        head = self.head(name, version)
        if len(sizes) == 1 and sizes[0] < 128 and len(id_) < 128:  # what nearly all are
            return b"%b\x1a%c%b%b2%c%b" % (head, len(id_), id_, described, sizes[0], payload[at:])
        parts = [head, field(3, id_), described]
        for size in sizes:
            parts.append(field(6, payload[at : at + size]))
            at += size
        return b"".join(parts)

    def head(self, name: str, version: str) -> bytes:
        head = self._heads.get((name, version))
        if head is None:
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            head = self._heads[name, version] = field(1, name.encode()) + field(2, version.encode())
        return head


def defaulted(why: bytes) -> bytes:
    """What a response says more that a default was: the parameters that REST has for it, as fields of the message."""
    true, text = written(1 << 3) + written(1), field(3, why)
    said = ((b"default", true), (b"default_reason", text))
    return b"".join(field(4, field(1, name) + field(2, value)) for name, value in said)


def _described(outputs: list[dict[str, Any]]) -> tuple[bytes, tuple[int, ...]]:
    described, sizes = [], []
    for output in outputs:
        shape = b"".join(written(size) for size in output["shape"])
        tensor = field(1, output["name"].encode()) + field(2, output["datatype"].encode()) + field(3, shape)
        described.append(field(5, tensor))
        sizes.append(output["parameters"]["binary_data_size"])
    return b"".join(described), tuple(sizes)

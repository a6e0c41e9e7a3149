"""Encodes ModelInferResponse messages. Hand-written, because two answers of one model mostly differ only in the id and
the output bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from mizzen.protobuf_wire import encode_field, encode_varint

_LENGTH = struct.Struct("<I")
_MAX_CACHED_BYTES = 4 << 10
"""Longer descriptions of outputs are not cached."""
_MAX_CACHED = 1024


class InferResponseEncoder:
    """Encodes responses. Caches their beginnings, and the encoded descriptions of outputs."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], bytes] = {}
        """By name and version."""
        self._outputs: dict[bytes, tuple[bytes, tuple[int, ...]]] = {}
        """Encoded outputs without data, and the size of each, by the runtime's description."""

    def encode(self, name: str, version: str, id_: bytes, payload: bytes) -> bytes:
        """`payload`: as in a REPLY frame with all outputs as raw bytes."""
        (length,) = _LENGTH.unpack_from(payload)
        at = _LENGTH.size + length
        text = payload[_LENGTH.size : at]
        known = self._outputs.get(text)
        if known is None:
            if len(self._outputs) >= _MAX_CACHED:
                self._outputs.clear()
            known = _encode_outputs(msgspec.json.decode(text))
            if len(text) <= _MAX_CACHED_BYTES:
                self._outputs[text] = known
        described, sizes = known
        head = self._head_of(name, version)
        if len(sizes) == 1 and sizes[0] < 128 and len(id_) < 128:  # the most common case
            return b"%b\x1a%c%b%b2%c%b" % (head, len(id_), id_, described, sizes[0], payload[at:])
        parts = [head, encode_field(3, id_), described]
        for size in sizes:
            parts.append(encode_field(6, payload[at : at + size]))
            at += size
        return b"".join(parts)

    def _head_of(self, name: str, version: str) -> bytes:
        head = self._heads.get((name, version))
        if head is None:
            if len(self._heads) >= _MAX_CACHED:
                self._heads.clear()
            head = self._heads[name, version] = encode_field(1, name.encode()) + encode_field(2, version.encode())
        return head


def encode_default_parameters(why: bytes) -> bytes:
    """Encode the parameters that mark a default answer, the same as in REST, as fields of the message."""
    true, text = encode_varint(1 << 3) + encode_varint(1), encode_field(3, why)
    parameters = ((b"default", true), (b"default_reason", text))
    return b"".join(encode_field(4, encode_field(1, name) + encode_field(2, value)) for name, value in parameters)


def _encode_outputs(outputs: list[dict[str, Any]]) -> tuple[bytes, tuple[int, ...]]:
    described, sizes = [], []
    for output in outputs:
        shape = b"".join(encode_varint(size) for size in output["shape"])
        tensor = (
            encode_field(1, output["name"].encode())
            + encode_field(2, output["datatype"].encode())
            + encode_field(3, shape)
        )
        described.append(encode_field(5, tensor))
        sizes.append(output["parameters"]["binary_data_size"])
    return b"".join(described), tuple(sizes)

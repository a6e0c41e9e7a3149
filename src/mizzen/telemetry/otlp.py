"""Encodes spans as the protobuf body of an OTLP export request.

Field numbers are those of opentelemetry/proto/trace/v1/trace.proto, which guarantees that they never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from mizzen.protobuf_wire import FIXED32, FIXED64, VARINT, encode_field, encode_varint, tag

INTERNAL, SERVER = 1, 2

Value = str | bool | int | float
Attributes = Mapping[str, Value]
Context = tuple[bytes, bytes]
"""A trace id, and the id of a span in it."""

_ERROR = 2
_SAMPLED, _KNOWN_REMOTE, _REMOTE = 0x1, 0x100, 0x200


class Span(NamedTuple):
    trace: bytes
    """16 bytes; `id` and `parent` have 8."""
    id: bytes
    parent: bytes
    """Empty: the root span."""
    name: str
    start: int
    """In nanoseconds since 1970."""
    end: int
    kind: int = INTERNAL
    state: str = ""
    """W3C's tracestate."""
    remote: bool = False
    """The parent is in another process."""
    attributes: Attributes = MappingProxyType({})
    links: Sequence[Context] = ()
    error: str | None = None
    """Why it failed; None: it succeeded."""


def encode_request(resource: Attributes, scope: tuple[str, str], spans: Iterable[Span]) -> bytes:
    """`scope`: name and version of the code that makes the spans."""
    name, version = scope
    scope_spans = encode_field(1, _text(1, name) + _text(2, version)) + b"".join(
        encode_field(2, _encode_span(span)) for span in spans
    )
    return encode_field(1, encode_field(1, _encode_attributes(1, resource)) + encode_field(2, scope_spans))


def _encode_span(span: Span) -> bytes:
    flags = _SAMPLED | _KNOWN_REMOTE | (_REMOTE if span.remote else 0)
    parts = [
        _data(1, span.trace), _data(2, span.id), _text(3, span.state), _data(4, span.parent), _text(5, span.name),
        _KIND, encode_varint(span.kind), _TIMES.pack(_START, span.start, _END, span.end),
        _encode_attributes(9, span.attributes),
        *(encode_field(13, _data(1, trace) + _data(2, id_)) for trace, id_ in span.links),
    ]  # fmt: skip
    if span.error is not None:
        parts.append(encode_field(15, _text(2, span.error) + _FAILED))
    parts += (_FLAGS, struct.pack("<I", flags))
    return b"".join(parts)


def _encode_attributes(number: int, attributes: Attributes) -> bytes:
    return b"".join([encode_field(number, _encode_attribute(name, value)) for name, value in attributes.items()])


def _encode_attribute(name: str, value: Value) -> bytes:
    known = not isinstance(value, str) or len(value) <= _LONGEST_KNOWN
    return _encode_cached_attribute(name, value) if known else _encode_new_attribute(name, value)


def _encode_new_attribute(name: str, value: Value) -> bytes:
    return _text(1, name) + encode_field(2, _encode_value(value))


_LONGEST_KNOWN = 128
"""Characters of a text. Longer texts come from callers, differ each time, and would fill the cache."""
_encode_cached_attribute = lru_cache(4096, typed=True)(_encode_new_attribute)
"""Most attributes repeat."""


def _encode_value(value: Value) -> bytes:
    """Encode a value. An empty text is a value too: an omitted field would mean no value at all."""
    if isinstance(value, str):
        return encode_field(1, value.encode())
    if isinstance(value, bool):
        return tag(2, VARINT) + encode_varint(value)
    if isinstance(value, int):
        return tag(3, VARINT) + encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    return tag(4, FIXED64) + struct.pack("<d", value)


def _text(number: int, text: str) -> bytes:
    return encode_field(number, text.encode()) if text else b""


def _data(number: int, data: bytes) -> bytes:
    return encode_field(number, data) if data else b""


_KIND, _FLAGS, _FAILED = tag(6, VARINT), tag(16, FIXED32), tag(3, VARINT) + encode_varint(_ERROR)
_TIMES = struct.Struct("<BQBQ")
_START, _END = 7 << 3 | FIXED64, 8 << 3 | FIXED64

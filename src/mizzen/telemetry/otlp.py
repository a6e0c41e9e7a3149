"""OTLP's protocol buffers for traces, as far as they are needed here: spans -> the body of an export request.

Field numbers are those of opentelemetry/proto/trace/v1/trace.proto, which says that they never change.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

INTERNAL, SERVER = 1, 2

Value = str | bool | int | float
Attributes = Mapping[str, Value]
Context = tuple[bytes, bytes]
"""Ids of a trace and of a span in it."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ERROR = 2
_SAMPLED, _KNOWN_REMOTE, _REMOTE = 0x1, 0x100, 0x200


class Span(NamedTuple):
    trace: bytes
    """16 bytes, and 8 of `id` and `parent`."""
    id: bytes
    parent: bytes
    """Empty: it begins the trace."""
    name: str
    start: int
    """In nanoseconds since 1970."""
    end: int
    kind: int = INTERNAL
    state: str = ""
    """W3C's tracestate."""
    remote: bool = False
    """Its parent is in another process."""
    attributes: Attributes = MappingProxyType({})
    links: Sequence[Context] = ()
    error: str | None = None
    """Why it failed; None: it did not."""


def request(resource: Attributes, scope: tuple[str, str], spans: Iterable[Span]) -> bytes:
    """`scope`: name and version of who makes the spans."""
    name, version = scope
    told = _message(1, _text(1, name) + _text(2, version)) + b"".join(_message(2, _span(span)) for span in spans)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, told))


def _span(span: Span) -> bytes:
    flags = _SAMPLED | _KNOWN_REMOTE | (_REMOTE if span.remote else 0)
    parts = [
        _data(1, span.trace), _data(2, span.id), _text(3, span.state), _data(4, span.parent), _text(5, span.name),
        _KIND, _varint(span.kind), _TIMES.pack(_START, span.start, _END, span.end), _attributes(9, span.attributes),
        *(_message(13, _data(1, trace) + _data(2, id_)) for trace, id_ in span.links),
    ]  # fmt: skip
    if span.error is not None:
        parts.append(_message(15, _text(2, span.error) + _FAILED))
    parts += (_FLAGS, struct.pack("<I", flags))
    return b"".join(parts)


def _attributes(field: int, attributes: Attributes) -> bytes:
    return b"".join([_message(field, _attribute(name, value)) for name, value in attributes.items()])


def _attribute(name: str, value: Value) -> bytes:
    known = not isinstance(value, str) or len(value) <= _LONGEST_KNOWN
    return _known(name, value) if known else _written(name, value)


def _written(name: str, value: Value) -> bytes:
    return _text(1, name) + _message(2, _value(value))


_LONGEST_KNOWN = 128
"""Characters of a text. Longer ones come from outside, are new each time, and would fill the memory."""
_known = lru_cache(4096, typed=True)(_written)
"""Most say the same again and again."""


def _value(value: Value) -> bytes:
    """Also an empty text is one: what is left out has no value at all."""
    if isinstance(value, str):
        return _message(1, value.encode())
    if isinstance(value, bool):
        return _tag(2, _VARINT) + _varint(value)
    if isinstance(value, int):
        return _tag(3, _VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    return _tag(4, _FIXED64) + struct.pack("<d", value)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode()) if text else b""


def _data(field: int, data: bytes) -> bytes:
    return _message(field, data) if data else b""


def _message(field: int, content: bytes) -> bytes:
    return _MESSAGES[field] + _varint(len(content)) + content


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _DIGITS[number]
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


_DIGITS = [bytes((number,)) for number in range(0x80)]
_MESSAGES = [_tag(field, _BYTES) for field in range(17)]
_KIND, _FLAGS, _FAILED = _tag(6, _VARINT), _tag(16, _FIXED32), _tag(3, _VARINT) + _varint(_ERROR)
_TIMES = struct.Struct("<BQBQ")
_START, _END = 7 << 3 | _FIXED64, 8 << 3 | _FIXED64

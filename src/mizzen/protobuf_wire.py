"""The wire format of protocol buffers: iterate over the fields of a message, and encode fields. Standard library only.

Hand-written, because a few bytes of a message can describe very many objects: a parser that creates an object for every
two bytes takes a hundred times the memory of the message. Here nothing is created unless the caller asks for it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

LONGEST_VARINT: Final = 10
"""Bytes of a number of 64 bits, seven of them in each."""

_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_DOUBLE: Final = struct.Struct("<d")
_ONE_BYTE: Final = [bytes((value,)) for value in range(128)]

CUT_OFF: Final = "it ends in the middle of a field"
UNTERMINATED: Final = "it has an unterminated varint"


class Malformed(ValueError):
    """These bytes are not a valid message. The text is a sentence about the message, which it calls "it"."""


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number, and the offset behind it."""
    value = shift = 0
    try:
        if data[at] < 128:  # most are this short
            return data[at], at + 1
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                raise Malformed(UNTERMINATED)
    except IndexError as error:
        raise Malformed(CUT_OFF) from error


def read_exact_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """As `read_varint`, which truncates a number of more than 64 bits as Google's parsers do. Here it is malformed."""
    value, end = read_varint(data, at)
    if end - at == LONGEST_VARINT and data[end - 1] > 1:
        raise Malformed("it has a varint of more than 64 bits")
    return value, end


def iter_fields(
    data: bytes | memoryview,
    at: int = 0,
    read: Callable[[memoryview, int], tuple[int, int]] = read_varint,
) -> Iterator[tuple[int, int, int | memoryview]]:
    """Yield number, wire type and value of each field. Groups, which no message here has, are malformed.

    `read` reads the varints of more than one byte.
    """
    view, end = memoryview(data), len(data)
    while at < end:
        tag = view[at]
        at += 1
        if tag > 127:
            tag, at = read(view, at - 1)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise Malformed("it has a field with an invalid number")
        if kind == BYTES:
            if at < end and view[at] < 128:  # most are this short
                size = view[at]
                at += 1
            else:
                size, at = read(view, at)
        elif kind == VARINT:
            value, at = read(view, at)
            yield number, kind, value
            continue
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise Malformed(f"it has a field of the obsolete wire type {kind}")
        stop = at + size
        if stop > end:
            raise Malformed(CUT_OFF)
        yield number, kind, view[at:stop]
        at = stop


def field_end(view: memoryview, at: int) -> int:
    """Return the offset behind the field that begins at `at`."""
    for _, kind, value in iter_fields(view, at):
        start = read_varint(view, at)[1]
        if isinstance(value, int):
            return read_varint(view, start)[1]
        return (read_varint(view, start)[1] if kind == BYTES else start) + len(value)
    raise Malformed(CUT_OFF)


def text_of(value: int | memoryview) -> str:
    if isinstance(value, int):
        raise Malformed("it has a number where text is expected")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("it has text that is not valid UTF-8") from error


def message_of(value: int | memoryview) -> memoryview:
    """Return the bytes of a nested message."""
    if isinstance(value, int):
        raise Malformed("it has a number where a message is expected")
    return value


def signed_of(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise Malformed("it has bytes where a number is expected")
    return value - (1 << 64) if value >> 63 else value


def double_of(value: int | memoryview) -> float:
    if isinstance(value, int) or len(value) != _DOUBLE.size:
        raise Malformed("it has another value where a double is expected")
    number: float = _DOUBLE.unpack(value)[0]
    return number


def iter_numbers(kind: int, value: int | memoryview) -> Iterator[int]:
    """Yield the numbers of a repeated field: one, or many packed ones."""
    if kind == VARINT:
        yield signed_of(value)
        return
    view = message_of(value)
    at = 0
    while at < len(view):
        number, at = read_varint(view, at)
        yield signed_of(number)


def encode_field(number: int, data: bytes | memoryview) -> bytes:
    """Encode a field that holds bytes. `number` is at most 15, so that the tag has one byte."""
    return _ONE_BYTE[number << 3 | BYTES] + encode_varint(len(data)) + data


def tag(number: int, kind: int) -> bytes:
    return encode_varint(number << 3 | kind)


def encode_varint(value: int) -> bytes:
    """Encode a varint that is not negative."""
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)

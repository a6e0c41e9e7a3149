"""The wire format of protocol buffers, as far as requests need it: fields of a message, one after the other.

Written by hand because a message of a few bytes can say very much: a parser that makes an object of every two of them
takes a hundred times the memory of what was sent. Here nothing is made of what nobody asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
"""How a value is written."""

_SIZES: Final = {EIGHT: 8, FOUR: 4}
_DOUBLE: Final = struct.Struct("<d")


class Malformed(ValueError):
    """These bytes are no message."""


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number, and where what follows it begins."""
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                raise Malformed("a number without an end")
    except IndexError as error:
        raise Malformed("it is cut off") from error


def fields(data: bytes | memoryview, at: int = 0) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, how it is written, and value. Groups, which no message here has, are malformed."""
    view, end = memoryview(data), len(data)
    while at < end:
        tag, at = varint(view, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise Malformed("a field without a number")
        if kind == VARINT:
            value, at = varint(view, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = varint(view, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise Malformed(f"a field of kind {kind}")
        if at + size > end:
            raise Malformed("it is cut off")
        yield number, kind, view[at : at + size]
        at += size


def behind(view: memoryview, at: int) -> int:
    """The end of the field that begins here."""
    for _, kind, value in fields(view, at):
        start = varint(view, at)[1]
        if isinstance(value, int):
            return varint(view, start)[1]
        return (varint(view, start)[1] if kind == BYTES else start) + len(value)
    raise Malformed("it is cut off")


def text(value: int | memoryview) -> str:
    if isinstance(value, int):
        raise Malformed("a number in place of a text")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a text that is not UTF-8") from error


def inner(value: int | memoryview) -> memoryview:
    """A message within the message."""
    if isinstance(value, int):
        raise Malformed("a number in place of a message")
    return value


def signed(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise Malformed("something else in place of a number")
    return value - (1 << 64) if value >> 63 else value


def double(value: int | memoryview) -> float:
    if isinstance(value, int) or len(value) != _DOUBLE.size:
        raise Malformed("something else in place of a double")
    number: float = _DOUBLE.unpack(value)[0]
    return number


def numbers(kind: int, value: int | memoryview) -> Iterator[int]:
    """Of a repeated field: one, or many of them packed."""
    if kind == VARINT:
        yield signed(value)
        return
    view = inner(value)
    at = 0
    while at < len(view):
        number, at = varint(view, at)
        yield signed(number)


def field(number: int, data: bytes | memoryview) -> bytes:
    """One with bytes in it, to be written."""
    return bytes((number << 3 | BYTES,)) + written(len(data)) + data


def written(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)

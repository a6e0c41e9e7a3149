"""Converts typed tensor contents (InferTensorContents) to raw bytes.

Packed floats already have the right bytes and are used unchanged. A parser in C reads integers, in small steps, so that
a large conversion can yield to other tasks (`convert_in_steps`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.wire import message_types
from mizzen.protobuf_wire import (
    BYTES,
    CUT_OFF,
    UNTERMINATED,
    Malformed,
    encode_field,
    encode_varint,
    field_end,
    iter_fields,
    message_of,
    read_varint,
)

STEP = 32 << 10
"""Bytes of integers per step, and eight times the number of texts: about a millisecond."""
MAX_PIECES = 4096
"""Maximum pieces for the numbers of one input; clients pack them into one."""

_TOO_MANY_UNKNOWN = "it has too many unknown fields"

_FIELDS: Final = {
    1: "bool_contents", 2: "int_contents", 3: "int64_contents", 4: "uint_contents", 5: "uint64_contents",
    6: "fp32_contents", 7: "fp64_contents", 8: "bytes_contents",
}  # fmt: skip
_KINDS: Final = {
    "BOOL": (1, "B"), "INT8": (2, "b"), "INT16": (2, "h"), "INT32": (2, "i"), "INT64": (3, "q"), "UINT8": (4, "B"),
    "UINT16": (4, "H"), "UINT32": (4, "I"), "UINT64": (5, "Q"), "FP32": (6, "f"), "FP64": (7, "d"), "BYTES": (8, ""),
}  # fmt: skip
"""The field that holds the values of a datatype, and the `array` type code of the result."""
_READ_AS: Final = {1: 1, 2: 3, 3: 3, 4: 5, 5: 5}
"""The field that the parser reads them as: the widest of their sign, so that nothing is truncated silently."""
_TEXT: Final = 8 << 3 | BYTES
_LENGTH: Final = struct.Struct("<I")

_Contents = message_types.class_of("inference.InferTensorContents")


def convert_in_steps(
    pieces: Iterable[memoryview], datatype: str, place: int, most: int = 1 << 62
) -> Generator[int, None, memoryview]:
    """Return the values of input `place` as bytes; yields the size so far after each step. Raises ValueError with a
    message for the caller, and TooLarge beyond `most` bytes."""
    if datatype not in _KINDS:
        raise ValueError(f"inputs[{place}].datatype: {datatype} must be sent in raw_input_contents")
    number, code = _KINDS[datatype]
    if not code:
        return (yield from _convert_texts(pieces, place, most))
    made = _ByteJoiner()
    for count, (kind, value) in enumerate(_iter_values(pieces, datatype, place), 1):
        if count > MAX_PIECES:  # unpacked values would take a hundred times as long, and no client sends them
            raise ValueError(f"inputs[{place}].contents.{_FIELDS[number]}: its values must be packed")
        if code in "fd":
            made.add(_check_floats(message_of(value), code))
        else:
            packed = message_of(value) if kind == BYTES else memoryview(encode_varint(_varint_of(value)))
            for step in _split_integers(packed):
                made.add(
                    _pack_integers(
                        step, number, code, f"inputs[{place}].contents.{_FIELDS[number]}: out of range for {datatype}"
                    )
                )
                if len(made) > most:
                    break
                if len(step) >= STEP:
                    yield len(made)
        if len(made) > most:
            raise TooLarge(f"inputs[{place}].contents: more than {most} bytes")
    return made.view


def run_to_end(work: Generator[int, None, Any]) -> Any:
    """Run all steps and return the result; for small inputs."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


def _convert_texts(pieces: Iterable[memoryview], place: int, most: int) -> Generator[int, None, memoryview]:
    """Convert BYTES elements. Written for speed, because there may be millions."""
    made = bytearray()
    count = unknown = 0
    for piece in pieces:
        data, at, end = bytes(piece), 0, len(piece)
        while at < end:
            if data[at] != _TEXT or at + 1 == end:
                number, _, _ = next(iter_fields(piece, at))
                if number in _FIELDS:
                    raise ValueError(f"inputs[{place}].contents.{_FIELDS[number]}: BYTES must be in bytes_contents")
                unknown += 1
                if unknown > MAX_PIECES:
                    raise Malformed(_TOO_MANY_UNKNOWN)
                at = field_end(piece, at)
                continue
            size, start = data[at + 1], at + 2
            if size > 127:
                size, start = read_varint(data, at + 1)
            at = start + size
            if at > end:
                raise Malformed(CUT_OFF)
            made += _LENGTH.pack(size)
            made += data[start:at]
            count += 1
            if not count % (STEP // 8):
                if len(made) > most:
                    raise TooLarge(f"inputs[{place}].contents: more than {most} bytes")
                yield len(made)
    if len(made) > most:
        raise TooLarge(f"inputs[{place}].contents: more than {most} bytes")
    return memoryview(made)


class _ByteJoiner:
    """Joins pieces of bytes. A single piece, the common case, is not copied."""

    __slots__ = ("_joined", "_whole")

    def __init__(self) -> None:
        self._whole: bytes | memoryview = b""
        self._joined = bytearray()

    def __len__(self) -> int:
        return len(self._whole) + len(self._joined)

    @property
    def view(self) -> memoryview:
        return memoryview(self._joined or self._whole)

    def add(self, piece: bytes | memoryview) -> None:
        if not self:
            self._whole = piece
            return
        if self._whole:
            self._joined += self._whole
            self._whole = b""
        self._joined += piece


def _iter_values(pieces: Iterable[memoryview], datatype: str, place: int) -> Iterator[tuple[int, int | memoryview]]:
    number, _ = _KINDS[datatype]
    unknown = 0
    for found, kind, value in (each for piece in pieces for each in iter_fields(piece)):
        if found == number:
            yield kind, value
            continue
        if found in _FIELDS:
            raise ValueError(f"inputs[{place}].contents.{_FIELDS[found]}: {datatype} must be in {_FIELDS[number]}")
        unknown += 1
        if unknown > MAX_PIECES:
            raise Malformed(_TOO_MANY_UNKNOWN)


def _varint_of(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise Malformed("it has bytes of a fixed size where a varint is expected")
    return value


def _check_floats(packed: memoryview, code: str) -> memoryview:
    if len(packed) % array(code).itemsize:
        raise Malformed("it has truncated floats")
    return packed


def _split_integers(packed: memoryview) -> Iterator[bytes]:
    """Split packed integers into pieces of about STEP bytes, none of which ends within a number."""
    at = 0
    while at < len(packed):
        end = min(at + STEP, len(packed))
        while end < len(packed) and packed[end - 1] > 127:
            end += 1
        yield bytes(packed[at:end])
        at = end


def _pack_integers(packed: bytes, number: int, code: str, fault: str) -> bytes:
    """`fault`: error text for a number that is out of range."""
    if number > 1 and packed.isascii():  # all numbers have one byte
        return packed if code in "bB" else array(code, list(packed)).tobytes()
    as_ = _READ_AS[number]
    try:
        return array(code, getattr(_Contents.FromString(encode_field(as_, packed)), _FIELDS[as_])).tobytes()
    except message_types.DecodeError as error:
        raise Malformed(UNTERMINATED) from error
    except OverflowError as error:
        raise ValueError(fault) from error

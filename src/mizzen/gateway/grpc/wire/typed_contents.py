"""Values of tensors that came one by one in a message, in place of raw bytes: made into those.

Floats are packed as the bytes that we want, so they are taken as they are. Integers are read by a parser in C, in small
steps: whoever has many of them to make takes turns with others (`steps`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from mizzen.errors import TooLarge
from mizzen.gateway.grpc.wire import message_types
from mizzen.gateway.grpc.wire.protobuf import BYTES, Malformed, behind, field, fields, inner, varint, written

STEP = 32 << 10
"""Bytes of integers, and an eighth of so many texts, that are read at a time: about a millisecond."""
MOST_PIECES = 4096
"""In which the numbers of one input may come; clients pack them into one."""

_FIELDS: Final = {
    1: "bool_contents", 2: "int_contents", 3: "int64_contents", 4: "uint_contents", 5: "uint64_contents",
    6: "fp32_contents", 7: "fp64_contents", 8: "bytes_contents",
}  # fmt: skip
_KINDS: Final = {
    "BOOL": (1, "B"), "INT8": (2, "b"), "INT16": (2, "h"), "INT32": (2, "i"), "INT64": (3, "q"), "UINT8": (4, "B"),
    "UINT16": (4, "H"), "UINT32": (4, "I"), "UINT64": (5, "Q"), "FP32": (6, "f"), "FP64": (7, "d"), "BYTES": (8, ""),
}  # fmt: skip
"""Where the values of a datatype are, and as what they are written."""
_READ_AS: Final = {1: 1, 2: 3, 3: 3, 4: 5, 5: 5}
"""Which field the parser reads them as: the widest of their sign, so that nothing is cut off in silence."""
_TEXT: Final = 8 << 3 | BYTES
_LENGTH: Final = struct.Struct("<I")

_Contents = message_types.of("inference.InferTensorContents")


def steps(
    pieces: Iterable[memoryview], datatype: str, place: int, most: int = 1 << 62
) -> Generator[int, None, memoryview]:
    """The values of input `place` as bytes; after each step, how many there are by now. ValueError, in words for the
    caller; TooLarge beyond `most` of them."""
    if datatype not in _KINDS:
        raise ValueError(f"inputs[{place}].datatype: {datatype} has to come in raw_input_contents")
    number, code = _KINDS[datatype]
    if not code:
        return (yield from _texts(pieces, place, most))
    made = _Made()
    for count, (kind, value) in enumerate(_values(pieces, datatype, place), 1):
        if count > MOST_PIECES:  # each by itself would take a hundred times as long, and no client writes them so
            raise ValueError(f"inputs[{place}].contents.{_FIELDS[number]}: its values are not packed")
        if code in "fd":
            made.add(_floats(inner(value), code))
        else:
            packed = memoryview(value if kind == BYTES else written(value))  # type: ignore[arg-type]
            for step in _integers(packed):
                made.add(_read(step, number, code, f"inputs[{place}].contents.{_FIELDS[number]}: no {datatype}"))
                if len(made) > most:
                    break
                if len(step) >= STEP:
                    yield len(made)
        if len(made) > most:
            raise TooLarge(f"inputs[{place}].contents: more than {most} bytes")
    return made.view


def at_once(work: Generator[int, None, Any]) -> Any:
    """What comes of it, for who has little of it."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


def _texts(pieces: Iterable[memoryview], place: int, most: int) -> Generator[int, None, memoryview]:
    """There may be millions of them, so this is written for speed."""
    made = bytearray()
    count = 0
    for piece in pieces:
        data, at, end = bytes(piece), 0, len(piece)
        while at < end:
            if data[at] != _TEXT or at + 1 == end:
                number, _, _ = next(fields(piece, at))
                if number in _FIELDS:
                    raise ValueError(f"inputs[{place}].contents.{_FIELDS[number]}: BYTES has to be in bytes_contents")
                at = behind(piece, at)
                continue
            size, start = data[at + 1], at + 2
            if size > 127:
                size, start = varint(data, at + 1)
            at = start + size
            if at > end:
                raise Malformed("it is cut off")
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


class _Made:
    """Bytes that are put together; mostly they come in one piece, which is not copied."""

    __slots__ = ("_made", "_whole")

    def __init__(self) -> None:
        self._whole: bytes | memoryview = b""
        self._made = bytearray()

    def __len__(self) -> int:
        return len(self._whole) + len(self._made)

    @property
    def view(self) -> memoryview:
        return memoryview(self._made or self._whole)

    def add(self, piece: bytes | memoryview) -> None:
        if not self:
            self._whole = piece
            return
        if self._whole:
            self._made += self._whole
            self._whole = b""
        self._made += piece


def _values(pieces: Iterable[memoryview], datatype: str, place: int) -> Iterator[tuple[int, int | memoryview]]:
    number, _ = _KINDS[datatype]
    for found, kind, value in (each for piece in pieces for each in fields(piece)):
        if found == number:
            yield kind, value
        elif found in _FIELDS:
            raise ValueError(f"inputs[{place}].contents.{_FIELDS[found]}: {datatype} has to be in {_FIELDS[number]}")


def _floats(packed: memoryview, code: str) -> memoryview:
    if len(packed) % array(code).itemsize:
        raise Malformed("floats that are cut off")
    return packed


def _integers(packed: memoryview) -> Iterator[bytes]:
    """In pieces to be read at a time, none of which ends within a number."""
    at = 0
    while at < len(packed):
        end = min(at + STEP, len(packed))
        while end < len(packed) and packed[end - 1] > 127:
            end += 1
        yield bytes(packed[at:end])
        at = end


def _read(packed: bytes, number: int, code: str, fault: str) -> bytes:
    """`fault`: what to say of a number that is too large."""
    if number > 1 and packed.isascii():  # numbers of one byte each
        return packed if code in "bB" else array(code, list(packed)).tobytes()
    as_ = _READ_AS[number]
    try:
        return array(code, getattr(_Contents.FromString(field(as_, packed)), _FIELDS[as_])).tobytes()
    except message_types.DecodeError as error:
        raise Malformed("a number without an end") from error
    except OverflowError as error:
        raise ValueError(fault) from error

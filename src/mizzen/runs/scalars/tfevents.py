"""Event files of TensorBoard, as TensorFlow, Keras, PyTorch and others write them: the scalars in them.

Each record is a length, its checksum, a protobuf `Event` and the checksum of that. Of the protobuf only the fields
that hold scalars are read:

    Event   { 1: wall_time double, 2: step int64, 5: summary { 1: value Value … } }
    Value   { 1: tag string, 2: simple_value float, 8: tensor Tensor, 9: metadata { 1: plugin { 1: name string } } }
    Tensor  { 1: dtype, 2: shape { 2: dim { 1: size } … }, 4: content bytes, 5: float, 6: double, 7: int, 10: int64 }
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MOST_RECORD = 1 << 20
"""Bytes of a record that is looked into: longer ones are images, graphs and the like."""

_HEAD = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?", 19: "<e", 22: "<I", 23: "<Q"}
"""How one number of a dtype lies in `content`."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_NO_SCALARS = "_hparams_/"
"""Tags of what else is written as numbers."""


class Damaged(ValueError):
    """From here on nothing in the file can be relied on."""


@dataclass(frozen=True, slots=True)
class Scalar:
    tag: str
    step: int
    value: float
    time: float


def read(data: bytes) -> tuple[list[Scalar], int]:
    """The scalars in whole records at the beginning of `data`, and how many bytes those records have.

    More than `len(data)` bytes: the rest of a long record, which can be skipped. Raises Damaged, with what was read
    before as its second argument.
    """
    found: list[Scalar] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, check = _HEAD.unpack_from(data, at)
        if _masked_length(length) != check:
            raise Damaged("a length is not what its checksum says", found)
        begin = at + _HEAD.size
        end = begin + length + _CHECK.size
        if length > MOST_RECORD:
            at = end
            continue
        if end > len(data):
            break
        record = data[begin : begin + length]
        try:
            scalars = list(_scalars(record))
        except (ValueError, struct.error) as error:
            raise Damaged(f"a record cannot be read: {error}", found) from error
        # What nothing is taken of need not be checked; that is most of the bytes.
        if scalars and masked(record) != _CHECK.unpack_from(data, begin + length)[0]:
            raise Damaged("a record is not what its checksum says", found)
        found += scalars
        at = end
    return found, at


def masked(data: bytes) -> int:
    """CRC-32C, as records have it: rotated and moved, so that a checksum of checksums is none by chance."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache(4096)
def _masked_length(length: int) -> int:
    return masked(length.to_bytes(8, "little"))


def _scalars(event: bytes) -> Iterator[Scalar]:
    time, step, summaries = 0.0, 0, []
    for number, wire, value, begin, end in _fields(event, 0, len(event)):
        match number, wire:
            case 1, 1:
                time = _DOUBLE.unpack_from(event, begin)[0]
            case 2, 0:
                step = _signed(value)
            case 5, 2:
                summaries.append((begin, end))
    for first, last in summaries:
        for number, wire, _, begin, end in _fields(event, first, last):
            if (number, wire) == (1, _BYTES):
                told = _value(event, begin, end)
                if told is not None:
                    yield Scalar(told[0], step, told[1], time)


def _value(data: bytes, at: int, stop: int) -> tuple[str, float] | None:
    """Tag and number; None for what is no scalar."""
    tag, number_told, plugin = "", None, "scalars"
    for number, wire, _, begin, end in _fields(data, at, stop):
        match number, wire:
            case 1, 2:
                tag = data[begin:end].decode("utf-8", "replace")
            case 2, 5:
                number_told = _FLOAT.unpack_from(data, begin)[0]
            case 8, 2:
                number_told = _tensor(data, begin, end)
            case 9, 2:
                plugin = _plugin(data, begin, end) or plugin
    scalar = number_told is not None and tag and plugin == "scalars" and not tag.startswith(_NO_SCALARS)
    return (tag, number_told) if scalar and number_told is not None else None


def _plugin(data: bytes, at: int, stop: int) -> str:
    for number, wire, _, begin, end in _fields(data, at, stop):
        if (number, wire) == (1, _BYTES):
            for inner, inner_wire, _, first, last in _fields(data, begin, end):
                if (inner, inner_wire) == (1, _BYTES):
                    return data[first:last].decode("utf-8", "replace")
    return ""


def _tensor(data: bytes, at: int, stop: int) -> float | None:
    """The one number it holds; None when there are more, or it is none."""
    dtype, content, found = 0, b"", []
    for number, wire, value, begin, end in _fields(data, at, stop):
        match number, wire:
            case 1, 0:
                dtype = value
            case 2, 2:
                if not _one(data, begin, end):
                    return None
            case 4, 2:
                content = data[begin:end]
            case (5, 5) | (5, 2):
                found += [_FLOAT.unpack_from(data, place)[0] for place in range(begin, end, 4)]
            case (6, 1) | (6, 2):
                found += [_DOUBLE.unpack_from(data, place)[0] for place in range(begin, end, 8)]
            case (7, 0) | (10, 0):
                found.append(_signed(value))
            case (7, 2) | (10, 2):
                found += [_signed(each) for each in _varints(data, begin, end)]
    layout = _CONTENT.get(dtype)
    if content and layout is not None and len(content) == struct.calcsize(layout):
        found = [struct.unpack(layout, content)[0]]
    return float(found[0]) if len(found) == 1 else None


def _one(data: bytes, at: int, stop: int) -> bool:
    """Whether a shape is of one element."""
    for number, wire, _, begin, end in _fields(data, at, stop):
        if (number, wire) == (2, _BYTES):
            sizes = [value for inner, kind, value, _, _ in _fields(data, begin, end) if (inner, kind) == (1, _VARINT)]
            if sizes != [1]:
                return False
    return True


def _fields(data: bytes, at: int, stop: int) -> list[tuple[int, int, int, int, int]]:
    """Number, wire type, value of a varint, and where the field's own bytes begin and end."""
    found = []
    while at < stop:
        key = data[at]
        at += 1
        if key >= 0x80:
            key, at = _varint(data, at - 1, stop)
        wire, value, begin = key & 7, 0, at
        if wire == _BYTES:
            length, begin = _varint(data, at, stop)
            at = begin + length
        elif wire == _VARINT:
            value, at = _varint(data, at, stop)
        elif wire == _EIGHT:
            at += 8
        elif wire == _FOUR:
            at += 4
        else:
            raise ValueError(f"wire type {wire}")
        if at > stop:
            raise ValueError("a field is longer than what it is in")
        found.append((key >> 3, wire, value, begin, at))
    return found


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    if at < stop and data[at] < 0x80:  # most are so short
        return data[at], at + 1
    value = shift = 0
    while at < stop:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            break
    raise ValueError("a number has no end")


def _varints(data: bytes, at: int, stop: int) -> Iterator[int]:
    while at < stop:
        value, at = _varint(data, at, stop)
        yield value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return tuple(found)


_TABLE = _table()

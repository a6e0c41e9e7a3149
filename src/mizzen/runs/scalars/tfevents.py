"""Scalars in event files of TensorBoard, as TensorFlow, Keras, PyTorch and others write them.

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

from mizzen import protobuf_wire
from mizzen.protobuf_wire import BYTES, VARINT

MOST_RECORD = 1 << 20
"""Maximum bytes of a record that is parsed: longer ones are images, graphs and the like."""

_HEAD = struct.Struct("<QI")
_CHECK = struct.Struct("<I")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?", 19: "<e", 22: "<I", 23: "<Q"}
"""How one number of a dtype is stored in `content`."""
_NO_SCALARS = "_hparams_/"
"""Tags of other numeric content."""


class Damaged(ValueError):
    """From here on the file's content is unreliable."""


@dataclass(frozen=True, slots=True)
class Scalar:
    tag: str
    step: int
    value: float
    time: float


def read(data: bytes) -> tuple[list[Scalar], int]:
    """Return the scalars in whole records at the beginning of `data`, and how many bytes those records have.

    More than `len(data)` bytes: the rest of a long record, which can be skipped. Raises Damaged, with the scalars read
    before as its second argument.
    """
    found: list[Scalar] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, check = _HEAD.unpack_from(data, at)
        if _crc_of_length(length) != check:
            raise Damaged("the checksum of a length does not match", found)
        begin = at + _HEAD.size
        end = begin + length + _CHECK.size
        if length > MOST_RECORD:
            at = end
            continue
        if end > len(data):
            break
        record = data[begin : begin + length]
        try:
            scalars = list(_parse_event(record))
        except (ValueError, struct.error) as error:
            raise Damaged(f"a record cannot be read: {error}", found) from error
        # Unused records need no check; they are most of the bytes.
        if scalars and mask_crc(record) != _CHECK.unpack_from(data, begin + length)[0]:
            raise Damaged("the checksum of a record does not match", found)
        found += scalars
        at = end
    return found, at


def mask_crc(data: bytes) -> int:
    """Return the masked CRC-32C of records: rotated and offset, so that checksums of data with embedded checksums stay
    useful."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@functools.lru_cache(4096)
def _crc_of_length(length: int) -> int:
    return mask_crc(length.to_bytes(8, "little"))


def _parse_event(event: bytes) -> Iterator[Scalar]:
    time, step, summaries = 0.0, 0, []
    for number, wire, value in protobuf_wire.iter_fields(event):
        match number, wire:
            case 1, 1:
                time = protobuf_wire.double_of(value)
            case 2, 0:
                step = protobuf_wire.signed_of(value)
            case 5, 2:
                summaries.append(protobuf_wire.message_of(value))
    for summary in summaries:
        for found in map(_parse_value, _iter_messages(summary, 1)):
            if found is not None:
                yield Scalar(found[0], step, found[1], time)


def _parse_value(message: memoryview) -> tuple[str, float] | None:
    """Return tag and number of a Value; None if it is not a scalar."""
    tag, scalar, plugin = "", None, "scalars"
    for number, wire, value in protobuf_wire.iter_fields(message):
        match number, wire:
            case 1, 2:
                tag = str(protobuf_wire.message_of(value), "utf-8", "replace")
            case 2, 5:
                scalar = _FLOAT.unpack(protobuf_wire.message_of(value))[0]
            case 8, 2:
                scalar = _number_of(protobuf_wire.message_of(value))
            case 9, 2:
                plugin = _plugin_of(protobuf_wire.message_of(value)) or plugin
    if scalar is None or not tag or plugin != "scalars" or tag.startswith(_NO_SCALARS):
        return None
    return tag, scalar


def _plugin_of(metadata: memoryview) -> str:
    names = (name for plugin in _iter_messages(metadata, 1) for name in _iter_messages(plugin, 1))
    return str(next(names, b""), "utf-8", "replace")


def _number_of(tensor: memoryview) -> float | None:
    """Return the only number in a tensor; None if there are more, or none."""
    dtype, content, found = 0, b"", []
    for number, wire, value in protobuf_wire.iter_fields(tensor):
        match number, wire:
            case 1, 0:
                dtype = protobuf_wire.signed_of(value)
            case 2, 2:
                if not _is_scalar_shape(protobuf_wire.message_of(value)):
                    return None
            case 4, 2:
                content = bytes(protobuf_wire.message_of(value))
            case (5, 5) | (5, 2):
                found += [each for (each,) in _FLOAT.iter_unpack(protobuf_wire.message_of(value))]
            case (6, 1) | (6, 2):
                found += [each for (each,) in _DOUBLE.iter_unpack(protobuf_wire.message_of(value))]
            case (7, 0 | 2) | (10, 0 | 2):
                found += protobuf_wire.iter_numbers(wire, value)
    layout = _CONTENT.get(dtype)
    if content and layout is not None and len(content) == struct.calcsize(layout):
        found = [struct.unpack(layout, content)[0]]
    return float(found[0]) if len(found) == 1 else None


def _is_scalar_shape(shape: memoryview) -> bool:
    """Return whether a shape has one element."""
    return all(
        [size for number, wire, size in protobuf_wire.iter_fields(dimension) if (number, wire) == (1, VARINT)] == [1]
        for dimension in _iter_messages(shape, 2)
    )


def _iter_messages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yield the messages in the fields with this number."""
    for number, wire, value in protobuf_wire.iter_fields(message):
        if (number, wire) == (wanted, BYTES):
            yield protobuf_wire.message_of(value)


def _build_table() -> tuple[int, ...]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return tuple(table)


_TABLE = _build_table()

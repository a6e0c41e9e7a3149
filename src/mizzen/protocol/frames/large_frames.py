"""INFER frames of large calls, without copying tensor data into or out of the frame.

The frame is written as a list of pieces and read as views. Small calls are encoded and decoded as a whole, which is
faster than many pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from mizzen.protocol.frames import framing, msgpack

Piece = bytes | memoryview

_BIN32 = _ARRAY32 = struct.Struct(">BI")
_ARRAY, _BIN, _TENSOR = 0xDD, 0xC6, 0x95


def encode_infer(serial: int, items: Sequence[Any], version: int = framing.VERSION) -> list[Piece]:
    """Encode an INFER frame. `items`: its entries, with tensor data as bytes or views of bytes."""
    pieces: list[Piece] = [b""]
    text = bytearray(_array_head(items))
    for item in items:
        if isinstance(item, dict):  # caller details, after the last entry
            text += msgpack.pack(item)
            continue
        text += _array_head(item)
        if len(item) == 1:
            text = _add_data(pieces, text, item[0])
            continue
        inputs, *wishes = item
        text += _array_head(inputs)
        for *described, data in inputs:
            text.append(_TENSOR)
            for part in described:
                text += msgpack.pack(part)
            text = _add_data(pieces, text, data)
        for wish in wishes:
            text += msgpack.pack(wish)
    pieces.append(bytes(text))
    length = sum(map(len, pieces))
    pieces[0] = framing.HEADER.pack(framing.HEADER.size + length, version, framing.INFER, framing.LAST, serial)
    return pieces


def _add_data(pieces: list[Piece], before: bytearray, data: Piece) -> bytearray:
    """Append the text so far and the data, uncopied; return a new buffer for the text that follows."""
    before += _BIN32.pack(_BIN, len(data))
    pieces += (bytes(before), data)
    return bytearray()


def _array_head(items: Sequence[Any]) -> bytes:
    return _ARRAY32.pack(_ARRAY, len(items))


def decode_requests(body: memoryview) -> list[Any] | None:
    """Decode the entries of a frame from `encode_infer`, with raw data as views. None: the frame has another form.

    Raises ValueError if the frame begins in this form but is malformed.
    """
    if body[0] != _ARRAY:
        return None
    count, at = _read_head(body, 0, _ARRAY)
    if count * framing.LARGE > 2 * len(body):
        return None  # many small ones
    entries: list[Any] = []
    try:
        for _ in range(count):
            read = _read_entry if body[at] == _ARRAY else msgpack.read_at  # the last entry may hold caller details
            entry, at = read(body, at)
            entries.append(entry)
    except IndexError:
        raise ValueError("the frame ends too early") from None
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes follow the last entry")
    return entries


def _read_entry(body: memoryview, at: int) -> tuple[list[Any], int]:
    parts, at = _read_head(body, at, _ARRAY)
    if parts == 1:
        data, at = _read_data(body, at)
        return [bytes(data)], at
    count, at = _read_head(body, at, _ARRAY)
    inputs = []
    for _ in range(count):
        if body[at] != _TENSOR:
            raise ValueError("malformed input")
        at += 1
        described = []
        for _ in range(4):
            value, at = msgpack.read_at(body, at)
            described.append(value)
        data, at = _read_data(body, at)
        inputs.append([*described, data if described[-1] == framing.RAW else bytes(data)])
    entry: list[Any] = [inputs]
    for _ in range(parts - 1):
        wish, at = msgpack.read_at(body, at)
        entry.append(wish)
    return entry, at


def _read_head(body: memoryview, at: int, code: int) -> tuple[int, int]:
    """Return the size from the head of a list or of bytes, and the offset behind it."""
    if len(body) < at + _BIN32.size:
        raise ValueError("the frame ends too early")
    found, size = _BIN32.unpack_from(body, at)
    if found != code:
        raise ValueError(f"code 0x{found:02x} where 0x{code:02x} was expected")
    return size, at + _BIN32.size


def _read_data(body: memoryview, at: int) -> tuple[memoryview, int]:
    size, at = _read_head(body, at, _BIN)
    if len(body) < at + size:
        raise ValueError("the frame ends too early")
    return body[at : at + size], at + size

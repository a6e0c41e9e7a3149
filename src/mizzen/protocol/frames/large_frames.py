"""INFER frames of large calls: what tensors hold is not copied, neither into the frame nor out of it.

It is written as pieces, one after the other, and read as views. Of small calls the frame is encoded and decoded whole,
which is quicker than many pieces are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from mizzen.protocol.frames import framing, msgpack

Piece = bytes | memoryview

_BIN32 = _ARRAY32 = struct.Struct(">BI")
_ARRAY, _BIN, _TENSOR = 0xDD, 0xC6, 0x95


def infer_frame(serial: int, items: Sequence[Any], version: int = framing.VERSION) -> list[Piece]:
    """`items` are entries of an INFER frame, with tensors' data as bytes or views of bytes."""
    pieces: list[Piece] = [b""]
    text = bytearray(_array(items))
    for item in items:
        if isinstance(item, dict):  # who sent them, after the last one
            text += msgpack.pack(item)
            continue
        text += _array(item)
        if len(item) == 1:
            text = _add(pieces, text, item[0])
            continue
        inputs, *wishes = item
        text += _array(inputs)
        for *described, data in inputs:
            text.append(_TENSOR)
            for part in described:
                text += msgpack.pack(part)
            text = _add(pieces, text, data)
        for wish in wishes:
            text += msgpack.pack(wish)
    pieces.append(bytes(text))
    length = sum(map(len, pieces))
    pieces[0] = framing.HEADER.pack(framing.HEADER.size + length, version, framing.INFER, framing.LAST, serial)
    return pieces


def _add(pieces: list[Piece], before: bytearray, data: Piece) -> bytearray:
    """The data as it is, after what comes before it; returns where what follows is written."""
    before += _BIN32.pack(_BIN, len(data))
    pieces += (bytes(before), data)
    return bytearray()


def _array(items: Sequence[Any]) -> bytes:
    return _ARRAY32.pack(_ARRAY, len(items))


def requests(body: memoryview) -> list[Any] | None:
    """The entries of a frame as `infer_frame` writes it, raw data as views of it. None: it is written otherwise.

    ValueError when it begins so, and does not go on.
    """
    if body[0] != _ARRAY:
        return None
    count, at = _head(body, 0, _ARRAY)
    if count * framing.LARGE > 2 * len(body):
        return None  # many small ones
    entries: list[Any] = []
    try:
        for _ in range(count):
            read = _entry if body[at] == _ARRAY else msgpack.read_at  # the last one may say who sent them
            entry, at = read(body, at)
            entries.append(entry)
    except IndexError:
        raise ValueError("the frame ends too early") from None
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes follow the last entry")
    return entries


def _entry(body: memoryview, at: int) -> tuple[list[Any], int]:
    parts, at = _head(body, at, _ARRAY)
    if parts == 1:
        data, at = _data(body, at)
        return [bytes(data)], at
    count, at = _head(body, at, _ARRAY)
    inputs = []
    for _ in range(count):
        if body[at] != _TENSOR:
            raise ValueError("an input that is none")
        at += 1
        described = []
        for _ in range(4):
            value, at = msgpack.read_at(body, at)
            described.append(value)
        data, at = _data(body, at)
        inputs.append([*described, data if described[-1] == framing.RAW else bytes(data)])
    entry: list[Any] = [inputs]
    for _ in range(parts - 1):
        wish, at = msgpack.read_at(body, at)
        entry.append(wish)
    return entry, at


def _head(body: memoryview, at: int, code: int) -> tuple[int, int]:
    """The size in the head of a list or of bytes, and where it ends."""
    if len(body) < at + _BIN32.size:
        raise ValueError("the frame ends too early")
    found, size = _BIN32.unpack_from(body, at)
    if found != code:
        raise ValueError(f"code 0x{found:02x} where 0x{code:02x} was expected")
    return size, at + _BIN32.size


def _data(body: memoryview, at: int) -> tuple[memoryview, int]:
    size, at = _head(body, at, _BIN)
    if len(body) < at + size:
        raise ValueError("the frame ends too early")
    return body[at : at + size], at + size

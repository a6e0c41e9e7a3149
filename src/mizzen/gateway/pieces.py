"""An INFER frame as pieces, to be written one after the other: what tensors hold is not copied into it.

For large calls only. Of small ones the frame is encoded whole, which is quicker than many pieces are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from mizzen.protocol import frames

Piece = bytes | memoryview

_BIN32, _ARRAY32 = struct.Struct(">BI"), struct.Struct(">BI")
_encode = msgspec.msgpack.Encoder().encode


def infer_frame(serial: int, items: Sequence[Any]) -> list[Piece]:
    """`items` are entries of an INFER frame, with tensors' data as bytes or views of bytes."""
    pieces: list[Piece] = [b""]
    text = bytearray(_array(items))
    for item in items:
        if isinstance(item, dict):  # who sent them, after the last one
            text += _encode(item)
            continue
        text += _array(item)
        if len(item) == 1:
            text = _add(pieces, text, item[0])
            continue
        inputs, *wishes = item
        text += _array(inputs)
        for *described, data in inputs:
            text += b"\x95"
            for part in described:
                text += _encode(part)
            text = _add(pieces, text, data)
        for wish in wishes:
            text += _encode(wish)
    pieces.append(bytes(text))
    length = sum(map(len, pieces))
    pieces[0] = frames.HEADER.pack(frames.HEADER.size + length, frames.VERSION, frames.INFER, frames.LAST, serial)
    return pieces


def _add(pieces: list[Piece], before: bytearray, data: Piece) -> bytearray:
    """The data as it is, after what comes before it; returns where what follows is written."""
    before += _BIN32.pack(0xC6, len(data))
    pieces += (bytes(before), data)
    return bytearray()


def _array(items: Sequence[Any]) -> bytes:
    return _ARRAY32.pack(0xDD, len(items))

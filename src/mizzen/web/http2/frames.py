"""The frames of HTTP/2 (RFC 9113): their numbers, and how one is written and read."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_WINDOW: Final = (1 << 31) - 1
HEAD_BYTES: Final = 9
FRAME_BYTES: Final = 16384
"""What a frame may hold unless its receiver allows more. We never do: it bounds what waits for the end of a frame."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)
"""The settings that are known."""

_HEAD = struct.Struct(">HBBBL")
_SETTING = struct.Struct(">HL")
_NUMBER = struct.Struct(">L")

head = _HEAD.pack
read_head = _HEAD.unpack_from
"""(length >> 8, length & 255, type, flags, stream)"""


class Code(IntEnum):
    """Why a stream or a connection is ended."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """The peer broke a rule that the whole connection depends on: it is told why, and closed."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    if len(payload) % _SETTING.size:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "settings of an odd length")
    return list(_SETTING.iter_unpack(payload))


def reset(stream: int, code: Code) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def window_update(stream: int, more: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(more))


def go_away(last: int, code: Code, message: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + message.encode()[:1000])


def number(payload: bytes) -> int:
    """Of a RST_STREAM or a WINDOW_UPDATE."""
    if len(payload) != _NUMBER.size:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame that must hold four bytes")
    value: int = _NUMBER.unpack(payload)[0]
    return value


def unpadded(flags: int, payload: bytes) -> bytes:
    """What is left of a DATA or HEADERS frame without padding and priority."""
    padding = start = 0
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a padded frame without its padding")
        padding, start = payload[0], 1
    if flags & PRIORITIZED:
        start += 5
    if start + padding > len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "more padding than frame")
    return payload[start : len(payload) - padding]

"""HTTP/2 frames (RFC 9113): constants, encoding and decoding."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_WINDOW: Final = (1 << 31) - 1
HEAD_BYTES: Final = 9
FRAME_BYTES: Final = 16384
"""Default maximum payload. This server never raises it, which bounds the buffer for an incomplete frame."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)
"""The known settings."""

_HEAD = struct.Struct(">HBBBL")
_SETTING = struct.Struct(">HL")
_NUMBER = struct.Struct(">L")

encode_head = _HEAD.pack
read_head = _HEAD.unpack_from
"""(length >> 8, length & 255, type, flags, stream)"""


class ErrorCode(IntEnum):
    """Why a stream or connection is closed."""

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
    """The peer violated the protocol in a way that ends the connection. It gets the reason before the close."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def encode_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def encode_settings(values: dict[int, int]) -> bytes:
    return encode_frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS frame of invalid length")
    return list(_SETTING.iter_unpack(payload))


def encode_reset(stream: int, code: ErrorCode) -> bytes:
    return encode_frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def encode_window_update(stream: int, more: int) -> bytes:
    return encode_frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(more))


def encode_goaway(last: int, code: ErrorCode, message: str = "") -> bytes:
    return encode_frame(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + message.encode()[:1000])


def read_number(payload: bytes) -> int:
    """Read the payload of a RST_STREAM or WINDOW_UPDATE frame."""
    if len(payload) != _NUMBER.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "the payload of this frame must have four bytes")
    value: int = _NUMBER.unpack(payload)[0]
    return value


def strip_padding(flags: int, payload: bytes) -> bytes:
    """Return the payload of a DATA or HEADERS frame without padding and priority."""
    padding = start = 0
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padded frame without padding length")
        padding, start = payload[0], 1
    if flags & PRIORITIZED:
        start += 5
    if start + padding > len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "padding exceeds the frame")
    return payload[start : len(payload) - padding]

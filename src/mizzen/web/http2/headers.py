"""HPACK: decodes request headers, and encodes response headers.

A client sends the same few bytes for the same headers, as long as the dynamic table of both sides does not change. So
decoded headers are cached by their bytes, and the cache is cleared with every change of the table.

Responses use no table: their headers are encoded once, as literals, and are the same bytes for every client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpack import Decoder
from hpack.exceptions import HPACKError

from mizzen.web.http2.frames import ConnectionFault, ErrorCode

MAX_LIST_BYTES = 16 << 10
"""All names and values of one request, plus 32 bytes each: a call with more is refused."""
MAX_DECODED_BYTES = 4 * MAX_LIST_BYTES
"""Beyond this, decoding stops. The connection is then unusable, because the table is out of sync."""
MAX_CACHED, MAX_CACHED_BLOCK = 32, 1024
"""Entries in a connection's cache, and the maximum encoded size of one."""
MAX_CACHED_BYTES = 32 << 10
"""Decoded bytes in a connection's cache: a few encoded bytes can stand for much from the table."""

_FIELD_BYTES = 32


class HeaderBlock:
    """The headers of one request, or of all requests with the same headers."""

    __slots__ = ("fields", "oversized", "parsed", "size")

    def __init__(self, fields: tuple[tuple[bytes, bytes], ...], size: int = 0, *, oversized: bool = False) -> None:
        self.fields = fields
        self.size = size
        """Bytes as HTTP/2 counts them."""
        self.oversized = oversized
        """The headers were too large and are not kept."""
        self.parsed: Any = None
        """The handler's parsed form, if it is valid for later requests too."""


class HeaderDecoder:
    """Decodes the request headers of one connection."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_DECODED_BYTES)
        self._known: dict[bytes, HeaderBlock] = {}
        self._known_bytes = 0

    def decode(self, block: bytes) -> HeaderBlock:
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table
        size, entries = table.maxsize, len(table.dynamic_entries)
        first = table.dynamic_entries[0] if entries else None
        try:
            fields = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        list_bytes = sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields)
        if list_bytes > MAX_LIST_BYTES:
            head = HeaderBlock((), oversized=True)
        else:
            head = HeaderBlock(tuple((bytes(name), bytes(value)) for name, value in fields), list_bytes)
        # A new table entry is always first, and a new object.
        newest = table.dynamic_entries[0] if table.dynamic_entries else None
        same = newest is first and len(table.dynamic_entries) == entries and table.maxsize == size
        full = len(self._known) >= MAX_CACHED or self._known_bytes + head.size > MAX_CACHED_BYTES
        if not same or full:
            self._known.clear()
            self._known_bytes = 0
        if same and len(block) <= MAX_CACHED_BLOCK:
            self._known[block] = head
            self._known_bytes += head.size
        return head


def encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode headers as HPACK literals that the receiver does not index."""
    return b"".join(b"\x00" + encode_text(name) + encode_text(value) for name, value in headers)


def encode_text(value: bytes) -> bytes:
    size = len(value)
    if size < 127:
        return bytes((size,)) + value
    size -= 127
    length = bytearray((127,))
    while size >= 128:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length) + value

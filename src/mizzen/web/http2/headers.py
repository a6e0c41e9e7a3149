"""Heads of requests out of HPACK, and heads of answers into it.

A client that repeats itself sends the same few bytes for the same head, as long as the table that both sides keep does
not change. So heads are remembered by their bytes, and forgotten with every change of the table.

Answers use no table: their heads are written once, as literals, and are the same bytes for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpack import Decoder
from hpack.exceptions import HPACKError

from mizzen.web.http2.frames import Code, ConnectionFault

LIST_BYTES = 16 << 10
"""All names and values of one head, and 32 more for each: a call with a longer one is refused."""
MOST_LIST_BYTES = 4 * LIST_BYTES
"""Beyond which it is not read to its end, without which no other head of the connection can be."""
REMEMBERED, BLOCK_TO_KEEP = 32, 1024
"""How many heads of a connection are remembered, and how long one may be for that."""
REMEMBERED_BYTES = 32 << 10
"""Of all of them as they are read: a few bytes can stand for much that is in the table."""

_FIELD_BYTES = 32


class Head:
    """Of one request, or of all that have the same."""

    __slots__ = ("fields", "meaning", "oversized", "size")

    def __init__(self, fields: tuple[tuple[bytes, bytes], ...], size: int = 0, *, oversized: bool = False) -> None:
        self.fields = fields
        self.size = size
        """Bytes, as HTTP/2 counts them."""
        self.oversized = oversized
        """There was more than is kept of it."""
        self.meaning: Any = None
        """What whoever answers has made of it, if that holds for the next one, too."""


class Heads:
    """The heads of one connection's requests."""

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MOST_LIST_BYTES)
        self._known: dict[bytes, Head] = {}
        self._known_bytes = 0

    def read(self, block: bytes) -> Head:
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table
        size, entries = table.maxsize, len(table.dynamic_entries)
        first = table.dynamic_entries[0] if entries else None
        try:
            fields = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from error
        list_bytes = sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields)
        if list_bytes > LIST_BYTES:
            head = Head((), oversized=True)
        else:
            head = Head(tuple((bytes(name), bytes(value)) for name, value in fields), list_bytes)
        # What is added to the table comes first in it, as an object of its own.
        newest = table.dynamic_entries[0] if table.dynamic_entries else None
        same = newest is first and len(table.dynamic_entries) == entries and table.maxsize == size
        full = len(self._known) >= REMEMBERED or self._known_bytes + head.size > REMEMBERED_BYTES
        if not same or full:
            self._known.clear()
            self._known_bytes = 0
        if same and len(block) <= BLOCK_TO_KEEP:
            self._known[block] = head
            self._known_bytes += head.size
        return head


def literal(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """As HPACK, never indexed by whoever reads it."""
    return b"".join(b"\x00" + text(name) + text(value) for name, value in headers)


def text(value: bytes) -> bytes:
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

"""Bodies that come packed, as `Content-Encoding` says: unpacked a little at a time, and never to more than a body may
have, however small it was packed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Generator
from typing import Any

from mizzen.errors import TooLarge, UnsupportedMediaType
from mizzen.gateway.request.body_budget import Share
from mizzen.protocol.v2 import cited

STEP = 256 << 10
"""Bytes that are unpacked before others have their turn: less than a millisecond."""
ENCODINGS = (b"gzip", b"deflate")

_GZIP, _ZLIB, _BARE = 31, 15, -15


def encoding_of(values: list[bytes]) -> bytes:
    """Of all headers of that name; empty: it is not packed. UnsupportedMediaType names those there are."""
    words = [word.strip().lower() for value in values for word in value.split(b",")]
    given = [word for word in words if word not in (b"", b"identity")]
    if not given:
        return b""
    encoding = given[0].removeprefix(b"x-")
    if len(given) > 1 or encoding not in ENCODINGS:
        named = b", ".join(given).decode("latin-1")
        raise UnsupportedMediaType(f"header Content-Encoding: '{cited(named)}' is not taken; gzip and deflate are")
    return encoding


async def unpacked(body: bytes, encoding: bytes, share: Share, most: int) -> bytes | None:
    """ValueError for what cannot be unpacked, TooLarge; None when there is no room for it in `share` now."""
    work = steps(body, encoding, most)
    while True:
        try:
            size = next(work)
        except StopIteration as done:
            whole: bytes = done.value
            return whole
        if not share.grow(len(body) + size):
            return None
        await asyncio.sleep(0)


def steps(body: bytes, encoding: bytes, most: int) -> Generator[int, None, bytes]:
    """Says after each how many bytes there are by now. ValueError, TooLarge."""
    machine = _machine(body, encoding)
    parts: list[bytes] = []
    size, rest = 0, body
    while not machine.eof:
        try:
            part = machine.decompress(rest, STEP)
        except zlib.error as error:
            raise ValueError(f"the body is not {encoding.decode()}: {error}") from error
        rest = machine.unconsumed_tail
        if not part and not rest:
            break
        parts.append(part)
        size += len(part)
        if size > most:
            raise TooLarge(f"the body is larger than {most} bytes")
        yield size
    if not machine.eof or machine.unused_data:
        fault = "goes on behind its end" if machine.eof else "has no end"
        raise ValueError(f"the body is not {encoding.decode()}: it {fault}")
    return b"".join(parts)


def _machine(body: bytes, encoding: bytes) -> Any:
    if encoding == b"gzip":
        return zlib.decompressobj(_GZIP)
    # Meant is zlib's format, but there are clients that leave its head out.
    headed = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return zlib.decompressobj(_ZLIB if headed else _BARE)

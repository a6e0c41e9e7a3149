"""Compressed request bodies (`Content-Encoding`): decompressed in small steps, and never beyond the body limit."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Generator
from typing import Any

from mizzen.errors import TooLarge, UnsupportedMediaType
from mizzen.gateway.request.body_budget import BodyReservation
from mizzen.protocol.v2 import shorten

STEP_BYTES = 256 << 10
"""Bytes that are decompressed before other requests get a turn: less than a millisecond."""
ENCODINGS = (b"gzip", b"deflate")

_GZIP, _ZLIB, _RAW = 31, 15, -15


def encoding_of(values: list[bytes]) -> bytes:
    """The encoding that all headers of that name give; empty: none. Raises UnsupportedMediaType."""
    words = [word.strip().lower() for value in values for word in value.split(b",")]
    given = [word for word in words if word not in (b"", b"identity")]
    if not given:
        return b""
    encoding = given[0].removeprefix(b"x-")
    if len(given) > 1 or encoding not in ENCODINGS:
        named = b", ".join(given).decode("latin-1")
        raise UnsupportedMediaType(
            f"header Content-Encoding: '{shorten(named)}' is not supported; expected gzip or deflate"
        )
    return encoding


async def decompress(body: bytes, encoding: bytes, share: BodyReservation, most: int) -> bytes | None:
    """The decompressed body; None if the budget has no room for it now. Raises ValueError and TooLarge."""
    work = decompress_steps(body, encoding, most)
    while True:
        try:
            size = next(work)
        except StopIteration as done:
            whole: bytes = done.value
            return whole
        if not share.grow(len(body) + size):
            return None
        await asyncio.sleep(0)


def decompress_steps(body: bytes, encoding: bytes, most: int) -> Generator[int, None, bytes]:
    """Decompress step by step: yields the size so far, and returns the body. Raises ValueError and TooLarge."""
    machine = _decompressor(body, encoding)
    parts: list[bytes] = []
    size, rest = 0, body
    while not machine.eof:
        try:
            part = machine.decompress(rest, STEP_BYTES)
        except zlib.error as error:
            raise ValueError(f"the body is not valid {encoding.decode()}: {error}") from error
        rest = machine.unconsumed_tail
        if not part and not rest:
            break
        parts.append(part)
        size += len(part)
        if size > most:
            raise TooLarge(f"the body is larger than {most} bytes")
        yield size
    if not machine.eof or machine.unused_data:
        fault = "data follows its end" if machine.eof else "it is truncated"
        raise ValueError(f"the body is not valid {encoding.decode()}: {fault}")
    return b"".join(parts)


def _decompressor(body: bytes, encoding: bytes) -> Any:
    if encoding == b"gzip":
        return zlib.decompressobj(_GZIP)
    # The specification means the zlib format, but some clients omit its header.
    headed = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return zlib.decompressobj(_ZLIB if headed else _RAW)

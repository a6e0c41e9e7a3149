"""Cache keys: two requests are equal if the model would be sent the same.

A key is the request's entry in an INFER frame. So it contains everything that decides the answer (inputs, requested
outputs, their format) and nothing else (id, deadline, order and spelling of other fields). Long keys are replaced by a
collision-resistant digest with a secret of this process; short keys are compared as a whole.

Spaces between numbers do not matter. Other spellings of a number do: `1` and `1.0` are two requests, which costs one
model call and no more.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from mizzen.protocol import json_tensor_split
from mizzen.protocol.frames import framing

MAX_PLAIN_KEY = 1024
"""Longer keys are digested."""
MAX_REQUEST_BYTES = 1 << 20
"""Larger requests bypass the cache: digesting them would block the event loop."""

_SPACE = b" \t\r\n"
_SECRET = os.urandom(32)
_DIGEST_PREFIX = b"\0"
"""First byte of a digest; no entry of a frame begins with it."""

_encode = msgspec.msgpack.Encoder().encode


def key_of(item: Any, size: int) -> bytes | None:
    """Returns None if the request is too large to cache. `size`: of the body it was parsed from."""
    if size > MAX_REQUEST_BYTES:
        return None
    # Data of large bodies may be unparsed (`json_tensor_split`): without spaces, malformed data may look like a number.
    if size <= json_tensor_split.LARGE and len(item) > 1:
        item = ([_strip_spaces(*entry) for entry in item[0]], *item[1:])
    key = _encode(item)
    if len(key) > MAX_PLAIN_KEY:
        return _DIGEST_PREFIX + hashlib.blake2b(key, digest_size=32, key=_SECRET).digest()
    return key


def _strip_spaces(name: str, datatype: str, shape: list[int], encoding: int, data: memoryview) -> tuple[Any, ...]:
    if encoding == framing.JSON and datatype != "BYTES":
        return name, datatype, shape, encoding, bytes(data).translate(None, _SPACE)
    return name, datatype, shape, encoding, data

"""Which requests are equal: those of which the model is sent the same.

A key is the request's entry in an INFER frame itself, so whatever decides the answer is in it (inputs, requested
outputs, the form that is wanted), and whatever does not is not (id, deadline, order and spelling of the fields around
it). Long ones are digested with a secret of this process, by a function made so that nobody can find two of one digest;
short ones are compared whole.

Spaces between numbers do not count. Other spellings of one number do: `1` and `1.0` are two requests, which costs a
call of the model and no more.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from mizzen.protocol import json_tensor_split
from mizzen.protocol.frames import framing

LONGEST = 1024
"""Bytes of a key that is kept as it is."""
MOST_BYTES = 1 << 20
"""Larger requests are always sent: to digest them would hold up everybody else."""

_SPACE = b" \t\r\n"
_SECRET = os.urandom(32)
_DIGESTED = b"\0"
"""What a digest begins with, and no entry of a frame."""

_encode = msgspec.msgpack.Encoder().encode


def key_of(item: Any, size: int) -> bytes | None:
    """None: it is too large to be looked for. `size` is that of the body it was read from."""
    if size > MOST_BYTES:
        return None
    # Data of large bodies may be cut out unread (`cutting`): there, without its spaces, a fault may read like a number.
    if size <= json_tensor_split.LARGE and len(item) > 1:
        item = ([_spaceless(*entry) for entry in item[0]], *item[1:])
    key = _encode(item)
    if len(key) > LONGEST:
        return _DIGESTED + hashlib.blake2b(key, digest_size=32, key=_SECRET).digest()
    return key


def _spaceless(name: str, datatype: str, shape: list[int], encoding: int, data: memoryview) -> tuple[Any, ...]:
    if encoding == framing.JSON and datatype != "BYTES":
        return name, datatype, shape, encoding, bytes(data).translate(None, _SPACE)
    return name, datatype, shape, encoding, data

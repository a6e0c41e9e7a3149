"""What is kept of one request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

Decision = tuple[str, str, float]
"""A node, the child it was routed to, and the probability with which that was chosen; 0.0: there is none to tell."""
Run = tuple[str, str]
"""A node, and the version that answered for it."""


class Record(msgspec.Struct, array_like=True, frozen=True):
    """What is the same for many requests: it may be encoded once for all of them."""

    generation: int
    """Of the spec that answered."""
    decisions: list[Decision]
    ran: list[Run]
    """In topological order."""


class Found(NamedTuple):
    """A whole record, as it was read."""

    id: bytes
    """The sealed one, also where it was found by another."""
    at: float
    """When it was answered, in seconds since 1970."""
    user: str
    """Empty: nobody said."""
    outputs: bytes | None
    """The payload of the answer; None: it was too large to be kept."""
    what: Record


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Record).decode


def what_of(generation: int, decisions: Iterable[Decision], ran: Iterable[Run]) -> bytes:
    return _encode(Record(generation, list(decisions), list(ran)))

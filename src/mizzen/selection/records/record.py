"""The record of one request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

RecordedDecision = tuple[str, str, float]
"""A node, the child that it routed to, and the probability of that choice; 0.0: unknown."""
RecordedRun = tuple[str, str]
"""A node, and the version that answered for it."""


class RoutingRecord(msgspec.Struct, array_like=True, frozen=True):
    """The part that is the same for many requests: it may be encoded once for all of them."""

    generation: int
    """Of the spec that answered."""
    decisions: list[RecordedDecision]
    ran: list[RecordedRun]
    """In topological order."""


class StoredRecord(NamedTuple):
    """A complete record, as read from disk."""

    id: bytes
    """The record's own id, even if it was found by a client's id."""
    at: float
    """When it was answered, in seconds since 1970."""
    user: str
    """Empty: unknown."""
    outputs: bytes | None
    """The payload of the answer; None: too large to be stored."""
    what: RoutingRecord


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(RoutingRecord).decode


def encode_record(generation: int, decisions: Iterable[RecordedDecision], ran: Iterable[RecordedRun]) -> bytes:
    return _encode(RoutingRecord(generation, list(decisions), list(ran)))

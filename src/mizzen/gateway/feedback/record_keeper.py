"""Records of what answered, kept so that feedback finds it: what a gateway hands to the log of a graph or model."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mizzen.gateway.inference import protocols
from mizzen.selection.records.segments import MAX_OUTPUTS
from mizzen.selection.records.writer import Log

if TYPE_CHECKING:
    from mizzen.gateway.inference.inference import Inference

JSON, RAW, V1 = b"j", b"r", b"1"
"""The first byte of what is kept of an answer: in which form the rest is."""
MERGED = b"m"
"""Before that: of an answer that was merged, what each member gave, and then the answer."""

Members = Sequence[tuple[str, bytes]]
"""Nodes, and what they answered, all of it as bytes."""
_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class Keeper:
    __slots__ = ("log", "new_id")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.new_id = log.reserve
        """What a request is called whose caller does not say: where its record will be."""

    def keep(self, call: Inference, what: bytes, payload: bytes) -> None:
        """An answer is about to leave. `what`: see `what_of`."""
        log = self.log
        form = JSON if call.plain else V1 if call.dialect is protocols.V1 else RAW
        if call.members:
            form = _merged(call.members, len(payload)) + form
        user = call.user.encode() if call.endpoint.bound is not None else b""
        if call.named:
            id_ = log.reserve()
            log.write(id_, what, user, form + payload)
            log.name(id_, call.id)
        else:
            log.write(call.id, what, user, form + payload)


def parts(kept: bytes) -> tuple[dict[str, bytes], bytes]:
    """What members gave, by node, and the answer, both as they were kept. ValueError."""
    if kept[:1] != MERGED:
        return {}, kept
    (length,) = _LENGTH.unpack_from(kept, 1)
    at = 1 + _LENGTH.size
    return {node: RAW + payload for node, payload in _decode(kept[at : at + length])}, kept[at + length :]


def _merged(members: Members, room: int) -> bytes:
    """Empty where there is no room for it beside the answer."""
    text = _encode(members)
    head = MERGED + _LENGTH.pack(len(text)) + text
    return head if len(head) + room < MAX_OUTPUTS else b""

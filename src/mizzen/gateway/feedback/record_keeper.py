"""Records of answers, so that feedback can find what ran: what a gateway writes to the log of a graph or model."""

from __future__ import annotations

import struct

import msgspec

from mizzen.gateway.inference import protocols
from mizzen.gateway.inference.response_parameters import Members, RecordedCall
from mizzen.selection.records.segments import MAX_OUTPUTS
from mizzen.selection.records.writer import RecordLog

JSON, RAW, V1 = b"j", b"r", b"1"
"""The first byte of a recorded answer: the format of the rest."""
MERGED = b"m"
"""Precedes that byte if the answer was merged: the output of each member follows, then the answer."""

_LENGTH = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes]]).decode


class RecordWriter:
    __slots__ = ("log", "new_id")

    def __init__(self, log: RecordLog) -> None:
        self.log = log
        self.new_id = log.reserve
        """Creates the id of a request that came without one: the place of its record."""

    def write(self, call: RecordedCall, what: bytes, payload: bytes) -> None:
        """Records an answer that is about to be sent. `what`: see `what_of`."""
        log = self.log
        form = JSON if call.plain else V1 if call.codec is protocols.V1 else RAW
        if call.members:
            form = _encode_members(call.members, len(payload)) + form
        user = call.user.encode()
        if call.named:
            id_ = log.reserve()
            log.write(id_, what, user, form + payload)
            log.add_client_id(id_, call.id)
        else:
            log.write(call.id, what, user, form + payload)


def split_members(recorded: bytes) -> tuple[dict[str, bytes], bytes]:
    """Returns the outputs of members by node, and the answer, both as recorded. Raises ValueError."""
    if recorded[:1] != MERGED:
        return {}, recorded
    (length,) = _LENGTH.unpack_from(recorded, 1)
    at = 1 + _LENGTH.size
    return {node: RAW + payload for node, payload in _decode(recorded[at : at + length])}, recorded[at + length :]


def _encode_members(members: Members, room: int) -> bytes:
    """Returns nothing if the outputs do not fit into the record next to the answer."""
    text = _encode(members)
    head = MERGED + _LENGTH.pack(len(text)) + text
    return head if len(head) + room < MAX_OUTPUTS else b""

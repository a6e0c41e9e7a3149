"""Records of what answered, kept so that feedback finds it: what a gateway hands to the log of a graph or model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mizzen.gateway import dialects
from mizzen.selection.records.log import Log

if TYPE_CHECKING:
    from mizzen.gateway.infer import Inference

JSON, RAW, V1 = b"j", b"r", b"1"
"""The first byte of what is kept of an answer: in which form the rest is."""


class Keeper:
    __slots__ = ("log", "new_id")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.new_id = log.reserve
        """What a request is called whose caller does not say: where its record will be."""

    def keep(self, call: Inference, what: bytes, payload: bytes) -> None:
        """An answer is about to leave. `what`: see `what_of`."""
        log = self.log
        form = JSON if call.plain else V1 if call.dialect is dialects.V1 else RAW
        user = call.user.encode() if call.endpoint.bound is not None else b""
        if call.named:
            id_ = log.reserve()
            log.write(id_, what, user, form + payload)
            log.name(id_, call.id)
        else:
            log.write(call.id, what, user, form + payload)

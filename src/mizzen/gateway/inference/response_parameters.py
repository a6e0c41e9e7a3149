"""What is told with an answer beside its outputs, in the words of each protocol, and what is noted of it for later.

V2 has parameters for it, in JSON and in messages of gRPC; V1 has none, so there it is headers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mizzen.gateway.grpc.wire.protobuf import field, written
from mizzen.protocol import v2

if TYPE_CHECKING:
    from mizzen.gateway.feedback.record_keeper import Keeper
    from mizzen.gateway.inference.inference import Inference

Value = str | float | bool
_DOUBLE = struct.Struct("<d")


class Notes:
    """Made once for all answers that are told the same."""

    __slots__ = ("_fields", "_lines", "json", "keeper", "parameters", "what")

    def __init__(self, parameters: Mapping[str, Value], keeper: Keeper | None = None, what: bytes = b"") -> None:
        """`keeper` keeps a record of each answer, `what` is all of it that is known already."""
        self.parameters = parameters
        self.json = b',"parameters":%b' % v2.to_json(parameters) if parameters else b""
        """What follows the id of an answer."""
        self.keeper = keeper
        self.what = what
        self._lines: bytes | None = None
        self._fields: bytes | None = None

    @property
    def lines(self) -> bytes:
        """As headers."""
        if self._lines is None:
            self._lines = b"".join(
                b"mizzen-%b: %b\r\n" % (name.replace("_", "-").encode(), v2.header_text(_text(value)))
                for name, value in self.parameters.items()
            )
        return self._lines

    @property
    def fields(self) -> bytes:
        """Of a ModelInferResponse."""
        if self._fields is None:
            self._fields = b"".join(
                field(4, field(1, name.encode()) + field(2, _parameter(value)))
                for name, value in self.parameters.items()
            )
        return self._fields

    def answered(self, call: Inference, payload: bytes, now: float) -> None:
        """Before the answer leaves: who gets it can send feedback at once."""
        if self.keeper is not None:
            self.keeper.keep(call, self.what, payload)

    def failed(self, call: Inference, code: int, text: bytes, now: float) -> tuple[int, bytes]:
        """The code and text that the caller is told."""
        return code, text

    def left(self, call: Inference, now: float) -> None:
        """The caller has gone."""

    def moved(self) -> None:
        """The request goes to somebody else, who is noted for it."""


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.6g}"


def _parameter(value: Value) -> bytes:
    if isinstance(value, bool):
        return written(1 << 3) + written(int(value))
    if isinstance(value, str):
        return field(3, value.encode())
    return written(4 << 3 | 1) + _DOUBLE.pack(value)
